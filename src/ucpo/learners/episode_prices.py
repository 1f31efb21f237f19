"""Prices for learners that act with one policy for a while: every finished episode counts once.

`EpisodeAscent` moves a table of prices by the episodes since the last update and no others;
`Switch` prices a cost out of all proportion while it is exceeded, and not at all otherwise.
"""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np
import torch
from torch import Tensor

from ucpo.envs.interface import Arrays, Episodes
from ucpo.errors import UsageError
from ucpo.learners.multipliers import Ascent, Gradient, look_up
from ucpo.problem import BudgetGrid, Problem
from ucpo.storage import states


class EpisodeAscent:
    """Prices moved by each finished episode once, at its own level; other levels stay as they are.

    Plain ascent adds ``rate * violation`` for every episode, so what becomes of a price does not
    depend on environments, rollouts or updates in between. Adam steps once per update along the
    mean violation of a level, and remembers and counts for each level apart.

    Args:
        problem: The constraints, one per cost.
        grid: The initial budgets with a price of their own.
        ascent: How a step is made.
        initial: First value of every price.
        minimum: Prices are kept at least this high.
        maximum: ... and at most this high.
        start: Environment steps before the prices begin to move.
    """

    def __init__(
        self,
        problem: Problem,
        grid: BudgetGrid,
        ascent: Ascent,
        *,
        initial: float,
        minimum: float = 0.0,
        maximum: float = math.inf,
        start: int = 0,
    ) -> None:
        ascent.must_reach(minimum)
        self.grid, self._problem, self._ascent = grid, problem, ascent
        self._bounds, self._start = (minimum, maximum), start
        self._sums = type(ascent) is Gradient
        first = float(ascent.parameter(torch.tensor(initial)))
        self._levels = [[torch.full((1,), first) for _ in range(levels)] for levels in grid.levels]
        self._flat = [level for levels in self._levels for level in levels]
        self._optimiser = ascent.optimiser(self._flat)
        self._new = np.zeros((0, 2 * len(grid.levels)), np.float32)  # initial and final stocks

    def tables(self) -> list[Tensor]:
        """All prices: for each cost its levels, the largest budget first."""
        return [self._ascent.price(torch.cat(levels)) for levels in self._levels]

    def value(self, initial_stock: Tensor) -> Tensor:
        """Prices of episodes that began with these stocks, both (batch, C)."""
        return look_up(self.tables(), self.grid, initial_stock)

    def observe(self, episodes: Episodes) -> None:
        """Note finished episodes; their undiscounted cost is what counts."""
        first = episodes.initial_stock
        seen = np.concatenate([first, first + episodes.costs], axis=1).astype(np.float32)
        self._new = np.concatenate([self._new, seen])

    def update(self, env_steps: int) -> None:
        """Let the episodes since the last update move the prices of their levels."""
        initial, final = (torch.from_numpy(part) for part in np.split(self._new, 2, axis=1))
        self._new = self._new[:0]
        if env_steps < self._start or not len(initial):
            return
        for cost, (limit, levels) in enumerate(
            zip(self._problem.constraints, self._levels, strict=True)
        ):
            by_level: dict[int, list[float]] = defaultdict(list)
            violations = limit.violation(final[:, cost], initial[:, cost]).tolist()
            bins = self.grid.bin(initial[:, cost], cost).tolist()
            for level, violation in zip(bins, violations, strict=True):
                by_level[int(level)].append(violation)
            for index, level in enumerate(levels):
                found = by_level.get(index)
                level.grad = None if found is None else self._slope(level, found)
        self._optimiser.step()  # what has no gradient is left as it is, momentum included
        self._clip()

    def _slope(self, parameter: Tensor, violations: list[float]) -> Tensor:
        total = sum(violations) if self._sums else sum(violations) / len(violations)
        return self._ascent.slope(parameter, torch.full_like(parameter, total))

    def _clip(self) -> None:
        for level in self._flat:
            price = self._ascent.price(level)
            clipped = price.clamp(*self._bounds)
            if clipped != price:
                level.copy_(self._ascent.parameter(clipped))

    def state(self) -> Arrays:
        """What `restore` needs to go on from here."""
        return {
            "levels": torch.cat(self._flat).numpy().copy(),
            "new": self._new.copy(),
            **states.within("optimiser", states.of_optimiser(self._optimiser, self._flat)),
        }

    def restore(self, state: Arrays) -> None:
        """Go on from a saved state."""
        own = {key: value for key, value in state.items() if "/" not in key}
        new = np.zeros((len(own.get("new", ())), self._new.shape[1]), np.float32)
        states.fit(own, {"levels": torch.cat(self._flat).numpy(), "new": new}, "multipliers")
        self._restore_optimiser(states.part(state, "optimiser"))
        for level, value in zip(self._flat, own["levels"], strict=True):
            level.fill_(float(value))
        self._new = own["new"].copy()

    def _restore_optimiser(self, state: Arrays) -> None:
        """Levels that saw no episode have nothing to remember."""
        self._optimiser.state.clear()
        names: Arrays = {"step": np.zeros((), np.float32)}
        names |= dict.fromkeys(("exp_avg", "exp_avg_sq"), np.zeros(1, np.float32))
        for index, level in enumerate(self._flat):
            mine = states.part(state, str(index))
            if mine:
                states.fit(mine, names, "multipliers")
                self._optimiser.state[level] = {
                    key: torch.from_numpy(value.copy()) for key, value in mine.items()
                }


class Switch:
    """No price while recent episodes keep the budget, and otherwise nothing but the cost counts.

    Constraint-rectified policy optimisation (Xu et al., 2021), for one budget.

    Args:
        grid: One budget per cost.
        slack: Mean cost above the budget that is let pass.
        window: Finished episodes the mean is over, the latest ones.
        start: Environment steps before which nothing is priced.
    """

    def __init__(self, grid: BudgetGrid, *, slack: float, window: int, start: int = 0) -> None:
        if any(levels > 1 for levels in grid.levels):
            raise UsageError("a switch is for one budget, not for a range; give --budget")
        C = len(grid.levels)
        self.grid, self._slack, self._window, self._start = grid, slack, window, start
        self._costs, self._on = np.zeros((0, C)), np.zeros(C, np.bool_)

    def tables(self) -> list[Tensor]:
        """1 where the cost alone counts, else 0: reports have no use for infinity."""
        return [torch.tensor([float(on)]) for on in self._on]

    def value(self, initial_stock: Tensor) -> Tensor:
        """Prices, (batch, C): 0 or infinity, the same for all."""
        prices = torch.where(torch.from_numpy(self._on), torch.inf, 0.0)
        return prices.to(initial_stock).expand(initial_stock.shape)

    def observe(self, episodes: Episodes) -> None:
        """Note finished episodes; their undiscounted cost is what counts."""
        self._costs = np.concatenate([self._costs, episodes.costs])[-self._window :]

    def update(self, env_steps: int) -> None:
        """On where the mean cost exceeds the budget by more than the slack."""
        if env_steps >= self._start and len(self._costs):
            self._on = self._costs.mean(0) > np.array(self.grid.high) + self._slack

    def state(self) -> Arrays:
        """What `restore` needs to go on from here."""
        return {"costs": self._costs.copy(), "on": self._on.copy()}

    def restore(self, state: Arrays) -> None:
        """Go on from a saved state."""
        states.fit(state, self.state(), "switch", lengths=False)
        self._costs, self._on = state["costs"].copy(), state["on"].copy()
