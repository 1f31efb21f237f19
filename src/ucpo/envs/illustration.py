"""Small problems whose best return at each budget is known exactly.

`TwoActions` is the problem of appendix B of the paper. `Courier` is the task of ``make demo``: many
small decisions, each of which may cost something, under a budget that must not be exceeded.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ucpo.envs.interface import Arrays, Ints, Outcome, TaskSpec, VectorTask
from ucpo.errors import UsageError
from ucpo.problem import Floats


class TwoActions(VectorTask):
    """One state; staying (action above 0) pays 1 and costs 1, anything else ends the episode."""

    def __init__(
        self,
        num_envs: int,
        name: str = "TwoActions-v0",
        max_episode_steps: int = 100,
        cost_names: Sequence[str] = ("cost",),
    ) -> None:
        _need_one_name_of(cost_names, 1, name)
        super().__init__(
            TaskSpec(name, 1, (-1.0,), (1.0,), tuple(cost_names), max_episode_steps), num_envs
        )
        self._limit = max_episode_steps

    def begin(self, rows: Ints, seeds: Sequence[int]) -> Floats:
        """The one state there is."""
        return np.zeros((len(rows), 1), np.float32)

    def advance(self, actions: Floats) -> Outcome:
        """Stay or end."""
        stays = actions[:, 0] > 0.0
        return Outcome(
            successor=np.zeros((self.num_envs, 1), np.float32),
            reward=stays.astype(np.float64),
            costs=stays[:, None].astype(np.float64),
            terminated=~stays,
            truncated=stays & (self.lengths + 1 >= self._limit),
        )

    def row_state(self, row: int) -> Arrays:
        """Nothing: how long an episode has lasted is all there is."""
        return {}

    def set_row_state(self, row: int, state: Arrays) -> None:
        """Nothing to do."""


def two_actions_optimum(budget: float) -> float:
    """Best return of `TwoActions` within the budget: stay while the stock is at most -1."""
    return float(np.floor(budget))


def two_actions_mean_optimum(gamma: float) -> float:
    """Chance of staying that makes the expected discounted return exactly 1 (risk-neutral)."""
    return 1.0 / (1.0 + gamma)


class Courier(VectorTask):
    """A courier drives for a number of steps, choosing a speed between 0 and 1 at each.

    Every street has a risk, uniform in [0, 1] and seen beforehand. Up to the safe speed of 1/2
    nothing happens; beyond it, an incident costing 1 happens with probability
    ``risk * (2 * speed - 1)``. The reward is the speed. With several costs, each street bears the
    risk of one of them, at random. The observation is the risk of each cost here and the share of
    the drive that is left.
    """

    SAFE_SPEED = 0.5

    def __init__(
        self,
        num_envs: int,
        name: str = "Courier-v0",
        max_episode_steps: int = 40,
        cost_names: Sequence[str] = ("near_misses",),
    ) -> None:
        spec = TaskSpec(
            name=name,
            observation_size=len(cost_names) + 1,
            action_low=(-1.0,),
            action_high=(1.0,),
            cost_names=tuple(cost_names),
            max_episode_steps=max_episode_steps,
        )
        super().__init__(spec, num_envs)
        self._limit = max_episode_steps
        # Everything random about an episode, drawn when it begins; the last street is never driven.
        self._risks = np.zeros((num_envs, max_episode_steps + 1, len(cost_names)))
        self._luck = np.zeros((num_envs, max_episode_steps))

    def begin(self, rows: Ints, seeds: Sequence[int]) -> Floats:
        """Draw the streets and the luck of the drive."""
        _, streets, kinds = self._risks.shape
        for row, seed in zip(rows, seeds, strict=True):
            generator = np.random.default_rng(seed)
            kind = generator.integers(kinds, size=streets)
            self._risks[row] = 0.0
            self._risks[row, np.arange(streets), kind] = generator.random(streets)
            self._luck[row] = generator.random(streets - 1)
        return self._observe(rows, np.zeros(len(rows), np.int64))

    def advance(self, actions: Floats) -> Outcome:
        """Drive one street."""
        rows = np.arange(self.num_envs)
        street = np.minimum(self.lengths, self._limit - 1)  # beyond it nobody is awake
        speed = (np.clip(actions[:, 0].astype(np.float64), -1.0, 1.0) + 1.0) / 2.0
        haste = np.maximum(speed / self.SAFE_SPEED - 1.0, 0.0)
        danger = self._risks[rows, street] * haste[:, None]
        return Outcome(
            successor=self._observe(rows, street + 1),
            reward=speed,
            costs=(self._luck[rows, street, None] < danger).astype(np.float64),
            # The drive is over, and the observation shows it coming: an end, not a time limit.
            terminated=self.lengths + 1 >= self._limit,
            truncated=np.zeros(self.num_envs, np.bool_),
        )

    def row_state(self, row: int) -> Arrays:
        """The streets and the luck of the drive."""
        return {"risks": self._risks[row].copy(), "luck": self._luck[row].copy()}

    def set_row_state(self, row: int, state: Arrays) -> None:
        """Go on from what `row_state` returned."""
        self._risks[row], self._luck[row] = state["risks"], state["luck"]

    def _observe(self, rows: Ints, streets: Ints) -> Floats:
        left = 1.0 - streets / self._limit
        return np.column_stack([self._risks[rows, streets], left]).astype(np.float32)


def courier_optimum(budgets: Sequence[int], max_episode_steps: int = 40) -> Floats:
    """Best expected return of `Courier` that never exceeds a budget, by dynamic programming.

    Exact: speeding gains 1/2 and, with probability equal to the risk, loses a unit of budget. If it
    is worth `loss` from the next step on, speeding pays for risks below ``1 / (2 loss)``; the
    expectation over the uniform risk of what it then brings has a closed form.

    Args:
        budgets: Largest whole budget of each cost.
        max_episode_steps: Length of the drive.

    Returns:
        Expected return at every budget up to the largest, shape ``(budgets[0] + 1, ...)``. Costs
        are whole numbers, so a budget of 2.5 is worth as much as one of 2.
    """
    value = np.zeros([budget + 1 for budget in budgets])
    for _ in range(max_episode_steps):
        gain = np.zeros_like(value)
        for cost in range(value.ndim):
            loss = np.diff(value, axis=cost)
            pays = np.where(loss <= 0.5, 0.5 - loss / 2.0, 0.125 / np.maximum(loss, 0.5))
            nothing_left = np.zeros_like(value.take([0], cost))
            gain += np.concatenate([nothing_left, pays], cost) / value.ndim
        value = Courier.SAFE_SPEED + gain + value
    return value


def courier_mean_optimum(budget: float, max_episode_steps: int = 40) -> float:
    """Best expected return of `Courier` (one cost) whose *mean* cost is within the budget.

    Speeding wherever the risk is below c costs ``c**2 / 2`` a step on average.
    """
    threshold = min(1.0, float(np.sqrt(2.0 * budget / max_episode_steps)))
    return max_episode_steps * (Courier.SAFE_SPEED + threshold / 2.0)


def _need_one_name_of(names: Sequence[str], count: int, task: str) -> None:
    if len(names) != count:
        raise UsageError(f"{task} has {count} cost, got the names {', '.join(names)}")
