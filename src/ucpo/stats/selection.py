"""The paper's rule for the one budget a comparison shows."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

BUDGETS = (0.0, 5.0, 15.0, 25.0)
LIMIT = 25.0


def select_budgets(
    summary: pl.DataFrame,
    budgets: Sequence[float] = BUDGETS,
    limit: float = LIMIT,
    *,
    single: bool = False,
) -> pl.DataFrame:
    """For each task and method the rows of the setting with the best return among the safe ones.

    Safe means: the expected cost (each of them, where there are several) is below the limit with
    95 % confidence over seeds, that is, the upper end of its Student-t interval is. Where no
    setting is safe there is no row.

    Args:
        summary: As `over_seeds` returns it.
        budgets: Those to choose from, in cost units.
        limit: On the expected cost, in cost units.
        single: Judge what has one seed, and so no interval, by its mean. Otherwise it is not safe.
    """
    half = pl.col("cost_half").fill_null(0.0 if single else float("inf"))
    fit = pl.col("budget").is_in(list(budgets)) & (pl.col("cost") + half < limit)
    safe = summary.filter(fit.fill_null(False).all().over("task", "method", "setting"))
    best = pl.col("return") == pl.col("return").max().over("task", "method")
    chosen = safe.filter(best)
    first = pl.col("setting") == pl.col("setting").first().over("task", "method")  # of equals
    return chosen.filter(first)
