"""Tables and figures of how far agents are from the exact optimum, from `ucpo.runs.gap`'s rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from ucpo.reports.figures import COLOURS
from ucpo.stats import student_t

CLOSE = 0.05
"""Share of the optimal return that may be missed, and cost units of excess, to be called close."""

_KEYS = ["task", "method", "levels", "gamma", "budget"]
_MEASURED = ["return", "cost", "exceeded", "excess"]


def over_seeds(rows: pl.DataFrame) -> pl.DataFrame:
    """One row per setting and budget: means, and half the 95 % Student-t intervals over seeds.

    The intervals are named ``return_ci95`` and so on; not a number with a single seed. ``worst`` is
    the largest excess of a seed, ``close`` how many of the seeds are close to the optimum.
    """
    summary = []
    for key, group in rows.with_columns(close=close(rows)).group_by(_KEYS, maintain_order=True):
        row: dict[str, Any] = dict(zip(_KEYS, key, strict=True))
        row |= {name: group[name][0] for name in ("optimum", "own_return", "own_excess")}
        for name in _MEASURED:
            row[name], row[f"{name}_ci95"] = student_t(group[name].to_numpy())
        row |= {"worst": group["excess"].to_numpy().max(), "seeds": len(group)}
        summary.append(row | {"close": group["close"].sum()})
    return pl.DataFrame(summary)


def close(rows: pl.DataFrame) -> pl.Series:
    """Whether each row is within 5 % of the optimal return with less than 0.05 units of excess."""
    lacking = rows["optimum"] - rows["return"]
    return (lacking <= CLOSE * rows["optimum"].abs()) & (rows["excess"] < CLOSE)


def gap_table(rows: pl.DataFrame) -> Any:
    """A rich table of `over_seeds`, with what a method aims at where it is not the optimum."""
    from rich.markup import escape
    from rich.table import Table

    summary = over_seeds(rows)
    other = not np.allclose(summary["own_return"].to_numpy(), summary["optimum"].to_numpy())
    shown = Table(
        box=None,
        padding=(0, 2, 0, 0),
        caption=f"{rows['task'][0]}, {rows['seed'].n_unique()} training seeds. Within "
        f"{CLOSE:.0%} of the optimum and {CLOSE:g} units of excess: {int(close(rows).sum())} of "
        f"{len(rows)} measurements",
    )
    heads = ["method", "budget", "optimum", "return", "gap", "excess"]
    for head in (*heads, *(["aims at", "its excess"] if other else ["cost", "P(cost > b)"])):
        shown.add_column(escape(head), justify="right", no_wrap=True)
    for row in summary.iter_rows(named=True):
        lacking = row["optimum"] - row["return"]
        aims = [f"{row['own_return']:.2f}", f"{row['own_excess']:.3f}"]
        spent = [f"{row['cost']:.2f}", f"{row['exceeded']:.1%}"]
        shown.add_row(
            *(row["method"], f"{row['budget']:g}", f"{row['optimum']:.2f}"),
            _with_interval(row["return"], row["return_ci95"]),
            f"{lacking / abs(row['optimum']):.1%}" if row["optimum"] else "-",
            f"{row['excess']:.3f}",
            *(aims if other else spent),
        )
    return shown


def gap_figure(rows: pl.DataFrame, path: Path) -> None:
    """Draw return and excess against the budget beside the exact optimum, a dot for each seed."""
    from matplotlib.figure import Figure  # no pyplot: nothing global, no window

    figure = Figure(figsize=(9.0, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    optimum = rows.unique("budget").sort("budget")
    left.plot(optimum["budget"], optimum["optimum"], color="0.55", lw=1.5, label="exact optimum")
    settings = rows.group_by(["method", "levels", "gamma"], maintain_order=True)
    groups = [group for _, group in settings]
    for number, group in enumerate(groups):
        budgets = group["budget"].to_numpy()
        step = 0.02 * max(float(np.ptp(rows["budget"].to_numpy())), 1.0)
        beside = budgets + step * (number - (len(groups) - 1) / 2)  # not on top of each other
        style = {"color": COLOURS[number % len(COLOURS)], "ms": 5, "alpha": 0.7}
        left.plot(beside, group["return"], "o", label=_label(groups, group), **style)
        right.plot(beside, group["excess"], "o", **style)
    right.axhline(CLOSE, color="0.2", ls="--", lw=1, label=f"{CLOSE:g} units")
    left.set(xlabel="budget", ylabel="expected return", title=f"{rows['task'][0]}: return")
    right.set(xlabel="budget", ylabel="expected excess, cost units", title="excess over the budget")
    right.set_ylim(bottom=-0.02 * right.get_ylim()[1])
    for axis in (left, right):
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(color="0.92")
        axis.set_axisbelow(True)
        axis.legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def _label(groups: list[pl.DataFrame], group: pl.DataFrame) -> str:
    """The method, and what else tells its setting from the others."""
    parts = [str(group["method"][0])]
    for name, text in (("levels", "{} levels"), ("gamma", "gamma {:g}")):
        alike = [each for each in groups if each["method"][0] == parts[0]]
        if len({each[name][0] for each in alike}) > 1:
            parts.append(text.format(group[name][0]))
    return ", ".join(parts)


def _with_interval(mean: float, half: float) -> str:
    return f"{mean:.2f}" + ("" if np.isnan(half) else f" ± {half:.2f}")
