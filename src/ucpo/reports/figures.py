"""Figures from evaluation files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from ucpo.problem import Floats
from ucpo.stats import cost_names, tail

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = ("#0b6e99", "#c2571a", "#4d7c2a", "#7b4b94", "#8a6d1f", "#a33b5c")


def frontier(
    episodes: pl.DataFrame, path: Path, optimum: tuple[Floats, Floats] | None = None
) -> None:
    """Draw return and cost against the budget, with 95 % intervals of the mean over episodes.

    Args:
        episodes: An evaluation with one cost at several budgets.
        path: Where to write the picture; the ending says the format.
        optimum: Budgets and the best return at each, drawn beside.
    """
    (name,) = cost_names(episodes)
    figure, (left, right) = _figure(1, 2, (9.0, 3.6))
    if optimum is not None:
        left.plot(*optimum, color="0.55", lw=1.5, label="exact optimum")
    for (method,), group in episodes.group_by(["method"], maintain_order=True):
        budgets = group[f"budget_{name}"].unique().sort().to_numpy()
        colour = COLOURS[len(right.containers) % len(COLOURS)]
        for axis, column in ((left, "return"), (right, f"cost_{name}")):
            samples = [
                group.filter(pl.col(f"budget_{name}") == budget)[column].to_numpy()
                for budget in budgets
            ]
            means = [values.mean() for values in samples]
            halves = [1.96 * values.std(ddof=1) / np.sqrt(len(values)) for values in samples]
            axis.errorbar(
                budgets, means, halves, fmt="o", ms=5, capsize=3, color=colour, label=str(method)
            )
    limit = float(episodes[f"budget_{name}"].to_numpy().max())
    right.plot([0.0, limit], [0.0, limit], color="0.2", ls="--", lw=1, label="the budget itself")
    left.set(xlabel="budget", ylabel="return", title="What a budget buys")
    right.set(xlabel="budget", ylabel=f"cost ({name})", title="What is spent of it")
    for axis in (left, right):
        axis.legend(frameon=False)
    _save(figure, path)


def cost_distributions(episodes: pl.DataFrame, budget: float, path: Path) -> None:
    """Draw how often each cost occurs at a budget, method beside method."""
    (name,) = cost_names(episodes)
    chosen = episodes.filter(pl.col(f"budget_{name}") == budget)
    methods = chosen["method"].unique(maintain_order=True).to_list()
    figure, (axis,) = _figure(1, 1, (7.0, 3.8))
    costs = [
        chosen.filter(pl.col("method") == method)[f"cost_{name}"].to_numpy() for method in methods
    ]
    lowest, highest = (np.floor(edge(chosen[f"cost_{name}"].to_numpy())) for edge in (min, max))
    axis.hist(
        costs,
        np.arange(lowest, highest + 2.0) - 0.5,
        density=True,
        color=COLOURS[: len(methods)],
        label=[
            f"{method}: mean {one.mean():.2f}, expected excess {tail(one, budget).excess:.3f}"
            for method, one in zip(methods, costs, strict=True)
        ],
    )
    axis.axvline(budget + 0.5, color="0.2", ls="--", lw=1, label=f"budget {budget:g}")
    axis.set(xlabel=f"cost of an episode ({name})", ylabel="share of episodes")
    axis.legend(frameon=False, loc="lower left", bbox_to_anchor=(0.0, 1.0))
    _save(figure, path)


def _figure(rows: int, columns: int, inches: tuple[float, float]) -> tuple[Figure, list[Any]]:
    from matplotlib.figure import Figure  # no pyplot: nothing global, no window

    figure = Figure(figsize=inches, layout="constrained")
    axes = np.atleast_1d(figure.subplots(rows, columns)).ravel().tolist()
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(color="0.92")
        axis.set_axisbelow(True)
    return figure, axes


def _save(figure: Figure, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
