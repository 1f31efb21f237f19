"""Which tables a report has."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from ucpo.errors import UsageError
from ucpo.reports import labels, paper
from ucpo.reports.sheets import GAP, Sheet, interval, number, published
from ucpo.reports.sources import Sources
from ucpo.stats import (
    Interval,
    bootstrap_interval,
    calibration_summary,
    interquartile_mean,
    overlap,
    probability_of_improvement,
    select_budgets,
)

_BEHIND = ("seeds", "episodes", "env steps", "updates")
Rows = list[dict[str, Any]]


def sheets(sources: Sources, summary: pl.DataFrame, against_paper: bool) -> list[Sheet]:
    """All tables there is evidence for."""
    made = [
        comparison(summary, against_paper),
        budgets(summary, against_paper),
        tails(summary, against_paper),
        *aggregates(sources.seeds, against_paper),
    ]
    if not sources.calibration.is_empty():
        made.append(calibration(sources.calibration))
    return [*made, runs(sources.seeds)]


def comparison(summary: pl.DataFrame, against_paper: bool) -> Sheet:
    """Method x task, at the budget the paper's rule selects."""
    chosen = pl.concat([_selected(rows) for _, rows in _by_task(summary)])
    ours = summary["method"].unique(maintain_order=True).to_list()
    tasks = summary["task"].unique(maintain_order=True).to_list()
    theirs = paper.comparison()["method"].unique(maintain_order=True).to_list()
    theirs = theirs if against_paper and set(tasks) & set(paper.comparison()["task"]) else []
    data: Rows = []
    lines = []
    for task, cost in summary.select("task", "cost_name").unique(maintain_order=True).rows():
        cells: dict[str, list[str]] = {"budget": [], "return": [], "cost": []}
        for method in ours:
            found = _rows(chosen, task=task, method=method, cost_name=cost)
            row = found[0] if found else dict.fromkeys(chosen.columns)
            cells["budget"].append(str(row["setting"] or GAP))
            cells["return"].append(interval(row["return"], row["return_half"]))
            cells["cost"].append(interval(row["cost"], row["cost_half"]))
            data += [{**row, "source": "runs"} for row in found]
        for method in theirs:
            entry = _published(method, task, None) if cost == paper.COST else None
            cells["budget"].append(GAP)
            cells["return"].append(published(*_pair(entry, "return")))
            cells["cost"].append(published(*_pair(entry, "cost")))
            if entry:
                data.append(_paper_row(method, task, entry))
        names = {"budget": "budget", "return": "return", "cost": _priced(cost)}
        lines += [(task, names[kind], *cells[kind]) for kind in names]
    header = ("task", "what", *map(labels.name_of, ours), *(f"{name} (paper)" for name in theirs))
    note = (
        "At the budget with the best return whose expected cost is below 25 with 95 % confidence "
        "over seeds (the paper's rule; navigation tasks: always 25; tasks the paper does not have: "
        "below the largest budget evaluated). With one seed the mean decides and no interval is "
        f"shown. {GAP}: no run, or no budget fits. The paper's baselines: at 25 in any case, and "
        "PPO-ET, whose episodes the paper ends once the budget is exceeded, stopped and whole."
    )
    title = "Comparison of methods on each task"
    frame = _frame(data) if data else chosen.with_columns(source=pl.lit("runs"))
    return Sheet("comparison", title, note, header, tuple(lines), frame)


def budgets(summary: pl.DataFrame, against_paper: bool) -> Sheet:
    """Method x budget, beside the paper's numbers."""
    data: Rows = []
    lines = []
    for row in summary.iter_rows(named=True):
        entry = _match(row, against_paper)
        compared = _differences(row, entry)
        data.append({**row, **compared})
        line = [row["task"], labels.name_of(row["method"]), row["setting"], row["cost_name"]]
        line += [interval(row[kind], row[f"{kind}_half"]) for kind in ("return", "cost")]
        if against_paper:
            for kind in ("return", "cost"):
                line += [published(*_pair(entry, kind)), _signed(compared[f"{kind}_difference"])]
                line.append(_yes(compared[f"{kind}_overlap"]))
        lines.append((*line, *_provenance(row)))
    header = ["task", "method", "budget", "cost", "return", "cost paid"]
    if against_paper:
        header += [
            "paper's return",
            "difference",
            "overlap",
            "paper's cost",
            "difference",
            "overlap",
        ]
    note = (
        "Means over training seeds with 95 % Student-t intervals; env steps and updates: the least "
        "of any seed."
    )
    if against_paper:
        note += " Overlap: whether the intervals do; nothing can be said with one seed."
    title = "Return and cost at each budget"
    return Sheet("budgets", title, note, (*header, *_BEHIND), tuple(lines), _frame(data))


def tails(summary: pl.DataFrame, against_paper: bool) -> Sheet:
    """How episodes exceed their budgets."""
    data: Rows = []
    lines = []
    for row in summary.iter_rows(named=True):
        entry = _match(row, against_paper, tail=True)
        frequency = entry.frequency_of_excess if entry else math.nan
        given = entry.cost_given_excess if entry else math.nan
        data.append({**row, "paper_exceeded": frequency, "paper_cost_if_exceeded": given})
        line = [row["task"], labels.name_of(row["method"]), row["setting"], row["cost_name"]]
        line += [f"{row['exceeded']:.3f}", number(row["cost_if_exceeded"])]
        line.append(interval(row["excess"], row["excess_half"]))
        if against_paper:
            line += [GAP if math.isnan(frequency) else f"{frequency:.3f}"]
            line += [_signed(row["exceeded"] - frequency), number(given)]
            line.append(_signed((row["cost_if_exceeded"] or math.nan) - given))
        lines.append((*line, *_provenance(row)))
    header = ["task", "method", "budget", "cost", "P(cost > b)", "E[cost | cost > b]"]
    header.append("expected excess")
    if against_paper:
        header += ["paper's P", "difference", "paper's E", "difference"]
    note = (
        "Strictly above the budget counts. P and E over the episodes of all seeds, the expected "
        "excess E[(cost - b)+] as a mean over seeds with its 95 % interval. The paper reports "
        "budget 25."
    )
    title = "How budgets are exceeded"
    return Sheet("tails", title, note, (*header, *_BEHIND), tuple(lines), _frame(data))


def aggregates(seeds: pl.DataFrame, against_paper: bool) -> list[Sheet]:
    """Over tasks: interquartile means with bootstrap intervals, and who beats whom."""
    # One row per run and setting: with several costs, the most spent of its budget counts.
    share = pl.when(pl.col("budget") > 0.0).then(pl.col("cost") / pl.col("budget"))
    scale = _scales(seeds["task"].unique().to_list()) if against_paper else {}
    scored = (
        seeds.group_by("method", "setting", "task", "training_seed", maintain_order=True)
        .agg(pl.col("return").first(), share.max().alias("spent"), pl.col("cost").max())
        .with_columns(
            scaled=pl.col("return")
            / pl.col("task").replace_strict(scale, default=None, return_dtype=pl.Float64)
        )
    )
    data: Rows = []
    lines = []
    for (method, setting), group in scored.group_by(["method", "setting"], maintain_order=True):
        row: dict[str, Any] = {"method": method, "setting": setting}
        row |= {"tasks": group["task"].n_unique(), "runs": len(group)}
        for kind in ("spent", "scaled"):
            strata = [task[kind].drop_nulls().to_numpy() for _, task in group.group_by("task")]
            strata.sort(key=tuple)  # groups come in any order, and draws must not depend on it
            low, high = bootstrap_interval(strata, np.random.default_rng(0))
            values = np.concatenate(strata)
            row |= {kind: interquartile_mean(values), f"{kind}_low": low, f"{kind}_high": high}
        data.append(row)
        line = [labels.name_of(str(method)), str(setting), str(row["tasks"]), str(row["runs"])]
        line.append(_bounds(row, "spent"))
        lines.append((*line, *([_bounds(row, "scaled")] if scale else [])))
    header = ["method", "budget", "tasks", "runs", "cost / budget"]
    header += ["return / the paper's UCP at 25"] if scale else []
    note = (
        "Interquartile means over all runs of all tasks, with 95 % intervals of a bootstrap that "
        "resamples seeds within each task (none with one seed)."
    )
    made = [Sheet("aggregates", "Over all tasks", note, tuple(header), tuple(lines), _frame(data))]
    if seeds["method"].n_unique() > 1:
        made.append(_improvement(scored))
    return made


def _improvement(scored: pl.DataFrame) -> Sheet:
    """For each pair of methods, how probably one beats the other."""
    data: Rows = []
    lines = []
    for (setting,), group in scored.group_by(["setting"], maintain_order=True):
        methods = group["method"].unique(maintain_order=True).to_list()
        for one in methods:
            for other in methods:
                if one == other:
                    continue
                row = {"setting": setting, "method": one, "against": other}
                sides = [group.filter(pl.col("method") == each) for each in (one, other)]
                shared = sorted(set(sides[0]["task"]) & set(sides[1]["task"]))
                for kind, sign in (("return", 1.0), ("cost", -1.0)):
                    scores = [
                        [sign * side.filter(pl.col("task") == t)[kind].to_numpy() for t in shared]
                        for side in sides
                    ]
                    row[kind] = probability_of_improvement(*scores)
                row["tasks"] = len(shared)
                data.append(row)
                names = (labels.name_of(one), labels.name_of(other), str(setting))
                chances = [f"{row[kind]:.2f}" for kind in ("return", "cost")]
                lines.append((*names, *chances, str(len(shared))))
    header = ("method", "against", "budget", "P(higher return)", "P(lower cost)", "tasks")
    note = (
        "Chance that a run of one method beats a run of the other on the same task, ties counting "
        "half; the mean over the tasks both have runs of."
    )
    title = "Probability of improvement"
    return Sheet("improvement", title, note, header, tuple(lines), _frame(data))


def calibration(rows: pl.DataFrame) -> Sheet:
    """How well critics predict the costs to come."""
    summary = calibration_summary(rows)
    levels = [name for name in summary.columns if name.startswith("covered_")]
    lines = [
        (
            row["task"],
            labels.name_of(row["method"]),
            row["cost_name"],
            number(row["predicted"]),
            number(row["happened"]),
            *(f"{row[level]:.3f}" for level in levels),
            f"{row['error']:.3f}",
            f"{row['observed']:.1%}",
            str(row["seeds"]),
            f"{row['predictions']:,}",
        )
        for row in summary.iter_rows(named=True)
    ]
    header = ["task", "method", "cost", "predicted", "happened"]
    header += [f"below {int(level.removeprefix('covered_'))} %" for level in levels]
    header += ["error", "observed", "seeds", "predictions"]
    note = (
        "Discounted costs from the visited states on. Below p %: how often what happened lay below "
        "that predicted quantile; p % is perfect. Error: the mean distance from that over all "
        "levels. Observed: the rest lies beyond the time limit, where the critic's own prediction "
        "stands in."
    )
    title = "Calibration of the cost critics"
    return Sheet("calibration", title, note, tuple(header), tuple(lines), summary)


def runs(seeds: pl.DataFrame) -> Sheet:
    """What was there to report on."""
    found = (
        seeds.group_by("task", "method", "training_seed", maintain_order=True)
        .agg(
            pl.col("setting").unique(maintain_order=True).str.join("; ").alias("budgets"),
            pl.col("episodes").min().cast(pl.Int64),
            pl.col("env_steps").min(),
            pl.col("updates").min(),
        )
        .sort("task", "method", "training_seed")
    )
    lines = [
        (
            row["task"],
            labels.name_of(row["method"]),
            str(row["training_seed"]),
            row["budgets"],
            *(number(row[name]) for name in ("episodes", "env_steps", "updates")),
        )
        for row in found.iter_rows(named=True)
    ]
    header = ("task", "method", "training seed", "budgets", "episodes each", "env steps", "updates")
    note = "Environment steps and updates of the training, as the policy file says."
    return Sheet("runs", "Runs behind this report", note, header, tuple(lines), found)


def _selected(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows of one task that its rule selects; the paper's baselines are at 25 in any case."""
    task = rows["task"][0]
    compared = [labels.is_baseline(each) for each in rows["method"]]
    if any(compared):
        others = rows.filter(pl.Series(compared).not_())
        fixed = rows.filter(pl.Series(compared), pl.col("budget") == paper.LIMIT)
        return pl.concat([_selected(others), fixed]) if len(others) else fixed
    if paper.always_at_the_largest_budget(task):
        return rows.filter((pl.col("budget") == 25.0).all().over("method", "setting"))
    if task in paper.comparison()["task"]:
        return select_budgets(rows, single=True)
    levels = rows["budget"].unique().to_list()
    return select_budgets(rows, levels, max(levels), single=True)


def _by_task(summary: pl.DataFrame) -> Any:
    return summary.group_by(["task"], maintain_order=True)


def _rows(frame: pl.DataFrame, **values: str) -> Rows:
    return frame.filter(*(pl.col(name) == value for name, value in values.items())).to_dicts()


def _published(
    method: str, task: str, budget: float | None, *, tail: bool = False
) -> paper.Published | None:
    """The paper's numbers, or None: it has none, and a gap stays."""
    try:
        return paper.lookup_tail(method, task) if tail else paper.lookup(method, task, budget)
    except UsageError:
        return None


def _match(row: dict[str, Any], wanted: bool, *, tail: bool = False) -> paper.Published | None:
    """What the paper says of the same method, task and budget."""
    if not wanted or row["cost_name"] != paper.COST or (tail and row["budget"] != 25.0):
        return None
    return _published(labels.published(row["method"]), row["task"], row["budget"], tail=tail)


def _paper_row(method: str, task: str, entry: paper.Published) -> dict[str, Any]:
    row: dict[str, Any] = {"task": task, "method": method, "cost_name": paper.COST}
    for kind in ("return", "cost"):
        row[kind], row[f"{kind}_half"] = _pair(entry, kind)
    return {**row, "source": "paper"}


def _differences(row: dict[str, Any], entry: paper.Published | None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for kind in ("return", "cost"):
        mean, half = _pair(entry, kind)
        ours = Interval(row[kind], math.nan if row[f"{kind}_half"] is None else row[f"{kind}_half"])
        found |= {f"paper_{kind}": mean, f"paper_{kind}_half": half}
        found[f"{kind}_difference"] = None if mean is None else row[kind] - mean
        found[f"{kind}_overlap"] = (
            None if mean is None or half is None else overlap(ours, Interval(mean, half))
        )
    return found


def _pair(entry: paper.Published | None, kind: str) -> tuple[float | None, float | None]:
    if entry is None:
        return None, None
    return getattr(entry, f"{kind}_mean"), getattr(entry, f"{kind}_ci95")


def _scales(tasks: Sequence[str]) -> dict[str, float]:
    """The paper's UCP return at budget 25 for each task it has; positive on all of them."""
    entries = {task: _published("UCP", task, 25.0) for task in tasks}
    return {task: entry.return_mean for task, entry in entries.items() if entry}


def _provenance(row: dict[str, Any]) -> list[str]:
    return [number(row[name]) for name in ("seeds", "episodes", "env_steps", "updates")]


def _signed(value: float | None) -> str:
    if value is None or math.isnan(value):
        return GAP
    return ("+" if value > 0.0 else "") + number(value)


def _priced(cost: str) -> str:
    return "cost" if cost == paper.COST else f"cost ({cost})"


def _yes(value: bool | None) -> str:
    return GAP if value is None else "yes" if value else "no"


def _bounds(row: dict[str, Any], kind: str) -> str:
    low, high = row[f"{kind}_low"], row[f"{kind}_high"]
    middle = number(row[kind])
    return middle if math.isnan(low) else f"{middle} ({number(low)} to {number(high)})"


def _frame(rows: Rows) -> pl.DataFrame:
    return pl.DataFrame(rows, infer_schema_length=None)
