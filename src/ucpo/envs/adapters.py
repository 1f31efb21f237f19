"""Any Gymnasium environment that reports a cost, behind the task interface.

Follows Gymnasium 1.0 and later (cost in ``info``) and Safety-Gymnasium's six-value ``step``. Spaces
are recognised by what they offer, not by class, so environments of older packages pass too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ucpo.envs.interface import Ints, Outcome, TaskSpec, VectorTask
from ucpo.envs.processes import Elsewhere, Here, Host
from ucpo.errors import UsageError, nearest
from ucpo.problem import Floats

TOTAL = "cost"  # the column that holds info["cost"]


class GymnasiumTask(VectorTask):
    """A batch of Gymnasium environments.

    Episodes under way cannot be saved: Gymnasium does not say what an environment's state is.

    Args:
        make: Makes one environment; called `num_envs` times.
        num_envs: Environments in the batch.
        name: For messages and reports; by default what the environment calls itself.
        costs: Names of the costs to use, from ``info["costs"]`` (or ``"cost"`` for the total). By
            default the total if there is one, otherwise every named cost.
        asynchronous: Step each environment in a process of its own, at the same time, instead of
            one after another. Pays where a step takes much longer than passing its result between
            processes; in a script, use it under ``if __name__ == "__main__":``.
    """

    def __init__(
        self,
        make: Callable[[], Any],
        num_envs: int,
        name: str | None = None,
        costs: Sequence[str] | None = None,
        asynchronous: bool = False,
    ) -> None:
        probe = make()
        self._name = name or _name_of(probe)
        low, high = _action_bounds(probe.action_space, self._name)
        spec = TaskSpec(
            name=self._name,
            observation_size=_observation_size(probe.observation_space, self._name),
            action_low=tuple(low.tolist()),
            action_high=tuple(high.tolist()),
            cost_names=self._choose_costs(probe, low, high, costs),
            max_episode_steps=getattr(getattr(probe, "spec", None), "max_episode_steps", None),
        )
        super().__init__(spec, num_envs)
        self._hosts: list[Host]
        if asynchronous:
            probe.close()
            self._hosts = [Elsewhere(make, f"{self._name} {row}") for row in range(num_envs)]
        else:
            self._hosts = [Here(probe), *(Here(make()) for _ in range(num_envs - 1))]
        self._low, self._high = low, high
        self._action_dtype = probe.action_space.dtype
        self._action_shape = probe.action_space.shape

    def begin(self, rows: Ints, seeds: Sequence[int]) -> Floats:
        """Reset some of the environments."""
        for row, seed in zip(rows, seeds, strict=True):
            self._hosts[row].ask("reset", seed=seed)
        return np.stack([self._flat(self._hosts[row].answer()[0]) for row in rows])

    def advance(self, actions: Floats) -> Outcome:
        """Step every environment, with actions mapped from [-1, 1] to its own bounds."""
        scaled = to_bounds(actions, self._low, self._high).astype(self._action_dtype)
        for host, action in zip(self._hosts, scaled, strict=True):
            host.ask("step", action.reshape(self._action_shape))
        answers = [self._read(host.answer()) for host in self._hosts]
        successors, rewards, costs, terminated, truncated = zip(*answers, strict=True)
        return Outcome(
            successor=np.stack([self._flat(obs) for obs in successors]),
            reward=np.array(rewards, np.float64),
            costs=np.array([self._pick(named) for named in costs], np.float64),
            terminated=np.array(terminated, np.bool_),
            truncated=np.array(truncated, np.bool_),
        )

    def close(self) -> None:
        """Close every environment."""
        for host in self._hosts:
            host.close()

    def _read(self, answer: tuple[Any, ...]) -> tuple[Any, float, dict[str, float], bool, bool]:
        if len(answer) == 6:  # Safety-Gymnasium: the cost comes third
            obs, reward, cost, terminated, truncated, info = answer
            info = {**info, TOTAL: cost}
        else:
            obs, reward, terminated, truncated, info = answer
        named = dict(info.get("costs") or {})
        if TOTAL in info:
            named[TOTAL] = info[TOTAL]
        return obs, float(reward), named, bool(terminated), bool(truncated)

    def _choose_costs(
        self, env: Any, low: Floats, high: Floats, wanted: Sequence[str] | None
    ) -> tuple[str, ...]:
        """What an environment calls its costs shows only once it is stepped."""
        env.reset(seed=0)
        middle = ((low + high) / 2.0).astype(env.action_space.dtype)
        named = self._read(env.step(middle.reshape(env.action_space.shape)))[2]
        if not named:
            raise UsageError(
                f"{self._name} reports no cost: its step must put a number into info['cost'] or "
                "numbers by name into info['costs'] at every step (0.0 when nothing was spent)"
            )
        for name in wanted or ():
            if name not in named:
                raise UsageError(f"{self._name} has no cost {name!r}; {nearest(name, list(named))}")
        if wanted:
            return tuple(wanted)
        return (TOTAL,) if TOTAL in named else tuple(named)

    def _pick(self, named: dict[str, float]) -> list[float]:
        try:
            return [float(named[name]) for name in self.spec.cost_names]
        except KeyError as missing:
            raise UsageError(
                f"{self._name} left out the cost {missing} in a step, though it had reported it; "
                "every step must report every cost (0.0 when nothing was spent)"
            ) from None

    def _flat(self, obs: Any) -> Floats:
        return np.asarray(obs, np.float32).reshape(-1)


def to_bounds(actions: Floats, low: Floats, high: Floats) -> Floats:
    """Map actions from [-1, 1] (clipped) to an environment's own bounds; (..., action) each."""
    share = (np.clip(actions, -1.0, 1.0).astype(np.float64) + 1.0) / 2.0
    return low + share * (high - low)


def _name_of(env: Any) -> str:
    spec = getattr(env, "spec", None)
    return str(spec.id) if spec is not None else type(getattr(env, "unwrapped", env)).__name__


def _action_bounds(space: Any, name: str) -> tuple[Floats, Floats]:
    if not hasattr(space, "low"):
        raise UsageError(
            f"{name} has the action space {space}; UCP needs a continuous one "
            "(gymnasium.spaces.Box). A discrete choice can be posed as a Box whose largest entry "
            "wins, in a wrapper around the environment"
        )
    low, high = np.float64(space.low).reshape(-1), np.float64(space.high).reshape(-1)
    if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
        raise UsageError(
            f"{name} has the action bounds {low.tolist()} to {high.tolist()}; every action needs a "
            "finite range (gymnasium.wrappers.RescaleAction or a bounded Box gives it one)"
        )
    return low, high


def _observation_size(space: Any, name: str) -> int:
    if not hasattr(space, "low"):
        raise UsageError(
            f"{name} has the observation space {space}; UCP needs a vector of numbers "
            "(gymnasium.spaces.Box); gymnasium.wrappers.FlattenObservation makes one of a Dict"
        )
    return int(np.prod(space.shape))
