"""What is maximised, subject to what.

A UCMDP maximises the expected return subject to ``E[g(Z_0 + G)] <= 0`` for each cost, where the
initial stock ``Z_0`` is minus the budget and ``G`` the cost of the episode. Only the marginal
distribution of each cost is learned, so a utility sees one cost at a time: utilities of several
costs together (say, of their sum or maximum) need that combination as a cost of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ucpo.errors import UsageError, nearest

Floats = NDArray[np.floating[Any]]
Array = TypeVar("Array")  # a NumPy array or a PyTorch tensor; nothing here asks which

_SLACK = 1e-3  # of a bin: what rounding in float32 may take from a grid value


@dataclass(frozen=True)
class Utility:
    """How bad it is to end with a stock, elementwise, in operations NumPy and PyTorch share."""

    name: str
    function: Callable[[Any], Any]

    def __call__(self, final_stock: Array) -> Array:
        """Utility of final stocks in cost units (positive: over budget), of the same shape."""
        result: Array = self.function(final_stock)
        return result

    def expected(self, final_stock: Array) -> Array:
        """Mean utility of equally likely final stocks, (..., N) -> (...)."""
        utilities: Any = self(final_stock)
        mean: Array = utilities.mean(-1)
        return mean

    def contributions(self, violations: Array) -> Array:
        """What each of k episodes adds to the expected violation, (k,) -> (k,)."""
        many: Any = violations
        added: Array = many / len(many)
        return added


@dataclass(frozen=True)
class TailMean(Utility):
    """The mean over the worst share of outcomes, as Yang et al. (2021) constrain it.

    Not elementwise, so it is for PyTorch alone: it looks at all quantiles, or all recent episodes.
    """

    share: float = 1.0

    def expected(self, final_stock: Array) -> Array:
        """Mean of the worst share of equally likely final stocks, (..., N) -> (...)."""
        values: Any = final_stock
        mean: Array = (values * self._weights(values)).sum(-1)
        return mean

    def contributions(self, violations: Array) -> Array:
        """What each of k episodes adds: nothing unless it is among the worst, (k,) -> (k,)."""
        values: Any = violations
        added: Array = values * self._weights(values)
        return added

    def _weights(self, values: Any) -> Any:
        """Of each value, (..., N); they sum to 1. The last that counts may count in part."""
        many = self.share * values.shape[-1]
        place = (-values.detach()).argsort(dim=-1, stable=True).argsort(-1)  # 0: worst
        return (many - place).clip(0.0, 1.0) / many


MEAN = Utility("mean", lambda final_stock: final_stock)
EXCESS = Utility("excess", lambda final_stock: final_stock.clip(min=0.0))
_UTILITIES = {utility.name: utility for utility in (MEAN, EXCESS)}


def register_utility(name: str, function: Callable[[Any], Any]) -> Utility:
    """Make a utility of one's own known by name, for configurations and policies to refer to.

    Args:
        name: A new name; the built-in ones cannot be replaced.
        function: Maps final stocks (cost minus budget) to utilities elementwise and must work on
            NumPy arrays and PyTorch tensors alike, e.g. ``lambda z: z.clip(min=0.0) ** 2``.
    """
    probe = np.linspace(-2.0, 2.0, 5)
    answer = np.asarray(function(probe))
    if answer.shape != probe.shape or not np.isfinite(answer).all():
        raise UsageError(
            f"utility {name!r} must map an array to a finite array of the same shape; "
            f"it turned {probe.tolist()} into {answer.tolist()}"
        )
    if name in ("mean", "excess"):
        raise UsageError(f"the name {name!r} belongs to a built-in utility; choose another one")
    _UTILITIES[name] = Utility(name, function)
    return _UTILITIES[name]


def utility(name: str) -> Utility:
    """Look a utility up by name."""
    if name not in _UTILITIES:
        raise UsageError(
            f"no utility {name!r}; {nearest(name, list(_UTILITIES))} "
            "(utilities of your own must be registered first: ucpo.register_utility)"
        )
    return _UTILITIES[name]


@dataclass(frozen=True)
class Constraint:
    """``E[utility(cost - budget)] <= tolerance`` for one named cost."""

    cost: str
    utility: Utility = EXCESS
    tolerance: float = 1e-6
    """In units of the utility. The multiplier sinks only while the expected utility is below."""

    def __post_init__(self) -> None:
        if not self.tolerance >= 0.0:
            raise UsageError(f"tolerance of {self.cost!r} must be at least 0, got {self.tolerance}")

    def violation(self, final_stock: Array, initial_stock: Array | None = None) -> Array:
        """By how much each final stock speaks for a higher price; its mean should be at most 0.

        Args:
            final_stock: In cost units, of any shape.
            initial_stock: Of the same episodes; only tolerances that depend on the budget ask.
        """
        value: Any = self.utility(final_stock)
        violation: Array = value - self.tolerance
        return violation


@dataclass(frozen=True)
class TailLimit(Constraint):
    """The mean cost of the worst `share` of episodes at most `limit`, by Chow et al. (2018).

    It holds if and only if, for some level ``nu``, the expected excess over ``nu`` is at most
    ``share * (limit - nu)``. So each budget is such a level, with a tolerance of its own, and the
    best level is chosen after training. Levels above the limit tolerate nothing.
    """

    limit: float = 0.0
    share: float = 1.0

    def violation(self, final_stock: Array, initial_stock: Array | None = None) -> Array:
        """Excess beyond what the level of the episode tolerates."""
        if initial_stock is None:
            raise UsageError("a limit on the tail needs prices that know the budget of an episode")
        value: Any = self.utility(final_stock)
        start: Any = initial_stock
        violation: Array = value - (self.share * (self.limit + start)).clip(min=0.0)
        return violation


@dataclass(frozen=True)
class Problem:
    """Maximise the expected return subject to one constraint per cost, in column order."""

    constraints: tuple[Constraint, ...]
    objective: Utility = MEAN

    def __post_init__(self) -> None:
        if not self.constraints:
            raise UsageError("a problem needs at least one constraint")
        if len(set(self.costs)) < len(self.costs):
            raise UsageError(f"each cost can be constrained once, got {', '.join(self.costs)}")
        if self.objective is not MEAN:
            raise UsageError(
                f"the objective must be the mean return, got {self.objective.name!r}: another "
                "objective would need the reward's stock in the state, which is left out here"
            )

    @property
    def costs(self) -> tuple[str, ...]:
        """Names of the constrained costs, one per column."""
        return tuple(constraint.cost for constraint in self.constraints)


@dataclass(frozen=True)
class BudgetGrid:
    """The budgets trained for: evenly spaced levels per cost, each with a multiplier of its own.

    One fixed budget is a grid with one level.
    """

    low: tuple[float, ...]
    high: tuple[float, ...]
    levels: tuple[int, ...]

    def __post_init__(self) -> None:
        if not len(self.low) == len(self.high) == len(self.levels) >= 1:
            raise UsageError("a budget grid needs a low, a high and a number of levels per cost")
        for low, high, levels in zip(self.low, self.high, self.levels, strict=True):
            if not (np.isfinite([low, high]).all() and 0.0 <= low <= high):
                raise UsageError(f"budgets must satisfy 0 <= low <= high, got {low} to {high}")
            if not 1 <= levels <= 1000 or (levels == 1) != (low == high):
                raise UsageError(
                    f"a range of budgets needs 2 to 1000 levels and a single budget exactly 1, "
                    f"got {levels} for {low} to {high}"
                )
            if levels > 1 and (high - low) / (levels - 1) < 1e-4 * high:
                raise UsageError(f"{levels} levels from {low} to {high} are too close for float32")

    @classmethod
    def fixed(cls, budgets: Sequence[float]) -> BudgetGrid:
        """One budget per cost, in cost units."""
        return cls(tuple(budgets), tuple(budgets), (1,) * len(budgets))

    def stocks(self, cost: int) -> Floats:
        """The initial stocks of a cost, ascending (largest budget first), shape (levels,)."""
        return np.linspace(-self.high[cost], -self.low[cost], self.levels[cost])

    def bin(self, initial_stock: Array, cost: int) -> Array:
        """Which level an initial stock of one cost belongs to: the nearest one not above it.

        Works in float32: every level falls into its own bin, whatever the rounding. Returns whole
        numbers in the floating-point type given; stocks outside the range get the outermost bins.
        """
        lowest, last = -self.high[cost], self.levels[cost] - 1
        per_unit = last / (self.high[cost] - self.low[cost]) if last else 0.0
        position: Any = (initial_stock - lowest) * per_unit + _SLACK  # type: ignore[operator]
        index: Array = (position // 1).clip(0, last)
        return index

    def draw(self, generator: np.random.Generator) -> Floats:
        """One initial stock per cost, uniform over the levels, float32 of shape (C,)."""
        return np.array(
            [generator.choice(self.stocks(cost)) for cost in range(len(self.levels))], np.float32
        )

    def draws(self, count: int, generator: np.random.Generator) -> Floats:
        """The same for many episodes at once, (count, C)."""
        columns = [generator.choice(self.stocks(cost), count) for cost in range(len(self.levels))]
        return np.stack(columns, axis=1).astype(np.float32)

    def covers(self, budgets: Sequence[float]) -> bool:
        """Whether the budgets (one per cost) lie in the trained range; between levels is fine."""
        return len(budgets) == len(self.low) and all(
            low <= budget <= high
            for low, budget, high in zip(self.low, budgets, self.high, strict=True)
        )


_RANGE = re.compile(r"(?:(?P<cost>[^=]+)=)?(?P<low>[^:=]+)(?::(?P<high>[^:=]+))?")


def parse_budgets(texts: Sequence[str], costs: Sequence[str]) -> list[tuple[float, float]]:
    """Read ``25``, ``0:30``, ``hazards=0:30`` as a (low, high) pair for each of `costs`.

    A text without a name holds for every cost; a single number is a range of one.
    """
    ranges: dict[str, tuple[float, float]] = {}
    given: set[str | None] = set()
    for text in texts:
        match = _RANGE.fullmatch(text.strip())
        try:
            assert match
            low = float(match["low"])
            high = float(match["high"] or low)
        except (AssertionError, ValueError):
            raise UsageError(
                f"cannot read the budget {text!r}; write 25, 0:30 or {costs[0]}=0:30"
            ) from None
        if match["cost"] and match["cost"] not in costs:
            raise UsageError(
                f"no cost {match['cost']!r} in {text!r}; {nearest(match['cost'], list(costs))}"
            )
        if match["cost"] in given:
            raise UsageError(f"two budgets for the same cost in {' '.join(texts)}; give each once")
        given.add(match["cost"])
        for cost in [match["cost"]] if match["cost"] else costs:
            ranges[cost] = (low, high)
    missing = [cost for cost in costs if cost not in ranges]
    if missing:
        raise UsageError(f"no budget given for {', '.join(missing)}; write e.g. {missing[0]}=0:30")
    return [ranges[cost] for cost in costs]
