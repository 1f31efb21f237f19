"""Figures of what training leaves to see: learning curves, multipliers, calibration."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from ucpo.problem import Floats
from ucpo.reports import labels
from ucpo.reports.charts import BANDS, Chart, Figure, Rule, Series, safe
from ucpo.reports.sources import Training
from ucpo.stats import coverage, pit_histogram
from ucpo.stats.intervals import half_width
from ucpo.storage import names

MOST_POINTS = 250  # of a learning curve
_SEEDS = "Means over training seeds where all have a value, with 95 % Student-t intervals."


def learning(task: str, trainings: list[Training], painted: dict[str, str]) -> Iterator[Figure]:
    """Return, cost and multipliers over environment steps, for one task."""
    returns: list[Series] = []
    costs: list[Series] = []
    over_time: list[Series] = []
    over_budget: list[Series] = []
    groups: dict[tuple[str, tuple[str, ...]], list[pl.DataFrame]] = {}
    for training in trainings:
        prices = tuple(n for n in training.metrics.columns if names.parts(n)[0] == names.PRICE)
        groups.setdefault((training.method, prices), []).append(training.metrics)
    cost_columns = [n for n in trainings[0].metrics.columns if names.parts(n)[0] == names.COST]
    for (method, prices), runs in groups.items():
        bands = {names.parts(name)[2] for name in prices}
        only = f", budget {bands.pop()}" if len(bands) == 1 else ""
        label, colour = labels.name_of(method) + only, painted.get(method, "#333333")
        returns += _curves(runs, "return", label, colour)
        for column in cost_columns:
            suffix = f" ({names.parts(column)[1]})" if len(cost_columns) > 1 else ""
            costs += _curves(runs, column, label + suffix, colour)
        last = []
        for i, column in enumerate(prices):
            _, cost, band = names.parts(column)
            name = f"{label}: {cost} {band}" if len(cost_columns) > 1 else f"{label}: {band}"
            # Where nothing else needs the colours, bands have their own.
            share = 0.65 * i / max(1, len(prices) - 1)
            shade = BANDS[i % len(BANDS)] if len(groups) == 1 else _lighter(colour, share)
            over_time += _curves(runs, column, name, shade)
            ends = np.array([run[column].drop_nulls().to_numpy()[-1] for run in runs])
            last.append((cost, _middle(band), ends))
        over_budget += _prices_at_the_end(last, label, colour, len(cost_columns) > 1)
    steps = "environment steps"
    yield Figure(
        f"learning-{safe(task)}",
        task,
        "Learning",
        f"Recent training episodes, at all budgets trained for. {_SEEDS}",
        (
            Chart("return", steps, "return of an episode", tuple(returns)),
            Chart("cost", steps, "cost of an episode", tuple(costs), floor=0.0),
        ),
    )
    if over_budget:
        yield Figure(
            f"multipliers-{safe(task)}",
            task,
            "Multipliers",
            f"The price of exceeding a budget, by band of budgets. {_SEEDS}",
            (
                Chart("over training", steps, "multiplier", tuple(over_time), floor=0.0),
                Chart(
                    "at its end",
                    "budget (middle of band)",
                    "multiplier",
                    tuple(over_budget),
                    floor=0.0,
                ),
            ),
        )


def _prices_at_the_end(
    last: list[tuple[str, float, Floats]], label: str, colour: str, several: bool
) -> Iterator[Series]:
    """Prices against budgets: of each cost, band (its middle) and seed the last one."""
    for cost in dict.fromkeys(cost for cost, _, _ in last):
        mine = [(middle, ends) for other, middle, ends in last if other == cost]
        seeds = len(mine[0][1])
        yield Series(
            label + (f" ({cost})" if several else ""),
            tuple(middle for middle, _ in mine),
            tuple(float(ends.mean()) for _, ends in mine),
            colour,
            "marks",
            half=tuple(_half(ends) for _, ends in mine),
            notes=(f"{seeds} seed{'s' * (seeds > 1)}, at the end of training",) * len(mine),
        )


def _curves(runs: list[pl.DataFrame], column: str, label: str, colour: str) -> list[Series]:
    """A mean over seeds with its interval, or one line per seed where their steps differ."""
    frames = [
        run.select("env_steps", value=column).drop_nulls().filter(pl.col("value").is_finite())
        for run in runs
        if column in run.columns
    ]
    frames = [frame for frame in frames if not frame.is_empty()]
    if not frames:
        return []
    grouped = (
        pl.concat(frames)
        .group_by("env_steps")
        .agg(pl.col("value").mean(), pl.col("value").std().alias("std"), pl.len().alias("n"))
        .filter(pl.col("n") == len(frames))
        .sort("env_steps")
    )
    if len(grouped) < min(len(frame) for frame in frames) // 2:
        return [one for frame in frames for one in _curves([frame], "value", label, colour)]
    every = -(-len(grouped) // MOST_POINTS)
    grouped = grouped.gather_every(every)
    factor = half_width(1.0, len(frames))
    return [
        Series(
            label,
            tuple(grouped["env_steps"]),
            tuple(grouped["value"]),
            colour,
            half=tuple(None if np.isnan(factor) else factor * s for s in grouped["std"]),
            notes=(f"{len(frames)} seed{'s' * (len(frames) > 1)}",) * len(grouped),
        )
    ]


def calibration(rows: pl.DataFrame, painted: dict[str, str]) -> Iterator[Figure]:
    """Coverage of the predicted quantiles and PIT histogram, for each task and cost."""
    levels = np.linspace(0.0, 1.0, 41)
    for (task, cost), group in rows.group_by(["task", "cost"], maintain_order=True):
        curves, bars = [], []
        for (method,), mine in group.group_by(["method"], maintain_order=True):
            low, high = mine["pit_low"].to_numpy(), mine["pit_high"].to_numpy()
            label, colour = labels.name_of(str(method)), painted.get(str(method), "#333333")
            note = f"{mine['training_seed'].n_unique()} seed(s), {len(mine):,} predictions"
            covered = tuple(coverage(low, high, levels).tolist())
            notes = (note,) * len(levels)
            curves.append(Series(label, tuple(levels.tolist()), covered, colour, notes=notes))
            slices = pit_histogram(low, high)
            edges = np.linspace(0.0, 1.0, len(slices) + 1)
            bars.append(
                Series(label, tuple(edges.tolist()), tuple(slices * len(slices)), colour, "steps")
            )
        yield Figure(
            f"calibration-{safe(f'{task}-{cost}')}",
            str(task),
            f"Calibration of the predicted {cost}",
            "Left: how often the discounted cost that followed lay below a predicted quantile. "
            "Right: where in the prediction it lay. A perfect critic follows the dashed lines; a "
            "curve above them predicts too much.",
            (
                Chart(
                    "coverage of quantiles",
                    "level of the predicted quantile",
                    "share of outcomes below it",
                    tuple(curves),
                    (Rule("diagonal", 0.0, "perfect"),),
                ),
                Chart(
                    "PIT histogram",
                    "place in the predicted distribution",
                    "density",
                    tuple(bars),
                    (Rule("y", 1.0, "perfect"),),
                ),
            ),
        )


def _middle(band: str) -> float:
    """Of a band of budgets, ``7`` or ``0-7``."""
    low, _, high = band.partition("-")
    return 0.5 * (float(low) + float(high or low))


def _half(values: Floats) -> float | None:
    return None if len(values) < 2 else half_width(float(values.std(ddof=1)), len(values))


def _lighter(colour: str, share: float) -> str:
    parts = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(part + (255 - part) * share):02x}" for part in parts)
