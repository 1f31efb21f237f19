"""Every number of the paper's result tables, for comparison.

Means are over 5 training seeds with 1000 episodes each; ``ci95`` is half the 95 % Student-t
interval over the seeds. Returns and costs are undiscounted sums over an episode.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from importlib import resources

import polars as pl

from ucpo.envs.registry import family_of
from ucpo.errors import UsageError, nearest

BUDGETS = (0.0, 5.0, 15.0, 25.0)
"""Those of the paper's tables."""
COST = "cost"
"""The cost its tables are about: the total of the task."""
METHODS = {
    "ucp": "UCP",
    "ucp-mean": "UCP-Mean",
    "ucp-nr": "UCP-NR",
    "ucp-nr-mean": "UCP-NR-Mean",
    "ucp-na": "UCP-NA",
    "ucp-ds": "UCP-DS",
}
"""What the paper calls our variants, in its order."""
BASELINES = {
    "ppo-lag": "PPOLag",
    "ppo-saute": "PPOSaute",
    "ppo-et": "PPO-ET",
    "sac-lag": "SACLag",
    "sac-pid": "SACPID",
    "td3-lag": "TD3Lag",
    "td3-pid": "TD3PID",
}
"""What it calls the methods it compares UCP with, in its order."""
STOPPED = ("ppo-et",)
"""Whose episodes it ends in the step that exceeds the budget, in its tables too: their costs are at
most 26 there."""
LIMIT = 25.0
"""The budget of all of its baselines."""
_NAMES = {**METHODS, **BASELINES}


def name_of(method: str) -> str:
    """A method as the paper writes it; those it does not know keep their name."""
    return _NAMES.get(method, method)


def rank(method: str) -> tuple[int, str]:
    """Sorts methods as the paper does, others after them."""
    names = list(_NAMES)
    return (names.index(method) if method in names else len(names), method)


def always_at_the_largest_budget(task: str) -> bool:
    """Whether its comparison shows UCP at a budget of 25 in any case, as on navigation tasks."""
    return family_of(task) == "navigation"


@dataclass(frozen=True)
class Published:
    """One entry of a table."""

    return_mean: float
    return_ci95: float
    cost_mean: float
    cost_ci95: float
    cost_given_excess: float = math.nan
    """E[cost | cost > 25], only for `tails`; not a number where the budget was never exceeded."""
    frequency_of_excess: float = math.nan
    """P(cost > 25), only for `tails`."""


@cache
def comparison() -> pl.DataFrame:
    """UCP, at the budget its authors selected, and seven baselines on all 22 tasks (176 rows)."""
    return _read("comparison")


@cache
def budgets() -> pl.DataFrame:
    """UCP and its five variants on all 22 tasks at budgets 0, 5, 15 and 25 (528 rows)."""
    return _read("budgets")


@cache
def tails() -> pl.DataFrame:
    """Five methods on all 22 tasks at budget 25, with how they exceed it (110 rows).

    Its intervals pool the episodes of all seeds and are narrower than those of the other tables.
    """
    return _read("tails")


def lookup(method: str, task: str, budget: float | None = None) -> Published:
    """What the paper reports for a method on a task.

    Args:
        method: As in the paper, e.g. ``UCP``, ``UCP-Mean``, ``PPOLag``; case does not matter.
        task: Name of a task.
        budget: 0, 5, 15 or 25; by default the entry of the comparison with the baselines, which
            is also where these are found at 25.
    """
    compared = {name.lower() for name in BASELINES.values()}
    if budget == LIMIT and method.lower() in compared:
        budget = None
    return _entry("comparison" if budget is None else "budgets", method, task, budget)


def lookup_tail(method: str, task: str) -> Published:
    """What the paper reports on exceeding a budget of 25."""
    return _entry("tails", method, task, 25)


def _read(name: str) -> pl.DataFrame:
    content = (resources.files("ucpo") / "data" / f"{name}.csv").read_bytes()
    return pl.read_csv(content)


Key = tuple[str, str, float | None]  # method in small letters, task, budget


@cache
def _entries(name: str) -> dict[Key, Published]:
    """A table by method, task and budget."""
    found = {}
    for row in _read(name).iter_rows(named=True):
        key = (row.pop("method").lower(), row.pop("task"), row.pop("budget", None))
        numbers = {column: math.nan if value is None else value for column, value in row.items()}
        found[key] = Published(**numbers)
    return found


def _entry(name: str, method: str, task: str, budget: float | None) -> Published:
    entries = _entries(name)
    found = entries.get((method.lower(), task, budget))
    if found is not None:
        return found
    rows = _read(name)
    methods, tasks = (rows[column].unique().to_list() for column in ("method", "task"))
    if method.lower() not in {each.lower() for each in methods}:
        raise UsageError(f"no method {method!r}; {nearest(method, methods)}")
    if task not in tasks:
        raise UsageError(f"no task {task!r}; {nearest(task, tasks)}")
    raise UsageError(f"the paper reports budgets 0, 5, 15 and 25, not {budget:g}")
