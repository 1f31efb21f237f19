"""The tables of docs/baselines.md, from the episodes in this folder: python tables.py."""

import csv
import dataclasses
import math
import sys
from itertools import groupby
from pathlib import Path

import polars as pl

from ucpo.config.files import read_config
from ucpo.policies.zoo.adding import command
from ucpo.reports import paper
from ucpo.stats import student_t

HERE = Path(__file__).parent
FILE = "evaluation.parquet"
BUDGET = 25.0
HEAD = (
    "| method | preset | seeds | steps | minutes | return | cost | P(cost > 25) | excess | "
    "paper: return | cost |\n|---|---|---|---|---|---|---|---|---|---|---|"
)

BUDGETS_HEAD = (
    "| method | seeds | budget | return | cost | P(cost > b) | excess | paper: return | cost |\n"
    "|---|---|---|---|---|---|---|---|---|"
)


def trainings(task):
    """Evidence of a task in the order of the paper: runs that differ in nothing but their seed."""
    found = [(read_config(file), file.parent) for file in HERE.glob(f"{task}*/config.toml")]
    found = [each for each in found if each[0].task == task]
    found.sort(key=lambda each: (*_order(each[0]), each[0].seed))
    return [list(runs) for _, runs in groupby(found, key=lambda each: _order(each[0]))]


def _order(config):
    alike = command(dataclasses.replace(config, seed=0))
    return paper.rank(config.method), config.preset, alike


def row(runs, stopped):
    """One line of a table: means over seeds of their means over episodes."""
    spent = dict(csv.reader((HERE / "spent.csv").read_text(encoding="utf-8").splitlines()))
    config = runs[0][0]
    file = f"evaluation{'-stopped' if stopped else ''}.parquet"
    # OmniSafe's Saute is told a discounted budget that stands for 25.
    told = BUDGET if config.starts == "grid" else None
    played = [episodes(folder / file, told) for _, folder in runs]
    seen, digits = measured(played, BUDGET)
    minutes = sum(float(spent[folder.name]) for _, folder in runs) / len(runs) / 60
    cells = [
        paper.name_of(config.method) + (", stopped" if stopped else ""),
        " ".join(["short" if config.preset == "auto" else config.preset, *own(config)]),
        ", ".join(str(each.seed) for each, _ in runs),
        f"{played[0]['env_steps'][0] / 1e6:.2g}M",
        f"{minutes:.1f}",
        *seen,
        *published(config, stopped, digits),
    ]
    return f"| {' | '.join(cells)} |"


def episodes(file, budget=None):
    """Those of a file, told a budget where one is given."""
    played = pl.read_parquet(file)
    return played if budget is None else played.filter(pl.col("budget_cost") == budget)


def measured(played, budget):
    """Return, cost and how a budget is exceeded, from episodes of each seed; digits of returns."""
    costs = [each["cost_cost"] for each in played]
    returns = [each["return"].mean() for each in played]
    digits = 0 if abs(returns[0]) > 200 else 1
    seen = [
        interval(returns, digits),
        interval([each.mean() for each in costs], 1),
        interval([(each > budget).mean() for each in costs], 2),
        interval([(each - budget).clip(lower_bound=0.0).mean() for each in costs], 1),
    ]
    return seen, digits


def budgets(task):
    """All lines of UCP and its variants that were evaluated at several budgets, where any were."""
    lines = []
    for runs in trainings(task):
        config = runs[0][0]
        if config.method not in paper.METHODS:
            continue
        name, seeds = paper.name_of(config.method), ", ".join(str(each.seed) for each, _ in runs)
        levels = sorted(episodes(runs[0][1] / FILE)["budget_cost"].unique())
        for budget in levels if len(levels) > 1 else []:
            played = [episodes(folder / FILE, budget) for _, folder in runs]
            seen, digits = measured(played, budget)
            theirs = beside(paper.lookup(name, task, budget), digits)
            lines.append(f"| {' | '.join([name, seeds, f'{budget:g}', *seen, *theirs])} |")
    return [BUDGETS_HEAD, *lines] if lines else []


def own(config):
    """What a command says besides what other columns do."""
    words, said = command(config).split()[3:], []
    for word in words:
        if word.startswith("--"):
            said.append([])
        said[-1].append(word)
    elsewhere = ("--preset", "--method", "--budget", "--seed", "--env-steps", "--precision")
    return [f"`{' '.join(each)}`" for each in said if each[0] not in elsewhere]


def interval(values, digits):
    """A mean, with half its 95 % interval where there are several seeds."""
    mean, half = student_t(values)
    return f"{mean:.{digits}f}" + ("" if math.isnan(half) else f" ± {half:.{digits}f}")


def published(config, stopped, digits):
    """What the paper has for such episodes."""
    alike = stopped == (config.method in paper.STOPPED)
    name = paper.name_of(config.method)
    if not alike or name == config.method:
        return ["-", "-"]
    variant = config.method in paper.METHODS and config.method != "ucp"
    return beside(paper.lookup(name, config.task, BUDGET if variant else None), digits)


def beside(theirs, digits):
    """The paper's return and cost as the tables write them."""
    return [
        f"{theirs.return_mean:.{digits}f} ± {theirs.return_ci95:.{digits}f}",
        f"{theirs.cost_mean:.1f} ± {theirs.cost_ci95:.1f}",
    ]


def table(task):
    """All lines of a task: UCP first."""
    lines = [HEAD]
    for runs in trainings(task):
        lines.append(row(runs, stopped=False))
        if (runs[0][1] / "evaluation-stopped.parquet").exists():
            lines.append(row(runs, stopped=True))
    return lines


def commands(task):
    """How each training came about."""
    lines = []
    for (first, _), *others in trainings(task):
        seeds = " and ".join(str(other.seed) for other, _ in others)
        lines.append(command(first) + (f"  # likewise {seeds}" if others else ""))
    return lines


def tasks():
    """Tasks there is evidence of."""
    return sorted({read_config(file).task for file in HERE.glob("*/config.toml")})


if __name__ == "__main__":
    for each in tasks():
        said = [
            f"### {each}",
            "",
            *table(each),
            "",
            *budgets(each),
            "",
            *(f"    {line}" for line in commands(each)),
            "",
        ]
        sys.stdout.write("\n".join(said) + "\n")
