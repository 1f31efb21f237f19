"""What counts as one unit of each cost to whatever learns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from ucpo.config.options import RunConfig
from ucpo.errors import UsageError, nearest
from ucpo.problem import BudgetGrid

RANGE = "range"
USUAL = 30.0
"""The largest budget that settings are chosen for, as in the paper."""


def make_units(config: RunConfig, costs: Sequence[str], grid: BudgetGrid) -> tuple[float, ...]:
    """Cost units that count as one to the learner, one for each cost.

    Utilities of the user's own may know a threshold, and limits of tails are given in plain units,
    so there costs stay as they are.
    """
    texts: dict[str, str] = {}
    for text in config.cost_units:
        name, equals, value = text.rpartition("=")
        if equals and name not in costs:
            raise UsageError(f"no cost {name!r} in {text!r}; {nearest(name, list(costs))}")
        texts |= dict.fromkeys([name] if equals else costs, value)
    missing = [cost for cost in costs if cost not in texts]
    if missing:
        raise UsageError(f"no unit given for {', '.join(missing)}; write e.g. {missing[0]}=0.01")
    found = [_unit(texts[cost], high) for cost, high in zip(costs, grid.high, strict=True)]
    alike = config.utility in ("excess", "mean", "tail") and config.tail.limit is None
    return tuple(found) if alike else (1.0,) * len(found)


def _unit(text: str, highest: float) -> float:
    if text == RANGE:
        return highest / USUAL if highest > 0.0 else 1.0
    try:
        unit = float(text)
    except ValueError:
        unit = math.nan
    if not 1e-30 < unit < 1e30:
        raise UsageError(f"a unit of cost is a number above 0, or {RANGE}; got {text!r}")
    return unit


def grid_in_units(grid: BudgetGrid, units: Sequence[float]) -> BudgetGrid:
    """The same budgets in units."""
    low, high = (
        tuple(budget / unit for budget, unit in zip(side, units, strict=True))
        for side in (grid.low, grid.high)
    )
    return replace(grid, low=low, high=high)
