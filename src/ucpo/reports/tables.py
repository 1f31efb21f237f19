"""Tables from evaluation files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from ucpo.stats import cost_names, summarise


def table(episodes: pl.DataFrame, optimum: Mapping[float, float] | None = None) -> Any:
    """A rich table of `summarise`; with known optima of the return, how much of them is reached."""
    from rich.markup import escape
    from rich.table import Table

    names = cost_names(episodes)
    shown = Table(caption=f"{', '.join(names)}; {len(episodes):,} episodes")
    for column in (
        *("method", "return", *(["of optimum"] if optimum else [])),
        *(["what"] if len(names) > 1 else []),
        *("budget", "cost", "P(cost > b)", "E[cost | cost > b]", "excess"),
    ):
        shown.add_column(escape(column), justify="right")
    for row in summarise(episodes).iter_rows(named=True):
        head = [row["method"], f"{row['return']:.2f}"]
        head += [f"{row['return'] / optimum[row[f'budget_{names[0]}']]:.1%}"] if optimum else []
        for name in names:  # several costs: a line each below the same return
            given = row[f"cost_if_exceeded_{name}"]
            shown.add_row(
                *head,
                *([name] if len(names) > 1 else []),
                f"{row[f'budget_{name}']:g}",
                f"{row[f'cost_{name}']:.2f}",
                f"{row[f'exceeded_{name}']:.1%}",
                "-" if np.isnan(given) else f"{given:.2f}",
                f"{row[f'excess_{name}']:.3f}",
                end_section=name == names[-1] and len(names) > 1,
            )
            head = [""] * len(head)
    return shown
