"""The one interface agents, training and evaluation see: a batch of environments with stocks.

A task fills in two methods, `begin` and `advance`; everything that must not differ between tasks
(stock, autoreset, what counts as the successor, bookkeeping of episodes) is here, once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucpo import stock as stocks
from ucpo.errors import NotFiniteError, UsageError
from ucpo.problem import Floats
from ucpo.stock import Start

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
Arrays = dict[str, NDArray[Any]]
"""A saved state: arrays by name, fit for any file format that holds arrays."""


@dataclass(frozen=True)
class TaskSpec:
    """What can be known of a task without stepping it."""

    name: str
    observation_size: int
    action_low: tuple[float, ...]
    """Bounds in the environment's own units. Agents act in [-1, 1]; the task maps. Where actions
    are choices, the first of them and the last, once for each."""
    action_high: tuple[float, ...]
    cost_names: tuple[str, ...]
    max_episode_steps: int | None
    """Environment steps after which an episode is truncated, if known."""
    discrete: bool = False
    """Whether an action is one of several choices. Agents then give a number for each of them, and
    the task makes the choice with the largest."""

    @property
    def action_size(self) -> int:
        """Numbers in an action."""
        return len(self.action_low)


@dataclass(frozen=True, slots=True)
class Hold:
    """How long a decision is kept, and the discounts of what it brings, per environment step.

    Beyond the paper, whose agents decide at every step.
    """

    env_steps: int = 1
    gamma: float = 1.0
    cost_gamma: float = 1.0


EVERY_STEP = Hold()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What `n` environments answered, before any of them is reset."""

    successor: Floats  # (n, obs)
    reward: Floats  # (n,)
    costs: Floats  # (n, C)
    terminated: Bools  # (n,)
    truncated: Bools  # (n,)
    lost: Bools | None = None  # (n,) environments that broke; the rest of their row means nothing

    @property
    def over(self) -> Bools:
        """Rows whose episode ended, (n,)."""
        return self.terminated | self.truncated

    def only(self, awake: Bools) -> Outcome:
        """The same with nothing in the rows that are not `awake`, (n,)."""
        return Outcome(
            successor=np.where(awake[:, None], self.successor, np.float32(0.0)),
            reward=np.where(awake, self.reward, 0.0),
            costs=np.where(awake[:, None], self.costs, 0.0),
            terminated=awake & self.terminated,
            truncated=awake & self.truncated,
            lost=None if self.lost is None else awake & self.lost,
        )

    def then(self, later: Outcome, awake: Bools, gamma: float, cost_gamma: float) -> Outcome:
        """This and what rows `awake` (n,) were answered a step later, as one decision's outcome.

        Args:
            later: The answer to the same actions; nothing in the other rows.
            awake: Rows whose episode went on until then.
            gamma: Weight of the later rewards.
            cost_gamma: Weight of the later costs.
        """
        lost = [out.lost for out in (self, later) if out.lost is not None]
        return Outcome(
            successor=np.where(awake[:, None], later.successor, self.successor),
            reward=self.reward + gamma * later.reward,
            costs=self.costs + cost_gamma * later.costs,
            terminated=self.terminated | later.terminated,
            truncated=self.truncated | later.truncated,
            lost=np.logical_or.reduce(lost) if lost else None,
        )


@dataclass(frozen=True, slots=True)
class Episodes:
    """Finished episodes, `k` of them; costs and returns are undiscounted sums."""

    initial_stock: Floats  # (k, C)
    returns: Floats  # (k,)
    costs: Floats  # (k, C)
    lengths: Ints  # (k,) environment steps
    seeds: Ints  # (k,)
    rows: Ints  # (k,) which environment of the batch

    def __len__(self) -> int:
        return len(self.returns)


@dataclass(frozen=True, slots=True)
class Step:
    """What a batch of n environments answered. Rows that ended have already been reset."""

    obs: Floats  # (n, obs) what to act on next
    stock: Floats  # (n, C) and with which stock
    successor: Floats  # (n, obs) what the action led to; not `obs` where an episode ended
    successor_stock: Floats  # (n, C) the stock of the same episode there
    initial_stock: Floats  # (n, C) the stock the stepped episode began with
    reward: Floats  # (n,) discounted within a decision that is held
    costs: Floats  # (n, C) likewise
    env_steps: Ints  # (n,) made: as many as decisions are held for, fewer where an episode ended
    terminated: Bools  # (n,) there is no future: do not bootstrap
    truncated: Bools  # (n,) time ran out: bootstrap from `successor`
    episodes: Episodes  # those that ended in this step
    lost: Bools | None = None  # (n,) where an episode was dropped because its environment broke


_KEPT = ("_obs", "stock", "initial_stock", "lengths", "_seeds", "_returns", "_costs")


class VectorTask(ABC):
    """`num_envs` environments stepped together, with the stock beside the observation."""

    def __init__(self, spec: TaskSpec, num_envs: int) -> None:
        if num_envs < 1:
            raise UsageError(f"num_envs must be at least 1, got {num_envs}")
        self.spec = spec
        self.num_envs = num_envs
        self.lengths: Ints = np.zeros(num_envs, np.int64)
        """Environment steps made in the episodes under way, (n,)."""
        self.awake: Bools = np.ones(num_envs, np.bool_)
        """Rows that `advance` is for, (n,): an episode that ended sits out the rest of a decision.
        What is answered for the other rows is not looked at."""

    @abstractmethod
    def begin(self, rows: Ints, seeds: Sequence[int]) -> Floats:
        """Start episodes in rows (k,), each a function of its seed; observations (k, obs)."""

    @abstractmethod
    def advance(self, actions: Floats) -> Outcome:
        """Make one step everywhere with actions in [-1, 1], (n, action), resetting nothing.

        Where stepping an episode that has ended does harm, rows that are not `awake` are left out.
        """

    def row_state(self, row: int) -> Arrays:
        """What the episode in a row needs to go on, beside what this class keeps."""
        raise UsageError(
            f"{self.spec.name} cannot save an episode under way: its environments do not say what "
            "their state is. Save between episodes, or fill in row_state and set_row_state"
        )

    @property
    def can_be_saved(self) -> bool:
        """Whether episodes under way can be saved."""
        return type(self).row_state is not VectorTask.row_state

    def set_row_state(self, row: int, state: Arrays) -> None:
        """Go on in a row from what `row_state` returned."""
        raise UsageError(f"{self.spec.name} cannot go on from a saved episode")

    def positions(self) -> Floats | None:
        """Where each robot is seen from above, (n, 2) in metres; None where there is no place."""
        return None

    def close(self) -> None:  # noqa: B027 - most tasks hold nothing to let go of
        """Free what the task holds."""

    def reset(self, starts: Iterator[Start], stock_discount: float = 1.0) -> tuple[Floats, Floats]:
        """Begin an episode everywhere; this and every later episode takes the next start.

        Args:
            starts: Seeds and initial stocks of the episodes to come; must not run out.
            stock_discount: See `ucpo.stock.advance`.

        Returns:
            Observations (n, obs) and stocks (n, C) to act on.
        """
        n, C = self.num_envs, len(self.spec.cost_names)
        self._starts, self._stock_discount = starts, stock_discount
        self.initial_stock = np.zeros((n, C), np.float32)
        self.stock = np.zeros((n, C), np.float32)
        self.lengths = np.zeros(n, np.int64)
        self._seeds = np.zeros(n, np.int64)
        self._returns = np.zeros(n)
        self._costs = np.zeros((n, C))
        self._no_episodes = self._episodes(np.arange(0))
        self._obs = self._begin(np.arange(n))  # what to act on next
        return self._obs, self.stock.copy()

    def get_state(self) -> Arrays:
        """Everything the episodes under way need to go on, bit for bit, in another process.

        Starts of later episodes are not part of it: they belong to whoever hands them out.
        """
        if not hasattr(self, "_starts"):
            raise UsageError(f"{self.spec.name} has no state before its first reset")
        state: Arrays = {name.strip("_"): getattr(self, name).copy() for name in _KEPT}
        state["stock_discount"] = np.array(self._stock_discount)
        for row in range(self.num_envs):
            state |= {f"rows/{row}/{name}": kept for name, kept in self.row_state(row).items()}
        return state

    def set_state(self, state: Arrays, starts: Iterator[Start]) -> tuple[Floats, Floats]:
        """Go on from what `get_state` returned, instead of `reset`.

        Args:
            state: Of a task with the same name, options and number of environments.
            starts: Seeds and initial stocks of the episodes to come, as for `reset`.

        Returns:
            Observations (n, obs) and stocks (n, C) to act on.
        """
        shape = (self.num_envs, self.spec.observation_size)
        if state["obs"].shape != shape:
            raise UsageError(
                f"the saved state is of {len(state['obs'])} environments with observations of size "
                f"{state['obs'].shape[1]}; {self.spec.name} here has {shape[0]} of size {shape[1]}"
            )
        self._starts, self._stock_discount = starts, float(state["stock_discount"])
        for name in _KEPT:
            setattr(self, name, state[name.strip("_")].copy())
        self._no_episodes = self._episodes(np.arange(0))
        for row in range(self.num_envs):
            prefix = f"rows/{row}/"
            mine = {key.removeprefix(prefix): state[key] for key in state if key.startswith(prefix)}
            self.set_row_state(row, mine)
        return self._obs.copy(), self.stock.copy()

    def step(self, actions: Floats, hold: Hold = EVERY_STEP) -> Step:
        """Act everywhere, then start new episodes where one ended.

        Args:
            actions: In [-1, 1], (n, action).
            hold: Environment steps the actions are kept for; one by default.
        """
        self._decided_at = self.lengths.copy()
        self.awake = np.ones(self.num_envs, np.bool_)
        out = self._advance(actions)
        for later in range(1, hold.env_steps):
            self.awake = ~out.over
            if not self.awake.any():
                break
            weights = hold.gamma**later, hold.cost_gamma**later
            out = out.then(self._advance(actions), self.awake, *weights)
        env_steps = self.lengths - self._decided_at
        successor_stock, initial_stock = self.stock, self.initial_stock.copy()
        obs = out.successor
        ended, episodes = np.flatnonzero(out.over), self._no_episodes
        if len(ended):
            episodes = self._episodes(ended if out.lost is None else ended[~out.lost[ended]])
            self.stock, obs = successor_stock.copy(), obs.copy()
            obs[ended] = self._begin(ended)
        self._obs = obs
        return Step(
            obs=obs,
            stock=self.stock.copy(),
            successor=out.successor,
            successor_stock=successor_stock,
            initial_stock=initial_stock,
            reward=out.reward,
            costs=out.costs,
            env_steps=env_steps,
            terminated=out.terminated,
            truncated=out.truncated,
            episodes=episodes,
            lost=out.lost,
        )

    def _advance(self, actions: Floats) -> Outcome:
        """One environment step where rows are awake, added to what their episodes have made."""
        out, everywhere = self.advance(actions), bool(self.awake.all())
        if not everywhere:
            out = out.only(self.awake)
        self._refuse_nonsense(out, actions)
        self._returns += out.reward
        self._costs += out.costs
        self.lengths += self.awake
        # Costs are added before any reset, so the successor carries its own episode's stock.
        costs = out.costs.astype(np.float32, copy=False)
        stock = stocks.advance(self.stock, costs, self._stock_discount)
        self.stock = stock if everywhere else np.where(self.awake[:, None], stock, self.stock)
        return out

    def _episodes(self, rows: Ints) -> Episodes:
        """What the episodes in some rows (k,) have come to."""
        return Episodes(
            initial_stock=self.initial_stock[rows],
            returns=self._returns[rows],
            costs=self._costs[rows],
            lengths=self.lengths[rows],
            seeds=self._seeds[rows],
            rows=rows,
        )

    def _begin(self, rows: Ints) -> Floats:
        begun = [next(self._starts) for _ in rows]
        self.stock[rows] = self.initial_stock[rows] = [start.stock for start in begun]
        self._seeds[rows] = [start.seed for start in begun]
        self.lengths[rows] = 0
        self._returns[rows] = 0.0
        self._costs[rows] = 0.0
        return self.begin(rows, [start.seed for start in begun])

    def _refuse_nonsense(self, out: Outcome, actions: Floats) -> None:
        for name, value in (
            ("costs", out.costs),
            ("reward", out.reward),
            ("observation", out.successor),
        ):
            if not np.isfinite(value).all():
                row = int(np.argwhere(~np.isfinite(value))[0, 0])
                raise BrokenStepError(
                    f"{self.spec.name}: environment {row} returned a non-finite {name} "
                    f"({np.asarray(value)[row]}) at step {self.lengths[row] + 1} of its episode; "
                    "a task must return finite numbers",
                    row=row,
                    start=Start(int(self._seeds[row]), self.initial_stock[row].copy()),
                    made=int(self.lengths[row]),
                    held=int(self.lengths[row] - self._decided_at[row]),
                    action=np.array(actions[row]),
                )


class BrokenStepError(NotFiniteError):
    """An environment returned NaN or infinity.

    Attributes:
        row: Which environment of the batch.
        start: How its episode began.
        made: Environment steps of the episode before this one.
        held: How many of these the same action had been kept for.
        action: What it was answering.
    """

    def __init__(
        self, text: str, *, row: int, start: Start, made: int, held: int, action: Floats
    ) -> None:
        super().__init__(text)
        self.row, self.start, self.made, self.held, self.action = row, start, made, held, action
