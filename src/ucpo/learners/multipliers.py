"""Lagrange multipliers: the price of exceeding each initial budget.

There is one table of prices per cost, indexed by the level of that cost's own initial budget. (With
several costs the exact multiplier of one depends on all budgets; a table over every combination
would see too few episodes per entry.) A single budget is a table with one entry.

A multiplier is one of three objects: `Fixed` prices, `DualAscent` along the constraint's violation
(with one of three ways to make a step), or a `Pid` controller of one budget.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from ucpo.envs.interface import Arrays, Episodes
from ucpo.errors import UsageError
from ucpo.problem import BudgetGrid, Problem
from ucpo.storage import states


class Fixed:
    """Prices that never move; 0 leaves costs out of the objective.

    Args:
        grid: The initial budgets.
        price: Of every budget.
    """

    def __init__(self, grid: BudgetGrid, price: float) -> None:
        if not 0.0 <= price < math.inf:
            raise UsageError(f"a price must be at least 0 and finite, got {price}")
        self.grid = grid
        self._tables = [torch.full((levels,), float(price)) for levels in grid.levels]

    def tables(self) -> list[Tensor]:
        """All prices: for each cost its levels, the largest budget first."""
        return self._tables

    def value(self, initial_stock: Tensor) -> Tensor:
        """Prices of episodes that began with these stocks, both (batch, C)."""
        return look_up(self._tables, self.grid, initial_stock)

    def observe(self, episodes: Episodes) -> None:
        """What episodes cost changes nothing."""

    def update(self, env_steps: int) -> None:
        """Nothing moves."""

    def state(self) -> Arrays:
        """There is nothing to remember."""
        return {}

    def restore(self, state: Arrays) -> None:
        """There is nothing to go on from."""
        states.fit(state, {}, "multipliers")


class DualAscent:
    """Prices that rise while recent episodes exceed their budgets and sink while they do not.

    Args:
        problem: The constraints, one per cost.
        grid: The initial budgets with a price of their own.
        ascent: How a step is made.
        initial: First value of every price.
        minimum: Prices are kept at least this high.
        maximum: ... and at most this high.
        window: Finished episodes that an update averages over, the latest ones.
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
        window: int = 8,
        start: int = 0,
    ) -> None:
        if not 0.0 <= minimum <= initial <= maximum:
            raise UsageError(
                f"multipliers need 0 <= minimum <= initial <= maximum, got minimum {minimum}, "
                f"initial {initial}, maximum {maximum}"
            )
        ascent.must_reach(minimum)
        self.grid, self.start = grid, start
        self._problem, self._ascent, self._bounds = problem, ascent, (minimum, maximum)
        first = float(ascent.parameter(torch.tensor(initial)))
        self.parameters = [torch.full((levels,), first) for levels in grid.levels]
        self._optimiser = ascent.optimiser(self.parameters)
        self._recent: deque[tuple[Tensor, Tensor]] = deque(
            maxlen=window
        )  # (bins, violations), (C,)

    def tables(self) -> list[Tensor]:
        """All prices: for each cost its levels, the largest budget first."""
        return [self._ascent.price(parameter) for parameter in self.parameters]

    def value(self, initial_stock: Tensor) -> Tensor:
        """Prices of episodes that began with these stocks, both (batch, C)."""
        return look_up(self.tables(), self.grid, initial_stock)

    def observe(self, episodes: Episodes) -> None:
        """Note finished episodes; their undiscounted cost is what counts."""
        for initial, costs in zip(episodes.initial_stock, episodes.costs, strict=True):
            first = torch.as_tensor(initial, dtype=torch.float32)
            final = first + torch.as_tensor(costs, dtype=torch.float32)
            constraints = enumerate(self._problem.constraints)
            violations = torch.stack(
                [limit.violation(final[cost], first[cost]) for cost, limit in constraints]
            )
            bins = torch.stack([self.grid.bin(first[cost], cost) for cost in range(len(first))])
            self._recent.append((bins.long(), violations))

    def update(self, env_steps: int) -> None:
        """One ascent step on the mean of price times violation over the recent episodes."""
        if env_steps < self.start or not self._recent:
            return
        bins, violations = (torch.stack(part) for part in zip(*self._recent, strict=True))
        for cost, parameter in enumerate(self.parameters):
            slope = torch.zeros_like(parameter)
            utility = self._problem.constraints[cost].utility
            slope.index_add_(0, bins[:, cost], utility.contributions(violations[:, cost]))
            parameter.grad = self._ascent.slope(parameter, slope)
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
            parameter.copy_(torch.where(outside, self._ascent.parameter(clipped), parameter))


class Pid:
    """A price that follows the excess by a PID controller (Stooke et al., 2020), for one budget.

    With ``e`` the mean undiscounted cost of the recent episodes minus the budget, P and D smoothed
    and D looking ten observations back::

        I <- max(0, I + ki e)        P <- 0.95 P + 0.05 e        D <- 0.95 D + 0.05 J
        price <- max(0, kp P + I + kd max(0, D - D ten observations ago))

    It moves once for every batch of finished episodes: between episodes nothing new is known.

    Args:
        grid: One budget per cost; a controller per level would act on single episodes.
        gains: kp, ki and kd.
        initial: First value of I; the price itself is 0 until episodes were seen.
        window: Finished episodes the mean is over, the latest ones.
        start: Environment steps before the price begins to move.
    """

    SMOOTHING = 0.95
    DELAY = 10

    def __init__(
        self,
        grid: BudgetGrid,
        gains: tuple[float, float, float],
        *,
        initial: float = 0.0,
        window: int = 50,
        start: int = 0,
    ) -> None:
        if any(levels > 1 for levels in grid.levels):
            raise UsageError(
                "a PID controller keeps the price of one budget, not of a range; give --budget"
            )
        C = len(grid.levels)
        self.grid, self._gains, self._start, self._window = grid, gains, start, window
        self._budgets = np.array(grid.high)
        self._costs = np.zeros((0, C))  # of the recent episodes
        self._price = np.zeros(C)
        self._integral = np.full(C, float(initial))
        self._proportional, self._smoothed = np.zeros(C), np.zeros(C)
        self._before = np.zeros((1, C))  # the last smoothed costs, the oldest first
        self._news = False

    def tables(self) -> list[Tensor]:
        """The price of each cost, (1,) each."""
        return [torch.tensor([price], dtype=torch.float32) for price in self._price]

    def value(self, initial_stock: Tensor) -> Tensor:
        """Prices of episodes that began with these stocks, both (batch, C)."""
        return look_up(self.tables(), self.grid, initial_stock)

    def observe(self, episodes: Episodes) -> None:
        """Note finished episodes; their undiscounted cost is what counts."""
        if len(episodes):
            self._costs = np.concatenate([self._costs, episodes.costs])[-self._window :]
            self._news = True

    def update(self, env_steps: int) -> None:
        """One step of the controller if episodes have finished since the last."""
        if env_steps < self._start or not self._news:
            return
        self._news = False
        self.control(self._costs.mean(0))

    def control(self, mean_cost: np.ndarray) -> None:
        """Answer a mean cost of each kind, (C,), with a price."""
        proportional, integral, derivative = self._gains
        error, old, new = mean_cost - self._budgets, self.SMOOTHING, 1.0 - self.SMOOTHING
        self._integral = np.maximum(0.0, self._integral + integral * error)
        self._proportional = old * self._proportional + new * error
        self._smoothed = old * self._smoothed + new * mean_cost
        rise = np.maximum(0.0, self._smoothed - self._before[0])
        price = proportional * self._proportional + self._integral + derivative * rise
        self._price = np.maximum(0.0, price)
        self._before = np.vstack([self._before, self._smoothed])[-self.DELAY :]

    def state(self) -> Arrays:
        """What `restore` needs to go on from here."""
        return {
            "costs": self._costs.copy(),
            "price": self._price.copy(),
            "integral": self._integral.copy(),
            "proportional": self._proportional.copy(),
            "smoothed": self._smoothed.copy(),
            "before": self._before.copy(),
            "news": np.array(self._news),
        }

    def restore(self, state: Arrays) -> None:
        """Go on from a saved state."""
        states.fit(state, self.state(), "PID controller", lengths=False)
        self._costs, self._before = state["costs"].copy(), state["before"].copy()
        self._price, self._integral = state["price"].copy(), state["integral"].copy()
        self._proportional = state["proportional"].copy()
        self._smoothed, self._news = state["smoothed"].copy(), bool(state["news"])


class Ascent(Protocol):
    """How a price makes a step, and what stands behind it."""

    def must_reach(self, minimum: float) -> None:
        """Refuse a lower bound that no parameter stands for."""

    def parameter(self, price: Tensor) -> Tensor:
        """What is moved instead of the price."""

    def price(self, parameter: Tensor) -> Tensor:
        """The price a parameter stands for."""

    def slope(self, parameter: Tensor, slope: Tensor) -> Tensor:
        """The slope in the parameter, of one in the price."""

    def optimiser(self, parameters: Sequence[Tensor]) -> torch.optim.Optimizer:
        """What makes the steps."""


class Gradient:
    """Plain gradient ascent on the price itself (the paper)."""

    def __init__(self, rate: float) -> None:
        self._rate = rate

    def must_reach(self, minimum: float) -> None:
        """Every price can be had."""

    def parameter(self, price: Tensor) -> Tensor:
        """The price itself."""
        return price

    def price(self, parameter: Tensor) -> Tensor:
        """The parameter itself."""
        return parameter

    def slope(self, parameter: Tensor, slope: Tensor) -> Tensor:
        """The same."""
        return slope

    def optimiser(self, parameters: Sequence[Tensor]) -> torch.optim.Optimizer:
        """Steps along the slope."""
        return torch.optim.SGD(parameters, lr=self._rate, maximize=True)


class ClampedAdam(Gradient):
    """Adam on the price itself, which its bounds then clamp (OmniSafe)."""

    def optimiser(self, parameters: Sequence[Tensor]) -> torch.optim.Optimizer:
        """Steps of about the same size, whatever the violation."""
        return torch.optim.Adam(parameters, lr=self._rate, maximize=True)


class SoftplusAdam:
    """Adam on a parameter whose softplus is the price (the released code)."""

    def __init__(self, rate: float) -> None:
        self._rate = rate

    def must_reach(self, minimum: float) -> None:
        """A softplus is never 0."""
        if not minimum > 0.0:
            raise UsageError("prices behind a softplus need a minimum above 0, got 0")

    def parameter(self, price: Tensor) -> Tensor:
        """The inverse of softplus."""
        return price + torch.log(-torch.expm1(-price))

    def price(self, parameter: Tensor) -> Tensor:
        """Softplus."""
        return torch.nn.functional.softplus(parameter)

    def slope(self, parameter: Tensor, slope: Tensor) -> Tensor:
        """By the chain rule."""
        return slope * torch.sigmoid(parameter)

    def optimiser(self, parameters: Sequence[Tensor]) -> torch.optim.Optimizer:
        """Steps of about the same size, whatever the violation."""
        return torch.optim.Adam(parameters, lr=self._rate, maximize=True)


def look_up(tables: Sequence[Tensor], grid: BudgetGrid, initial_stock: Tensor) -> Tensor:
    """The entry of each episode's initial stock in the table of each cost, (batch, C)."""
    if all(len(table) == 1 for table in tables):  # one budget has nothing to be looked up
        return torch.cat(list(tables)).to(initial_stock.device).expand(len(initial_stock), -1)
    columns = [
        table.to(initial_stock.device)[grid.bin(initial_stock[:, cost], cost).long()]
        for cost, table in enumerate(tables)
    ]
    return torch.stack(columns, dim=1)
