"""Any Gymnasium environment that reports a cost, behind the task interface.

Follows Gymnasium 1.0 and later (cost in ``info``) and Safety-Gymnasium's six-value ``step``. Spaces
are recognised by what they offer, not by class, so environments of older packages pass too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ucpo.envs.interface import Ints, Outcome, TaskSpec, VectorTask
from ucpo.envs.processes import TIMEOUT, Elsewhere, Here, Host
from ucpo.errors import LostError, UsageError, log, nearest, say_once
from ucpo.problem import Floats

_MOST_LOSSES = 10  # of one environment's process without a whole episode in between

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
        worker_timeout: Seconds after which such a process that does not answer counts as lost.
        restart_workers: Replace lost processes and drop their episodes, instead of stopping.
    """

    def __init__(
        self,
        make: Callable[[], Any],
        num_envs: int,
        name: str | None = None,
        costs: Sequence[str] | None = None,
        asynchronous: bool = False,
        worker_timeout: float = TIMEOUT,
        restart_workers: bool = True,
    ) -> None:
        probe = make()
        self._name = name or _name_of(probe)
        discrete = hasattr(probe.action_space, "n") and probe.action_space.shape == ()
        bounds = _choices if discrete else _action_bounds
        low, high = bounds(probe.action_space, self._name)
        self._space = probe.observation_space
        spec = TaskSpec(
            name=self._name,
            observation_size=_observation_size(self._space, self._name),
            action_low=tuple(low.tolist()),
            action_high=tuple(high.tolist()),
            cost_names=self._choose_costs(probe, low, high, costs),
            max_episode_steps=getattr(getattr(probe, "spec", None), "max_episode_steps", None),
            discrete=discrete,
        )
        super().__init__(spec, num_envs)
        self._make, self._timeout, self._restarts = make, worker_timeout, restart_workers
        self._losses = np.zeros(num_envs, np.int64)  # in a row, without a whole episode in between
        self._hosts: list[Host]
        if asynchronous:
            probe.close()
            self._hosts = [self._elsewhere(row) for row in range(num_envs)]
        else:
            self._hosts = [Here(probe), *(Here(make()) for _ in range(num_envs - 1))]
        self._low, self._high = low, high
        self._action_dtype = probe.action_space.dtype
        self._action_shape = probe.action_space.shape

    def begin(self, rows: Ints, seeds: Sequence[int]) -> Floats:
        """Reset some of the environments."""
        waiting = [
            self._ask(row, "reset", seed=seed) for row, seed in zip(rows, seeds, strict=True)
        ]
        answers = []
        for row, seed, asked in zip(rows, seeds, waiting, strict=True):
            answer = self._answer(row) if asked else None
            if answer is None:  # once more, in the process that has taken its place
                self._hosts[row].ask("reset", seed=seed)
                answer = self._hosts[row].answer()
            answers.append(self._flat(answer[0]))
        return np.stack(answers)

    def advance(self, actions: Floats) -> Outcome:
        """Step every environment, with actions mapped from [-1, 1] to its own bounds."""
        waiting = [
            self.awake[row] and self._ask(row, "step", action)
            for row, action in enumerate(self._in_its_own_units(actions))
        ]
        answers = [self._answer(row) if asked else None for row, asked in enumerate(waiting)]
        lost = np.array([answer is None for answer in answers]) & self.awake
        read = [self._missing(r) if a is None else self._taken(a) for r, a in enumerate(answers)]
        successors, rewards, costs, terminated, truncated = zip(*read, strict=True)
        outcome = Outcome(
            successor=np.stack(successors),
            reward=np.array(rewards, np.float64),
            costs=np.array([self._pick(named) for named in costs], np.float64),
            terminated=np.array(terminated, np.bool_),
            truncated=np.array(truncated, np.bool_),
            lost=lost if lost.any() else None,
        )
        if (outcome.costs < 0.0).any():
            say_once(
                f"{self._name} reports negative costs: each gives back some of the budget, so an "
                "episode may spend more later. If that is not meant, report max(cost, 0.0)"
            )
        self._losses[outcome.over & self.awake & ~lost] = 0
        return outcome

    def _in_its_own_units(self, actions: Floats) -> Floats:
        """Actions as the environment takes them: (n, *shape), or the numbers of choices, (n,)."""
        if self.spec.discrete:
            return chosen(actions, self._low)
        scaled = to_bounds(actions, self._low, self._high).astype(self._action_dtype)
        return scaled.reshape(-1, *self._action_shape)

    def _ask(self, row: int, method: str, *args: Any, **named: Any) -> bool:
        """Ask an environment; False if its process was lost and has been replaced."""
        try:
            self._hosts[row].ask(method, *args, **named)
        except LostError as error:
            self._replace(row, error)
            return False
        return True

    def _answer(self, row: int) -> Any:
        """What an environment answers; None if its process was lost and has been replaced."""
        try:
            return self._hosts[row].answer()
        except LostError as error:
            self._replace(row, error)
            return None

    def _replace(self, row: int, error: LostError) -> None:
        self._losses[row] += 1
        host = self._hosts[row]
        if (
            not self._restarts
            or self._losses[row] > _MOST_LOSSES
            or not isinstance(host, Elsewhere)
        ):
            raise error
        log.warning("%s; it is replaced, and its episode dropped", error)
        host.kill()
        self._hosts[row] = self._elsewhere(row)

    def _elsewhere(self, row: int) -> Elsewhere:
        return Elsewhere(self._make, f"{self._name} {row}", self._timeout)

    def _missing(self, row: int) -> tuple[Floats, float, dict[str, float], bool, bool]:
        """In place of an answer that never came: finite, the end of the episode, never used."""
        return self._obs[row], 0.0, dict.fromkeys(self.spec.cost_names, 0.0), False, True

    def close(self) -> None:
        """Close every environment."""
        for host in self._hosts:
            host.close()

    def _taken(self, answer: tuple[Any, ...]) -> tuple[Floats, float, dict[str, float], bool, bool]:
        obs, reward, costs, terminated, truncated = self._read(answer)
        return self._flat(obs), reward, costs, terminated, truncated

    def _read(self, answer: tuple[Any, ...]) -> tuple[Any, float, dict[str, float], bool, bool]:
        if len(answer) == 6:  # Safety-Gymnasium: the cost comes third
            obs, reward, cost, terminated, truncated, info = answer
            info = {**info, TOTAL: cost}
        else:
            obs, reward, terminated, truncated, info = answer
        named = dict(info.get("costs") or {})
        if TOTAL in info:
            named[TOTAL] = info[TOTAL]
        return obs, self._number(reward, "reward"), named, bool(terminated), bool(truncated)

    def _choose_costs(
        self, env: Any, low: Floats, high: Floats, wanted: Sequence[str] | None
    ) -> tuple[str, ...]:
        """What an environment calls its costs shows only once it is stepped."""
        env.reset(seed=0)
        discrete = not hasattr(env.action_space, "low")
        middle = low if discrete else (low + high) / 2.0
        one = middle[0] if discrete else middle.reshape(env.action_space.shape)
        named = self._read(env.step(np.asarray(one, env.action_space.dtype)[()]))[2]
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
            return [self._number(named[name], f"cost {name!r}") for name in self.spec.cost_names]
        except KeyError as missing:
            raise UsageError(
                f"{self._name} left out the cost {missing} in a step, though it had reported it; "
                "every step must report every cost (0.0 when nothing was spent)"
            ) from None

    def _number(self, value: Any, what: str) -> float:
        """A number, or an array that holds just one."""
        try:
            array = np.empty(0) if value is None else np.asarray(value, np.float64)
        except (TypeError, ValueError):
            array = np.empty(0)
        if array.size != 1:
            raise UsageError(
                f"{self._name} returned the {what} {value!r}; it must be one number a step"
            )
        return float(array.item())

    def _flat(self, obs: Any) -> Floats:
        try:
            flat = _flatten(self._space, obs)
        except (KeyError, IndexError, TypeError, ValueError):
            flat = np.empty(0, np.float32)
        if flat.size != self.spec.observation_size:
            raise UsageError(
                f"{self._name} returned an observation of shape {np.shape(obs)}, but its "
                f"observation_space is {self._space}; reset and step must both return what the "
                "space says"
            )
        return flat


def to_bounds(actions: Floats, low: Floats, high: Floats) -> Floats:
    """Map actions from [-1, 1] (clipped) to an environment's own bounds; (..., action) each."""
    share = (np.clip(actions, -1.0, 1.0).astype(np.float64) + 1.0) / 2.0
    return low + share * (high - low)


def chosen(actions: Floats, first: Floats) -> Floats:
    """Which choice has the largest number, (..., choices) -> (...), counted from the first."""
    return np.argmax(actions, axis=-1) + int(first[0])  # type: ignore[no-any-return]


def _name_of(env: Any) -> str:
    spec = getattr(env, "spec", None)
    return str(spec.id) if spec is not None else type(getattr(env, "unwrapped", env)).__name__


def _choices(space: Any, name: str) -> tuple[Floats, Floats]:
    """The first and the last choice, once for each of them."""
    count, first = int(space.n), int(getattr(space, "start", 0))
    if count < 2:
        raise UsageError(f"{name} has the action space {space}; {_ACTIONS}")
    return np.full(count, float(first)), np.full(count, float(first + count - 1))


_ACTIONS = (
    "actions must be a vector of numbers (gymnasium.spaces.Box) or a choice of two or more "
    "(gymnasium.spaces.Discrete); a wrapper around the environment (gymnasium.ActionWrapper) can "
    "pose others as one of these"
)


def _action_bounds(space: Any, name: str) -> tuple[Floats, Floats]:
    if not hasattr(space, "low"):
        raise UsageError(f"{name} has the action space {space}; {_ACTIONS}")
    low, high = np.float64(space.low).reshape(-1), np.float64(space.high).reshape(-1)
    if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
        raise UsageError(
            f"{name} has the action bounds {low.tolist()} to {high.tolist()}; every action needs a "
            "finite range (gymnasium.wrappers.RescaleAction or a bounded Box gives it one)"
        )
    return low, high


def _observation_size(space: Any, name: str) -> int:
    _refuse_images(space, name)
    if hasattr(space, "low"):
        size = int(np.prod(space.shape))
        if len(space.shape) > 1:
            say_once(
                f"{name} observes arrays of shape {space.shape}, flattened here into {size} "
                "numbers; the networks do not know which of them are neighbours, so an image is "
                "better turned into a vector by an encoder (gymnasium.ObservationWrapper)"
            )
        return size
    if not getattr(space, "is_np_flattenable", False):
        raise UsageError(
            f"{name} has the observation space {space}; UCP needs a vector of numbers "
            "(gymnasium.spaces.Box), or what can be flattened into one"
        )
    from gymnasium import spaces

    size = int(spaces.flatdim(space))
    say_once(
        f"{name} has the observation space {space}; it is flattened into a vector of {size} "
        "numbers, in the order of gymnasium.spaces.flatten"
    )
    return size


def _refuse_images(space: Any, name: str) -> None:
    parts = getattr(space, "spaces", ())
    for part in parts.values() if hasattr(parts, "values") else parts:
        _refuse_images(part, name)
    if getattr(space, "dtype", None) == np.uint8 and len(space.shape) >= 2:
        raise UsageError(
            f"{name} observes images (uint8 of shape {space.shape}); the networks here are for "
            "vectors. Observe positions and speeds instead, or wrap the environment so that an "
            "encoder of yours turns images into a vector (gymnasium.ObservationWrapper); small "
            "pictures may be flattened with gymnasium.wrappers.FlattenObservation"
        )


def _flatten(space: Any, obs: Any) -> Floats:
    """An observation as one vector."""
    if not hasattr(space, "low"):
        from gymnasium import spaces

        obs = spaces.flatten(space, obs)
    return np.asarray(obs, np.float32).reshape(-1)
