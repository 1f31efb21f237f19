"""Which budgets training episodes begin with: drawn from all of them, or moved as they are kept.

A schedule is whatever answers the questions of
`ucpo.learners.interface.Schedule`; one of your own is named by ``--schedule.own
my_module:MySchedule`` and is called with the `BudgetGrid`.
"""

from __future__ import annotations

import numpy as np

from ucpo.envs.interface import Arrays, Episodes
from ucpo.errors import UsageError
from ucpo.problem import BudgetGrid, Floats
from ucpo.storage import states


class Uniform:
    """Any level of a grid, one as often as another; a single budget is a grid of one level.

    Args:
        grid: The budgets.
    """

    def __init__(self, grid: BudgetGrid) -> None:
        self._grid = grid

    def draw(self, generator: np.random.Generator) -> Floats:
        """One of the levels of each cost."""
        return self._grid.draw(generator)

    def observe(self, episodes: Episodes) -> None:
        """What episodes cost changes nothing."""

    def state(self) -> Arrays:
        """There is nothing to remember."""
        return {}

    def restore(self, state: Arrays) -> None:
        """There is nothing to go on from."""


class Simmer:
    """A budget below the one to keep while episodes exceed that one (Sootla et al., 2022).

    With ``e`` the smoothed difference between the budget and what an episode cost, a PI controller
    with a guard against wind-up chooses the training budget ``d``, anew after every episode::

        e <- smoothing e + (1 - smoothing) (budget - cost)
        raw <- kp e + ki (sum of the last ten e) + kaw (a - raw)
        a <- raw, at most `reach` from 0          d <- budget + a, within 0 and budget

    It begins at the budget, so it only ever lowers it.

    Args:
        grid: One budget per cost.
        gains: kp, ki and kaw.
        smoothing: Share of the old error in the new one.
        reach: Cost units the training budget may be below the budget.
    """

    HISTORY = 10

    def __init__(
        self,
        grid: BudgetGrid,
        gains: tuple[float, ...],
        *,
        smoothing: float = 0.995,
        reach: float = 1.0,
    ) -> None:
        if any(levels > 1 for levels in grid.levels):
            raise UsageError("Simmer lowers one budget, not a range of them; give --budget")
        self._budget = np.array(grid.high)
        self._gains, self._smoothing, self._reach = gains, smoothing, reach
        C = len(grid.levels)
        self._error, self._raw, self._action = np.zeros(C), np.zeros(C), np.zeros(C)
        self._history = np.zeros((0, C))

    @property
    def budget(self) -> Floats:
        """Of the next training episode, (C,)."""
        budget: Floats = np.clip(self._budget + self._action, 0.0, self._budget)
        return budget

    def draw(self, generator: np.random.Generator) -> Floats:
        """The same for all episodes, until one has finished."""
        stock: Floats = -self.budget.astype(np.float32)
        return stock

    def observe(self, episodes: Episodes) -> None:
        """Let each episode move it."""
        for costs in episodes.costs:
            self.control(costs)

    def control(self, costs: Floats) -> None:
        """Answer what an episode cost, (C,), with a training budget."""
        kp, ki, guard = self._gains
        old = self._smoothing
        self._error = old * self._error + (1.0 - old) * (self._budget - costs)
        self._history = np.vstack([self._history, self._error])[-self.HISTORY :]
        beyond = self._action - self._raw
        self._raw = kp * self._error + ki * self._history.sum(0) + guard * beyond
        self._action = np.clip(self._raw, -self._reach, self._reach)

    def state(self) -> Arrays:
        """What `restore` needs to go on from here."""
        kept = {"error": self._error, "raw": self._raw, "action": self._action}
        return {name: value.copy() for name, value in (*kept.items(), ("history", self._history))}

    def restore(self, state: Arrays) -> None:
        """Go on from a saved state."""
        states.fit(state, self.state(), "Simmer", lengths=False)
        self._error, self._raw = state["error"].copy(), state["raw"].copy()
        self._action, self._history = state["action"].copy(), state["history"].copy()
