"""What a method may change about a task: the rewards a learner sees, and when episodes end.

Rewards are shaped where a learner takes them in, by a pure function of the step and the stock
before it, so returns in metrics and reports stay the task's own. Ending episodes early changes what
follows, so it is a task around a task; policies are evaluated on the task itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
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

    def doubt(self, mean_reward: float) -> str | None:
        """What speaks against it where a decision brings this reward of the task on average."""


class Plain:
    """The task's own rewards."""

    def __call__(
        self, reward: Floats, stock: Floats, successor_stock: Floats, initial_stock: Floats
    ) -> Floats:
        """The same."""
        return reward

    def doubt(self, mean_reward: float) -> str | None:
        """Nothing."""
        return None


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

    def doubt(self, mean_reward: float) -> str | None:
        """A penalty must be worse than what keeping the budget brings."""
        if -self._penalty <= mean_reward:
            return None
        return (
            f"exceeding a budget pays: its reward is {-self._penalty:g} per decision and that of "
            f"the task {mean_reward:.3g} on average; a larger --shaping.penalty makes it a penalty"
        )


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

    def doubt(self, mean_reward: float) -> str | None:
        """Nothing: what is charged comes on top of the reward."""
        return None


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

    def doubt(self, mean_reward: float) -> str | None:
        """Where rewards are negative, ending early is what pays."""
        if mean_reward >= 0.0:
            return None
        return (
            f"the task's rewards are {mean_reward:.3g} per decision on average, so ending an "
            "episode by exceeding its budget pays; shift rewards above 0, or choose another method"
        )


class Around(VectorTask):
    """A task around a task, which plays its episodes.

    Args:
        task: The task itself; taken over.
    """

    def __init__(self, task: VectorTask) -> None:
        super().__init__(task.spec, task.num_envs)
        self.task = task

    def begin(self, rows: Ints, seeds: Sequence[int]) -> Floats:
        """Start episodes of the task."""
        self._lend()
        return self.task.begin(rows, seeds)

    def advance(self, actions: Floats) -> Outcome:
        """Step the task."""
        self._lend()
        return self.task.advance(actions)

    def _lend(self) -> None:
        """Tasks look at how long episodes have lasted, at who is awake, at what was last seen."""
        for name in ("lengths", "awake", "stock", "_stock_discount", "_obs"):
            if hasattr(self, name):
                setattr(self.task, name, getattr(self, name))

    def row_state(self, row: int) -> Arrays:
        """That of the task."""
        return self.task.row_state(row)

    def set_row_state(self, row: int, state: Arrays) -> None:
        """Go on from what `row_state` returned."""
        self.task.set_row_state(row, state)

    @property
    def can_be_saved(self) -> bool:
        """Whether the task's episodes under way can be saved."""
        return self.task.can_be_saved

    def positions(self) -> Floats | None:
        """Those of the task."""
        return self.task.positions()

    def close(self) -> None:
        """Close the task."""
        self.task.close()


class EarlyTermination(Around):
    """A task whose episodes terminate in the step that exceeds one of their budgets."""

    def advance(self, actions: Floats) -> Outcome:
        """Step the task; where a budget is exceeded, the episode is over."""
        out = super().advance(actions)
        costs = out.costs.astype(np.float32, copy=False)
        after = stocks.advance(self.stock, costs, self._stock_discount)
        exceeded = (after > 0.0).any(-1)
        return replace(
            out, terminated=out.terminated | exceeded, truncated=out.truncated & ~exceeded
        )


class Staggered(Around):
    """A task whose first episode in each row is dropped at a random moment.

    Episodes of one length that begin together end together for ever. So they are spread out, once:
    what is dropped is not reported, and its last step is marked as lost.
    """

    def __init__(self, task: VectorTask) -> None:
        super().__init__(task)
        self._drop_at = np.full(task.num_envs, -1)  # environment steps; -1: in its first begin

    def begin(self, rows: Ints, seeds: Sequence[int]) -> Floats:
        """Start episodes; the first ones with a moment to end at."""
        longest = self.spec.max_episode_steps or 0
        for row, seed in zip(rows, seeds, strict=True):
            first = self._drop_at[row] < 0 and longest > 1
            drawn = np.random.default_rng([seed, 1]).integers(1, longest) if first else 0
            self._drop_at[row] = drawn
        return super().begin(rows, seeds)

    def advance(self, actions: Floats) -> Outcome:
        """Step the task; drop first episodes whose moment has come."""
        out = super().advance(actions)
        if not self._drop_at.any():
            return out
        dropped = (self.lengths + 1 == self._drop_at) & self.awake & ~out.over
        if not dropped.any():
            return out
        lost = dropped if out.lost is None else dropped | out.lost
        return replace(out, truncated=out.truncated | dropped, lost=lost)

    def row_state(self, row: int) -> Arrays:
        """That of the task, and when its first episode is dropped."""
        return {**super().row_state(row), "drop_at": np.array(self._drop_at[row])}

    def set_row_state(self, row: int, state: Arrays) -> None:
        """Go on from what `row_state` returned."""
        state = dict(state)
        self._drop_at[row] = state.pop("drop_at")
        super().set_row_state(row, state)


def unshaped(task: VectorTask) -> VectorTask:
    """The task itself, without what a method changes about it."""
    return unshaped(task.task) if isinstance(task, Around) else task
