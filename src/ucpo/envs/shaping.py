"""What a method may change about a task: the rewards a learner sees, and when episodes end.

Rewards are shaped where a learner takes them in, by a pure function of the step and the stock
before it, so returns in metrics and reports stay the task's own. Ending episodes early changes what
follows, so it is a task around a task; policies are evaluated on the task itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from ucpo import stock as stocks
from ucpo.envs.interface import Arrays, Ints, Outcome, VectorTask
from ucpo.problem import Floats


class Shaping(Protocol):
    """The reward a learner sees instead of the task's."""

    def __call__(
        self, reward: Floats, stock: Floats, successor_stock: Floats, initial_stock: Floats
    ) -> Floats:
        """Shaped rewards, (n,).

        Args:
            reward: Of the step, (n,).
            stock: Before the step, in cost units, (n, C), like the two that follow.
            successor_stock: After it.
            initial_stock: At the start of the episode.
        """


class Plain:
    """The task's own rewards."""

    def __call__(
        self, reward: Floats, stock: Floats, successor_stock: Floats, initial_stock: Floats
    ) -> Floats:
        """The same."""
        return reward


class Saute:
    """A fixed penalty instead of the reward while a budget is exceeded (Sootla et al., 2022).

    Exactly on budget is within it.

    Args:
        penalty: Minus the reward of every step after which a budget is exceeded.
    """

    def __init__(self, penalty: float) -> None:
        self._penalty = penalty

    def __call__(
        self, reward: Floats, stock: Floats, successor_stock: Floats, initial_stock: Floats
    ) -> Floats:
        """The reward where every budget holds, minus the penalty elsewhere."""
        return np.where((successor_stock <= 0.0).all(-1), reward, -self._penalty)


class Penalty:
    """A priced penalty for what a step adds to a utility of the stock.

    The increments ``g(Z') - g(Z)`` add up to the utility of the final stock. With the excess they
    charge what lies above the budget; with `all_or_nothing` everything spent so far in the step
    that crosses it, and every cost from then on (Jiang et al., 2024).

    Args:
        price: Reward given up per unit of utility.
        utility: Of stocks (n, C) in episodes that began with initial stocks (n, C); (n, C).
    """

    def __init__(self, price: float, utility: Callable[[Floats, Floats], Floats]) -> None:
        self._price, self._utility = price, utility

    def __call__(
        self, reward: Floats, stock: Floats, successor_stock: Floats, initial_stock: Floats
    ) -> Floats:
        """The reward minus the priced increments of all costs."""
        before = self._utility(stock, initial_stock)
        after = self._utility(successor_stock, initial_stock)
        charged: Floats = self._price * (after - before).sum(-1)
        return reward - charged


def excess(stock: Floats, initial_stock: Floats) -> Floats:
    """What lies above the budget, in cost units."""
    return np.maximum(stock, 0.0)


def all_or_nothing(stock: Floats, initial_stock: Floats) -> Floats:
    """All that was spent where the budget is exceeded, else nothing; in cost units."""
    return np.where(stock > 0.0, stock - initial_stock, 0.0)


class NothingOnceExceeded:
    """No reward for the step that exceeds a budget; goes with `EarlyTermination`."""

    def __call__(
        self, reward: Floats, stock: Floats, successor_stock: Floats, initial_stock: Floats
    ) -> Floats:
        """The reward where every budget holds, nothing elsewhere."""
        return np.where((successor_stock <= 0.0).all(-1), reward, 0.0)


class EarlyTermination(VectorTask):
    """A task whose episodes terminate in the step that exceeds one of their budgets.

    Args:
        task: The task itself; taken over.
    """

    def __init__(self, task: VectorTask) -> None:
        super().__init__(task.spec, task.num_envs)
        self._task = task

    def begin(self, rows: Ints, seeds: Sequence[int]) -> Floats:
        """Start episodes of the task."""
        self._lend()
        return self._task.begin(rows, seeds)

    def advance(self, actions: Floats) -> Outcome:
        """Step the task; where a budget is exceeded, the episode is over."""
        self._lend()
        out = self._task.advance(actions)
        costs = out.costs.astype(np.float32, copy=False)
        after = stocks.advance(self.stock, costs, self._stock_discount)
        exceeded = (after > 0.0).any(-1)
        return Outcome(
            successor=out.successor,
            reward=out.reward,
            costs=out.costs,
            terminated=out.terminated | exceeded,
            truncated=out.truncated & ~exceeded,
            lost=out.lost,
        )

    def _lend(self) -> None:
        """Tasks look at how long episodes have lasted, at who is awake, at what was last seen."""
        self._task.lengths, self._task.awake = self.lengths, self.awake
        self._task._obs = getattr(self, "_obs", np.zeros(0, np.float32))

    def row_state(self, row: int) -> Arrays:
        """That of the task."""
        return self._task.row_state(row)

    def set_row_state(self, row: int, state: Arrays) -> None:
        """Go on from what `row_state` returned."""
        self._task.set_row_state(row, state)

    @property
    def can_be_saved(self) -> bool:
        """Whether the task's episodes under way can be saved."""
        return self._task.can_be_saved

    def positions(self) -> Floats | None:
        """Those of the task."""
        return self._task.positions()

    def close(self) -> None:
        """Close the task."""
        self._task.close()
