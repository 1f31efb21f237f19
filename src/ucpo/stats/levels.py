"""Which budget to act under so that the worst episodes cost no more than a limit on average."""

from __future__ import annotations

import math
from dataclasses import dataclass

import polars as pl

from ucpo.errors import UsageError
from ucpo.problem import Floats
from ucpo.stats.tails import cost_names


@dataclass(frozen=True)
class Level:
    """How a policy does under one budget."""

    budget: float
    mean_return: float
    worst_mean: float
    """Mean cost of the worst share of episodes (CVaR), in cost units."""


def worst_mean(costs: Floats, share: float) -> float:
    """Mean of the worst share of costs, (episodes,); the last that counts may count in part."""
    if not 0.0 < share <= 1.0:
        raise UsageError(f"a share of episodes is above 0 and at most 1, got {share}")
    ordered, many = sorted(costs.tolist(), reverse=True), share * len(costs)
    whole = math.floor(many)
    rest = (many - whole) * ordered[whole] if whole < len(ordered) else 0.0
    return float((sum(ordered[:whole]) + rest) / many)


def best_level(
    episodes: pl.DataFrame, limit: float, share: float, cost: str | None = None
) -> Level | None:
    """The budget with the best return among those that keep the limit; None where none does.

    Training with ``tail.limit`` prepares one policy for every level. Which of them is best shows
    in an evaluation at several budgets.

    Args:
        episodes: An evaluation, one row per episode.
        limit: Mean cost allowed in the worst episodes.
        share: Of episodes that count as the worst.
        cost: Which cost; may be left out where there is one.
    """
    names = cost_names(episodes)
    name = names[0] if cost is None and len(names) == 1 else cost
    if name not in names:
        raise UsageError(f"say which cost the limit is of: {', '.join(names)}")
    levels = [
        Level(
            budget=float(key[0]),
            mean_return=float(group["return"].to_numpy().mean()),
            worst_mean=worst_mean(group[f"cost_{name}"].to_numpy(), share),
        )
        for key, group in episodes.group_by([f"budget_{name}"], maintain_order=True)
    ]
    if all(level.budget > limit for level in levels):
        raise UsageError(f"no budget at most the limit, {limit:g}, was evaluated; give some")
    kept = [level for level in levels if level.worst_mean <= limit]
    return max(kept, key=lambda level: level.mean_return, default=None)
