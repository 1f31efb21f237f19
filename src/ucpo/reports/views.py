"""Which charts a report has: the paper's figures for each task, and what training left to see."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from ucpo.errors import UsageError
from ucpo.problem import Floats
from ucpo.reports import paper
from ucpo.reports.charts import PAPER_GREY, Chart, Figure, Rule, Series, colours
from ucpo.reports.sources import Sources, Training
from ucpo.stats import coverage, pit_histogram, tail
from ucpo.stats.intervals import half_width

BINS = 40
MOST_POINTS = 250  # of a learning curve
_REFERENCE = 25.0  # the budget of the paper's densities


@dataclass(frozen=True)
class Subject:
    """One cost of one task, and what is known of it."""

    task: str
    cost: str
    rows: pl.DataFrame  # of `over_seeds`
    colours: dict[str, str]
    against_paper: bool

    @property
    def methods(self) -> list[str]:
        """Those evaluated on this task."""
        return self.rows["method"].unique(maintain_order=True).to_list()

    def of(self, method: str) -> pl.DataFrame:
        """The rows of a method by budget."""
        return self.rows.filter(pl.col("method") == method).sort("budget", "setting")


def figures(sources: Sources, summary: pl.DataFrame, against_paper: bool) -> list[Figure]:
    """All figures there is evidence for."""
    painted = colours(summary["method"].unique(maintain_order=True).to_list())
    made: list[Figure] = []
    for (task, cost), rows in summary.group_by(["task", "cost_name"], maintain_order=True):
        subject = Subject(str(task), str(cost), rows, painted, against_paper)
        made += [_frontier(subject), _bars(subject), _densities(subject, sources.episodes)]
    for task in dict.fromkeys(training.task for training in sources.trainings):
        mine = [training for training in sources.trainings if training.task == task]
        made += _learning(task, mine, painted)
    if not sources.calibration.is_empty():
        made += _calibration(sources.calibration, painted)
    return sorted(made, key=lambda figure: summary["task"].to_list().index(figure.task))


def behind(row: dict[str, object]) -> str:
    """What stands behind a number."""
    parts = [
        f"{row['seeds']} seed{'' if row['seeds'] == 1 else 's'}",
        f"{row['episodes']:,} episodes",
    ]
    for name, text in (("env_steps", "environment steps"), ("updates", "updates")):
        parts += [f"{row[name]:,} {text}"] if row[name] is not None else []
    return ", ".join(parts)


def _frontier(subject: Subject) -> Figure:
    charts = []
    for kind in ("return", "cost"):
        series = []
        for method in subject.methods:
            rows = subject.of(method)
            several = rows["budget"].n_unique() < len(rows)
            series.append(
                Series(
                    label=paper.name_of(method),
                    x=tuple(rows["budget"]),
                    y=tuple(rows[kind]),
                    half=tuple(rows[f"{kind}_half"]),
                    colour=subject.colours[method],
                    kind="points" if several else "marks",
                    notes=_notes(rows),
                )
            )
        if subject.against_paper:
            series += [
                published for m in subject.methods for published in _published(subject, m, kind)
            ]
        rules = (Rule("diagonal", 0.0, "the budget itself"),) if kind == "cost" else ()
        title = _title(subject, kind)
        charts.append(Chart(title, "budget", f"{kind} of an episode", tuple(series), rules))
    return Figure(
        f"frontier-{_file(subject)}",
        subject.task,
        "Return and cost against the budget",
        "Means over training seeds with 95 % Student-t intervals."
        + (" Grey: the paper's numbers." if subject.against_paper else ""),
        tuple(charts),
    )


def _published(subject: Subject, method: str, kind: str) -> Iterator[Series]:
    """The paper's numbers for a method, where it has any."""
    entries = []
    for budget in paper.BUDGETS:
        try:
            entries.append((budget, paper.lookup(paper.name_of(method), subject.task, budget)))
        except UsageError:  # not in the paper: a gap
            continue
    if entries and subject.cost == paper.COST:
        yield Series(
            label=f"{paper.name_of(method)} (paper)",
            x=tuple(budget for budget, _ in entries),
            y=tuple(getattr(entry, f"{kind}_mean") for _, entry in entries),
            half=tuple(getattr(entry, f"{kind}_ci95") for _, entry in entries),
            colour=PAPER_GREY,
            kind="points",
            notes=("as published: 5 seeds, 5,000 episodes",) * len(entries),
        )


def _bars(subject: Subject) -> Figure:
    order = subject.rows.sort("budget", "setting")["setting"].unique(maintain_order=True).to_list()
    methods = subject.methods
    width = 0.8 / len(methods)
    charts = []
    for kind in ("return", "cost"):
        series = []
        for i, method in enumerate(methods):
            rows = subject.of(method)
            shift = (i - (len(methods) - 1) / 2.0) * width
            series.append(
                Series(
                    label=paper.name_of(method),
                    x=tuple(order.index(setting) + shift for setting in rows["setting"]),
                    y=tuple(rows[kind]),
                    half=tuple(rows[f"{kind}_half"]),
                    colour=subject.colours[method],
                    kind="bars",
                    notes=_notes(rows),
                    width=0.92 * width,
                )
            )
        charts.append(
            Chart(
                _title(subject, kind),
                "budget",
                f"{kind} of an episode",
                tuple(series),
                ticks=tuple((float(i), setting) for i, setting in enumerate(order)),
            )
        )
    return Figure(
        f"bars-{_file(subject)}",
        subject.task,
        "Methods side by side at each budget",
        "Means over training seeds with 95 % Student-t intervals; a missing bar is a missing run.",
        tuple(charts),
    )


def _densities(subject: Subject, frames: Sequence[pl.DataFrame]) -> Figure:
    """Distributions of return and cost at the paper's budget, or else the largest one."""
    rows = subject.rows.sort("budget")
    budget = _REFERENCE if _REFERENCE in rows["budget"] else float(rows["budget"].max())  # type: ignore[arg-type]
    column = f"cost_{subject.cost}"
    # Tasks do not share frames with other costs, so the first one with rows is the right one.
    chosen = next(
        found
        for frame in frames
        if column in frame.columns
        and not (
            found := frame.filter(
                pl.col("task") == subject.task, pl.col(f"budget_{subject.cost}") == budget
            )
        ).is_empty()
    )
    samples = {
        method: group
        for method in subject.methods
        if not (group := chosen.filter(pl.col("method") == method)).is_empty()
    }
    charts = []
    for kind, name in (("return", "return"), ("cost", column)):
        edges = _edges(chosen[name].to_numpy())
        series, rules = [], []
        for method, group in samples.items():
            values = group[name].to_numpy()
            label, colour = paper.name_of(method), subject.colours[method]
            counts, _ = np.histogram(values, edges)
            share = counts / len(values) / np.diff(edges)
            mean = float(values.mean())
            series.append(Series(label, tuple(edges), tuple(share), colour, "steps", notes=()))
            rules.append(Rule("x", mean, f"{label}: mean {mean:.4g}", colour, "solid", "mean"))
            if kind == "cost":
                excess = tail(values, budget).excess
                key = "budget + expected excess"
                text = f"{label}: {key} {excess:.3g}"
                rules.append(Rule("x", budget + excess, text, colour, "dotted", key))
        if kind == "cost":
            rules.append(Rule("x", budget, f"budget {budget:g}"))
        title = _title(subject, kind)
        charts.append(Chart(title, f"{kind} of an episode", "density", tuple(series), tuple(rules)))
    return Figure(
        f"densities-{_file(subject)}",
        subject.task,
        f"Distribution over episodes at budget {budget:g}",
        "All seeds together. Solid lines: means. Dotted: budget plus expected excess. "
        "Dashed: budget.",
        tuple(charts),
    )


def _edges(values: Floats) -> Floats:
    low, high = float(values.min()), float(values.max())
    if np.all(values == np.round(values)):  # counts: bars over whole numbers
        step = max(1.0, np.ceil((high - low + 1.0) / BINS))
        return np.arange(low, high + step + 0.5, step) - 0.5
    return np.linspace(low, high, BINS + 1)


def _learning(task: str, trainings: list[Training], painted: dict[str, str]) -> Iterator[Figure]:
    """Return, cost and multipliers over environment steps."""
    returns, costs, over_time, over_budget = [], [], [], []
    groups: dict[tuple[str, tuple[str, ...]], list[pl.DataFrame]] = {}
    for training in trainings:
        prices = tuple(name for name in training.metrics.columns if name.startswith("price/"))
        groups.setdefault((training.method, prices), []).append(training.metrics)
    cost_columns = [n for n in trainings[0].metrics.columns if n.startswith("cost/")]
    for (method, prices), runs in groups.items():
        bands = {name.split("/")[-1] for name in prices}
        only = f", budget {bands.pop()}" if len(bands) == 1 else ""
        label, colour = paper.name_of(method) + only, painted.get(method, "#333333")
        returns += _curves(runs, "return", label, colour)
        for column in cost_columns:
            suffix = f" ({column.split('/')[1]})" if len(cost_columns) > 1 else ""
            costs += _curves(runs, column, label + suffix, colour)
        last = []
        for i, column in enumerate(prices):
            _, cost, band = column.split("/")
            name = f"{label}: {cost} {band}" if len(cost_columns) > 1 else f"{label}: {band}"
            shade = _lighter(colour, 0.65 * i / max(1, len(prices) - 1))
            over_time += _curves(runs, column, name, shade)
            ends = np.array([run[column].drop_nulls().to_numpy()[-1] for run in runs])
            last.append((cost, _middle(band), ends))
        for cost in dict.fromkeys(cost for cost, _, _ in last):
            mine = [(middle, ends) for other, middle, ends in last if other == cost]
            over_budget.append(
                Series(
                    label + (f" ({cost})" if len(cost_columns) > 1 else ""),
                    tuple(middle for middle, _ in mine),
                    tuple(float(ends.mean()) for _, ends in mine),
                    colour,
                    "marks",
                    half=tuple(_half(ends) for _, ends in mine),
                    notes=(f"{len(runs)} seed{'s' * (len(runs) > 1)}, at the end of training",)
                    * len(mine),
                )
            )
    steps = "environment steps"
    seeds = "Means over training seeds where all have a value, with 95 % Student-t intervals."
    yield Figure(
        f"learning-{_safe(task)}",
        task,
        "Learning",
        f"Recent training episodes, at all budgets trained for. {seeds}",
        (
            Chart("return", steps, "return of an episode", tuple(returns)),
            Chart("cost", steps, "cost of an episode", tuple(costs)),
        ),
    )
    if over_budget:
        yield Figure(
            f"multipliers-{_safe(task)}",
            task,
            "Multipliers",
            f"The price of exceeding a budget, by band of budgets. {seeds}",
            (
                Chart("over training", steps, "multiplier", tuple(over_time)),
                Chart("at its end", "budget (middle of band)", "multiplier", tuple(over_budget)),
            ),
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


def _calibration(rows: pl.DataFrame, painted: dict[str, str]) -> Iterator[Figure]:
    levels = np.linspace(0.0, 1.0, 41)
    for (task, cost), group in rows.group_by(["task", "cost"], maintain_order=True):
        curves, bars = [], []
        for (method,), mine in group.group_by(["method"], maintain_order=True):
            low, high = mine["pit_low"].to_numpy(), mine["pit_high"].to_numpy()
            label, colour = paper.name_of(str(method)), painted.get(str(method), "#333333")
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
            f"calibration-{_safe(f'{task}-{cost}')}",
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


def _title(subject: Subject, kind: str) -> str:
    return kind if kind == "return" or subject.cost == paper.COST else f"cost ({subject.cost})"


def _notes(rows: pl.DataFrame) -> tuple[str, ...]:
    return tuple(f"budget {row['setting']}; {behind(row)}" for row in rows.iter_rows(named=True))


def _middle(band: str) -> float:
    """Of a band of budgets, ``7`` or ``0-7``."""
    low, _, high = band.partition("-")
    return 0.5 * (float(low) + float(high or low))


def _half(values: Floats) -> float | None:
    return None if len(values) < 2 else half_width(float(values.std(ddof=1)), len(values))


def _lighter(colour: str, share: float) -> str:
    parts = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(part + (255 - part) * share):02x}" for part in parts)


def _file(subject: Subject) -> str:
    return _safe(subject.task if subject.cost == paper.COST else f"{subject.task}-{subject.cost}")


def _safe(text: str) -> str:
    """A text as part of a file name."""
    return "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in text)
