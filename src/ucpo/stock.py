"""The stock: what an episode has spent so far, minus its budget.

A stock of -7 means 7 cost units are left; above 0 the budget is exceeded. It is part of the state,
in cost units, with one column per cost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ucpo.problem import BudgetGrid, Floats


@dataclass(frozen=True, slots=True)
class Start:
    """How one episode begins."""

    seed: int
    stock: Floats  # (C,) minus the budget, in cost units


def initial(budgets: Sequence[float] | float) -> Floats:
    """The stock of an episode with these budgets at its start, exactly ``-budget``; (C,)."""
    return -np.atleast_1d(np.asarray(budgets, np.float32))


def advance(stock: Floats, costs: Floats, discount: float = 1.0) -> Floats:
    """The stock after paying `costs`, both of shape (..., C).

    With a discount below 1 it is inflated so that ``discount**t`` times it stays the discounted
    cost so far minus the budget (UCP-DS); the default is the undiscounted stock of UCP.
    """
    return (stock + costs) / np.asarray(discount, stock.dtype)


def discounted_budget(budget: float, discount: float, env_steps: int) -> float:
    """The budget of a discounted stock that stands for one of the whole episode's plain cost.

    As if the cost came evenly over the episode (Sootla et al., 2022): spent early, less of it is
    needed to exceed it; spent late, more.
    """
    whole = (1.0 - discount**env_steps) / (1.0 - discount) if discount < 1.0 else env_steps
    return budget * whole / env_steps


def random_starts(grid: BudgetGrid, generator: np.random.Generator) -> Iterator[Start]:
    """Episodes without end, each with a budget drawn uniformly from the levels of the grid."""
    return starts(lambda: grid.draw(generator), generator)


def starts(draw: Callable[[], Floats], generator: np.random.Generator) -> Iterator[Start]:
    """Episodes without end, with stocks from `draw` and seeds from `generator`."""
    while True:
        yield Start(int(generator.integers(2**31)), draw())
