"""How episodes exceed a budget, and the short summary of one evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from ucpo.problem import EXCESS, Floats


@dataclass(frozen=True)
class Tail:
    """How episodes exceed a budget; strictly above it counts."""

    frequency: float
    """Share of episodes whose cost exceeds the budget, P(cost > b)."""
    cost_given_excess: float
    """Mean cost of those episodes, E[cost | cost > b]; not a number where there are none."""
    excess: float
    """Expected excess over all episodes, E[(cost - b)_+], in cost units."""


def tail(costs: Floats, budget: float) -> Tail:
    """Tail statistics of episodic costs, (episodes,), in cost units."""
    over = costs > budget
    return Tail(
        frequency=float(over.mean()),
        cost_given_excess=float(costs[over].mean()) if over.any() else float("nan"),
        excess=float(EXCESS(costs - budget).mean()),
    )


def cost_names(episodes: pl.DataFrame | Sequence[str]) -> list[str]:
    """The costs an evaluation, or a list of columns, has columns for."""
    columns = episodes.columns if isinstance(episodes, pl.DataFrame) else episodes
    return [name.removeprefix("cost_") for name in columns if name.startswith("cost_")]


def summarise(episodes: pl.DataFrame) -> pl.DataFrame:
    """One row per method and budget: episodes, mean return, and for each cost its mean and tail.

    Columns of costs are named ``cost_NAME``, ``exceeded_NAME`` (frequency),
    ``cost_if_exceeded_NAME`` and ``excess_NAME``.
    """
    names = cost_names(episodes)
    keys = ["method", *(f"budget_{name}" for name in names)]
    rows: list[dict[str, Any]] = []
    for key, group in episodes.group_by(keys, maintain_order=True):
        row: dict[str, Any] = dict(zip(keys, key, strict=True))
        row |= {"episodes": len(group), "return": float(group["return"].to_numpy().mean())}
        for name in names:
            costs = group[f"cost_{name}"].to_numpy()
            one = tail(costs, row[f"budget_{name}"])
            row |= {
                f"cost_{name}": float(costs.mean()),
                f"exceeded_{name}": one.frequency,
                f"cost_if_exceeded_{name}": one.cost_given_excess,
                f"excess_{name}": one.excess,
            }
        rows.append(row)
    return pl.DataFrame(rows)
