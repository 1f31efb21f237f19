"""Which figures a report has: first of all the paper's, for each task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from ucpo.errors import UsageError
from ucpo.problem import Floats
from ucpo.reports import labels, paper
from ucpo.reports.charts import PAPER_GREY, Chart, Figure, Rule, Series, colours, safe
from ucpo.reports.sources import Sources
from ucpo.reports.training_views import calibration, learning
from ucpo.stats import tail

BINS = 40
_APART = 5.0  # points between the marks of two methods
_AS_PUBLISHED = "as published: 5 seeds, 5,000 episodes"
_FLOORS = {"cost": 0.0}  # what cannot be less
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


def figures(
    sources: Sources, summary: pl.DataFrame, compared: pl.DataFrame, against_paper: bool
) -> list[Figure]:
    """All figures there is evidence for.

    Args:
        sources: What was read.
        summary: What `over_seeds` makes of it.
        compared: Data of the comparison table, the paper's rows included.
        against_paper: Set the paper's numbers beside ours.
    """
    painted = colours(summary["method"].unique(maintain_order=True).to_list())
    made: list[Figure] = []
    for (task, cost), rows in summary.group_by(["task", "cost_name"], maintain_order=True):
        subject = Subject(str(task), str(cost), rows, painted, against_paper)
        made += [_frontier(subject), _bars(subject), _densities(subject, sources.episodes)]
        chosen = compared.filter(pl.col("task") == task, pl.col("cost_name") == cost)
        made += [_comparison(subject, chosen)] if len(chosen) > 1 else []
    for task in dict.fromkeys(training.task for training in sources.trainings):
        mine = [training for training in sources.trainings if training.task == task]
        made += learning(task, mine, painted)
    if not sources.calibration.is_empty():
        made += calibration(sources.calibration, painted)
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
                    label=labels.name_of(method),
                    x=tuple(rows["budget"]),
                    y=tuple(rows[kind]),
                    half=tuple(rows[f"{kind}_half"]),
                    colour=subject.colours[method],
                    kind="points" if several else "marks",
                    notes=_notes(rows),
                    dodge=_dodge(subject, method),
                )
            )
        if subject.against_paper:
            firsts = {labels.published(m): m for m in reversed(subject.methods)}
            series += [
                published
                for m in subject.methods
                if m in firsts.values()
                for published in _published(subject, m, kind)
            ]
        rules = (Rule("diagonal", 0.0, "the budget itself"),) if kind == "cost" else ()
        title = _title(subject, kind)
        text = f"{kind} of an episode"
        charts.append(Chart(title, "budget", text, tuple(series), rules, floor=_FLOORS.get(kind)))
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
            entries.append(
                (
                    budget,
                    paper.lookup(labels.published(method), subject.task, budget),
                )
            )
        except UsageError:  # not in the paper: a gap
            continue
    if entries and subject.cost == paper.COST:
        yield Series(
            label=f"{labels.published(method)} (paper)",
            x=tuple(budget for budget, _ in entries),
            y=tuple(getattr(entry, f"{kind}_mean") for _, entry in entries),
            half=tuple(getattr(entry, f"{kind}_ci95") for _, entry in entries),
            colour=PAPER_GREY,
            kind="points",
            notes=(_AS_PUBLISHED,) * len(entries),
            dodge=_dodge(subject, method) + 0.5 * _APART,
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
                    label=labels.name_of(method),
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
                floor=_FLOORS.get(kind),
            )
        )
    return Figure(
        f"bars-{_file(subject)}",
        subject.task,
        "Methods side by side at each budget",
        "Means over training seeds with 95 % Student-t intervals; a missing bar is a missing run.",
        tuple(charts),
    )


def _comparison(subject: Subject, rows: pl.DataFrame) -> Figure:
    """One bar for each method at the budget selected for it."""
    ours = [row["source"] == "runs" for row in rows.iter_rows(named=True)]
    names = [
        labels.name_of(row["method"]) + ("" if own else " (paper)")
        for own, row in zip(ours, rows.iter_rows(named=True), strict=True)
    ]
    charts = []
    for kind in ("return", "cost"):
        series = tuple(
            Series(
                label=name,
                x=(float(i),),
                y=(row[kind],),
                half=(row[f"{kind}_half"],),
                colour=subject.colours[row["method"]] if own else PAPER_GREY,
                kind="bars",
                notes=(f"budget {row['setting']}; {behind(row)}" if own else _AS_PUBLISHED,),
                width=0.75,
            )
            for i, (name, own, row) in enumerate(
                zip(names, ours, rows.iter_rows(named=True), strict=True)
            )
        )
        limit = kind == "cost" and subject.task in paper.comparison()["task"]
        rules = (Rule("y", _REFERENCE, f"limit {_REFERENCE:g}"),) if limit else ()
        ticks = tuple((float(i), name) for i, name in enumerate(names))
        text, floor = f"{kind} of an episode", _FLOORS.get(kind)
        charts.append(Chart(_title(subject, kind), "", text, series, rules, ticks, floor))
    return Figure(
        f"comparison-{_file(subject)}",
        subject.task,
        "Comparison at the selected budgets",
        "Means over training seeds with 95 % Student-t intervals; the table says how budgets are "
        "selected." + (" Grey: the paper's numbers." if not all(ours) else ""),
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
            label, colour = labels.name_of(method), subject.colours[method]
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


def _dodge(subject: Subject, method: str) -> float:
    """So that marks of several methods at one budget stand beside each other."""
    methods = subject.methods
    return _APART * (methods.index(method) - 0.5 * (len(methods) - 1))


def _title(subject: Subject, kind: str) -> str:
    return kind if kind == "return" or subject.cost == paper.COST else f"cost ({subject.cost})"


def _notes(rows: pl.DataFrame) -> tuple[str, ...]:
    return tuple(f"budget {row['setting']}; {behind(row)}" for row in rows.iter_rows(named=True))


def _file(subject: Subject) -> str:
    return safe(subject.task if subject.cost == paper.COST else f"{subject.task}-{subject.cost}")
