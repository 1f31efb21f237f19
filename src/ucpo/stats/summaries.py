"""From episodes to training seeds, from seeds to what is reported.

A training seed is one independent sample of a method; its episodes only make that sample precise.
So episodes are averaged within a seed, and intervals come from the spread over seeds.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from ucpo.stats.intervals import half_width
from ucpo.stats.tails import cost_names

KEYS = ("task", "method")


def per_seed(episodes: pl.DataFrame | pl.LazyFrame, costs: Sequence[str] = ()) -> pl.DataFrame:
    """One row per task, method, budgets, cost and training seed.

    Args:
        episodes: Rows of evaluations that have the same costs; columns ``env_steps`` and
            ``updates`` are used where there are any.
        costs: Their names; by default all the columns say.

    Returns:
        Columns ``task``, ``method``, ``setting`` (all budgets as text), ``cost_name``,
        ``budget``, ``training_seed``, ``episodes``, ``return``, ``cost`` (means),
        ``exceeded`` (share of episodes with cost > budget), ``cost_if_exceeded`` (mean cost of
        those; null without any), ``excess`` (mean of (cost - budget)_+), ``env_steps``,
        ``updates`` (of the training; the least where policies differ).
    """
    lazy = episodes.lazy()
    columns = lazy.collect_schema().names()
    names = list(costs) or cost_names(columns)
    budgets = [f"budget_{name}" for name in names]
    provenance = [
        (pl.col(name).min() if name in columns else pl.lit(None, pl.Int64)).alias(name)
        for name in ("env_steps", "updates")
    ]
    statistics = [pl.len().alias("episodes"), pl.col("return").mean(), *provenance]
    for name in names:
        cost, budget = pl.col(f"cost_{name}"), pl.col(f"budget_{name}")
        over = cost > budget
        statistics += [
            cost.mean(),
            over.mean().alias(f"exceeded_{name}"),
            cost.filter(over).mean().alias(f"cost_if_exceeded_{name}"),
            (cost - budget).clip(lower_bound=0.0).mean().alias(f"excess_{name}"),
        ]
    wide = lazy.group_by([*KEYS, "training_seed", *budgets]).agg(statistics).collect()
    wide = wide.with_columns(setting=setting(names)).with_columns(pl.col(KEYS).cast(pl.String))
    long = pl.concat(
        wide.select(
            *KEYS,
            "setting",
            pl.lit(name).alias("cost_name"),
            pl.col(f"budget_{name}").cast(pl.Float64).alias("budget"),
            "training_seed",
            "episodes",
            "return",
            *(
                pl.col(f"{kind}_{name}").alias(kind)
                for kind in ("cost", "exceeded", "cost_if_exceeded", "excess")
            ),
            "env_steps",
            "updates",
        )
        for name in names
    )
    return long.sort(*KEYS, "cost_name", "budget", "setting", "training_seed")


def setting(names: Sequence[str]) -> pl.Expr:
    """All budgets of an episode as one text: ``25``, or ``hazards=5, vases=2``."""
    numbers = [pl.col(f"budget_{name}").cast(pl.Float64).cast(pl.String) for name in names]
    short = [number.str.strip_suffix(".0") for number in numbers]
    if len(names) == 1:
        return short[0]
    return pl.concat_str(
        [pl.format("{}={}", pl.lit(name), text) for name, text in zip(names, short, strict=True)],
        separator=", ",
    )


def over_seeds(seeds: pl.DataFrame) -> pl.DataFrame:
    """One row per task, method, budgets and cost, over training seeds.

    Args:
        seeds: As `per_seed` returns them.

    Returns:
        Keys as before; ``seeds``; ``episodes`` (of all seeds), ``env_steps``, ``updates`` (the
        least of any seed); ``return``, ``cost``, ``exceeded``, ``excess``: means over seeds, each
        with ``NAME_half``, half its Student-t interval (null with one seed); ``cost_if_exceeded``:
        mean over all episodes that exceeded the budget, of all seeds together.
    """
    keys = [*KEYS, "setting", "cost_name", "budget"]
    kinds = ("return", "cost", "exceeded", "excess")
    exceeding = pl.col("exceeded") * pl.col("episodes")
    groups = seeds.group_by(keys, maintain_order=True).agg(
        pl.len().cast(pl.Int64).alias("seeds"),
        pl.col("episodes").sum().cast(pl.Int64),
        pl.col("env_steps").min(),
        pl.col("updates").min(),
        *(pl.col(kind).mean() for kind in kinds),
        *(pl.col(kind).std().alias(f"{kind}_half") for kind in kinds),
        # fill_null: a seed that never exceeds adds no episode; all of them: 0 / 0, made null below
        ((pl.col("cost_if_exceeded").fill_null(0.0) * exceeding).sum() / exceeding.sum()).alias(
            "cost_if_exceeded"
        ),
    )
    width = {count: half_width(1.0, count) for count in groups["seeds"].unique().to_list()}
    factor = pl.col("seeds").replace_strict(width, return_dtype=pl.Float64)
    return groups.with_columns(
        *(pl.col(f"{kind}_half") * factor for kind in kinds),
        pl.col("cost_if_exceeded").fill_nan(None),
    )
