"""Lagrange multipliers: the price of exceeding each initial budget.

There is one table of prices per cost, indexed by the level of that cost's own initial budget. (With
several costs the exact multiplier of one depends on all budgets; a table over every combination
would see too few episodes per entry.) A single budget is a table with one entry.
"""

from __future__ import annotations

from collections import deque
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from ucpo.envs.interface import Arrays, Episodes
from ucpo.errors import UsageError
from ucpo.problem import BudgetGrid, Problem
from ucpo.storage import states

Ascent = Literal["gradient", "adam"]


class Multipliers:
    """Prices that rise while recent episodes exceed their budgets and sink while they do not.

    Args:
        problem: The constraints, one per cost.
        grid: The initial budgets with a price of their own.
        initial: First value of every price.
        rate: Step size of an update.
        ascent: ``gradient`` moves the prices along the gradient, as in the paper; ``adam`` moves
            parameters whose softplus are the prices with Adam, as the released code does.
        minimum: Prices are kept at least this high.
        maximum: ... and at most this high.
        window: Finished episodes that an update averages over, the latest ones.
    """

    def __init__(
        self,
        problem: Problem,
        grid: BudgetGrid,
        *,
        initial: float,
        rate: float,
        ascent: Ascent = "gradient",
        minimum: float = 0.0,
        maximum: float = float("inf"),
        window: int = 8,
    ) -> None:
        if not 0.0 <= minimum <= initial <= maximum:
            raise UsageError(
                f"multipliers need 0 <= minimum <= initial <= maximum, got minimum {minimum}, "
                f"initial {initial}, maximum {maximum}"
            )
        if ascent == "adam" and not minimum > 0.0:
            raise UsageError("the softplus behind ascent 'adam' needs a minimum above 0, got 0")
        self._problem, self.grid = problem, grid
        self._bounds = (minimum, maximum)
        self._softplus = ascent == "adam"
        first = torch.tensor(initial)
        self.parameters = [
            torch.full((levels,), float(_inverse_softplus(first) if self._softplus else first))
            for levels in grid.levels
        ]
        optimisers = {"gradient": torch.optim.SGD, "adam": torch.optim.Adam}
        self._optimiser = optimisers[ascent](self.parameters, lr=rate, maximize=True)
        self._recent: deque[tuple[Tensor, Tensor]] = deque(
            maxlen=window
        )  # (bins, violations), (C,)

    def tables(self) -> list[Tensor]:
        """All prices: for each cost its levels, the largest budget first."""
        if self._softplus:
            return [torch.nn.functional.softplus(parameter) for parameter in self.parameters]
        return self.parameters

    def value(self, initial_stock: Tensor) -> Tensor:
        """Prices of episodes that began with these stocks, both (batch, C)."""
        columns = [
            table.to(initial_stock.device)[self.grid.bin(initial_stock[:, cost], cost).long()]
            for cost, table in enumerate(self.tables())
        ]
        return torch.stack(columns, dim=1)

    def observe(self, episodes: Episodes) -> None:
        """Note finished episodes; their undiscounted cost is what counts."""
        for initial, costs in zip(episodes.initial_stock, episodes.costs, strict=True):
            first = torch.as_tensor(initial, dtype=torch.float32)
            final = first + torch.as_tensor(costs, dtype=torch.float32)
            constraints = enumerate(self._problem.constraints)
            violations = torch.stack([limit.violation(final[cost]) for cost, limit in constraints])
            bins = torch.stack([self.grid.bin(first[cost], cost) for cost in range(len(first))])
            self._recent.append((bins.long(), violations))

    def update(self) -> None:
        """One ascent step on the mean of price times violation over the recent episodes."""
        if not self._recent:
            return
        bins, violations = (torch.stack(part) for part in zip(*self._recent, strict=True))
        for cost, parameter in enumerate(self.parameters):
            slope = torch.zeros_like(parameter)
            slope.index_add_(0, bins[:, cost], violations[:, cost] / len(self._recent))
            parameter.grad = slope * torch.sigmoid(parameter) if self._softplus else slope
        self._optimiser.step()
        self._clip()

    def state(self) -> Arrays:
        """What `restore` needs to go on from here."""
        recent = list(zip(*self._recent, strict=True)) or [(), ()]
        size = (len(self._recent), len(self.parameters))
        return {
            **{f"parameters/{c}": p.numpy().copy() for c, p in enumerate(self.parameters)},
            **states.within("optimiser", states.of_optimiser(self._optimiser, self.parameters)),
            "bins": np.array([bins.numpy() for bins in recent[0]], np.int64).reshape(size),
            "violations": np.array([v.numpy() for v in recent[1]], np.float32).reshape(size),
        }

    def restore(self, state: Arrays) -> None:
        """Go on from a saved state."""
        what, C = "multipliers", len(self.parameters)
        tables = states.part(state, "parameters")
        states.fit(tables, {str(c): p.numpy() for c, p in enumerate(self.parameters)}, what)
        optimiser = states.part(state, "optimiser")
        states.set_optimiser(self._optimiser, self.parameters, optimiser, what)
        recent = {key: value for key, value in state.items() if "/" not in key}
        episodes = min(len(recent.get("bins", ())), self._recent.maxlen or 0)
        bins, violations = np.zeros((episodes, C), np.int64), np.zeros((episodes, C), np.float32)
        states.fit(recent, {"bins": bins, "violations": violations}, what)
        if ((recent["bins"] < 0) | (recent["bins"] >= self.grid.levels)).any():
            raise UsageError("the saved state of the multipliers names levels that are not there")
        for c, parameter in enumerate(self.parameters):
            parameter.copy_(torch.from_numpy(tables[str(c)]))
        self._recent.clear()
        for level, violation in zip(recent["bins"], recent["violations"], strict=True):
            self._recent.append((torch.from_numpy(level), torch.from_numpy(violation)))

    def _clip(self) -> None:
        for parameter, table in zip(self.parameters, self.tables(), strict=True):
            clipped = table.clamp(*self._bounds)
            outside = clipped != table
            back = _inverse_softplus(clipped) if self._softplus else clipped
            parameter.copy_(torch.where(outside, back, parameter))


def _inverse_softplus(value: Tensor) -> Tensor:
    return value + torch.log(-torch.expm1(-value))
