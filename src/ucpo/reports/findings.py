"""What a report says in a few sentences, at its top."""

from __future__ import annotations

import polars as pl

from ucpo.reports import labels
from ucpo.reports.sheets import interval

MOST = 12
"""Sentences; the tables say the rest."""


def findings(summary: pl.DataFrame) -> list[str]:
    """A sentence for each task, cost and method: what it does with the largest budget evaluated.

    Args:
        summary: What `ucpo.stats.over_seeds` makes of the episodes.
    """
    said = []
    groups = summary.group_by(["task", "cost_name", "method"], maintain_order=True)
    for (task, cost, method), rows in groups:
        row = rows.sort("budget").to_dicts()[-1]
        seeds = f"{row['seeds']} seed{'' if row['seeds'] == 1 else 's'}"
        what = "cost" if cost == "cost" else f"cost in {cost}"
        said.append(
            f"{task}, {labels.name_of(str(method))}: told {row['budget']:g}, it returns "
            f"{interval(row['return'], row['return_half'])} at a {what} of "
            f"{interval(row['cost'], row['cost_half'])}; {row['exceeded']:.1%} of episodes exceed "
            f"the budget, all together by {interval(row['excess'], row['excess_half'])} on average "
            f"({seeds})."
        )
    if len(said) <= MOST:
        return said
    left = len(said) - MOST + 1
    return [*said[: MOST - 1], f"{left} more methods and tasks are in the tables below."]
