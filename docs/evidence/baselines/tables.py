"""The tables of docs/baselines.md, from the episodes in this folder: python tables.py."""

import csv
import sys
from pathlib import Path

import polars as pl

from ucpo.config.files import read_config
from ucpo.policies.zoo.adding import command
from ucpo.reports import paper
from ucpo.stats import summarise

HERE = Path(__file__).parent
BUDGET = 25.0
HEAD = (
    "| method | preset | seed | steps | minutes | return | cost | P(cost > 25) | excess | "
    "paper: return | cost |\n|---|---|---|---|---|---|---|---|---|---|---|"
)


def runs(task):
    """Evidence of a task in the order of the paper, each with its configuration."""
    found = [(read_config(file), file.parent) for file in HERE.glob(f"{task}*/config.toml")]
    found = [each for each in found if each[0].task == task]
    return sorted(
        found, key=lambda each: (paper.rank(each[0].method), each[0].preset, each[0].seed)
    )


def files(config, folder):
    """Evaluations of a run, whole episodes first, each with what it is called."""
    for file in sorted(folder.glob("evaluation*.parquet"), key=lambda file: len(file.name)):
        stopped = file.stem.endswith("-stopped")
        yield paper.name_of(config.method) + (", stopped" if stopped else ""), stopped, file


def row(config, label, stopped, file, minutes):
    """One line of a table."""
    episodes = pl.read_parquet(file)
    (seen,) = summarise(episodes).to_dicts()
    costs = episodes["cost_cost"]  # OmniSafe's Saute is told a discounted budget that stands for 25
    above = (costs > BUDGET).mean()
    excess = (costs - BUDGET).clip(lower_bound=0.0).mean()
    digits = 0 if abs(seen["return"]) > 200 else 1
    preset = "short" if config.preset == "auto" else config.preset
    alike = stopped == (config.method in paper.STOPPED)
    named = alike and config.method in (*paper.BASELINES, "ucp")
    published = paper.lookup(label.partition(",")[0], config.task) if named else None
    theirs = ["-", "-"]
    if published:
        theirs = [
            f"{published.return_mean:.{digits}f} ± {published.return_ci95:.{digits}f}",
            f"{published.cost_mean:.1f} ± {published.cost_ci95:.1f}",
        ]
    cells = [label, preset, config.seed, f"{episodes['env_steps'][0] / 1e6:.2g}M", minutes]
    cells += [f"{seen['return']:.{digits}f}", f"{seen['cost_cost']:.1f}"]
    cells += [f"{above:.2f}", f"{excess:.1f}", *theirs]
    return f"| {' | '.join(map(str, cells))} |"


def table(task):
    """All lines of a task: UCP first."""
    spent = dict(csv.reader((HERE / "spent.csv").read_text(encoding="utf-8").splitlines()))
    lines = [HEAD]
    for config, folder in runs(task):
        minutes = f"{float(spent[folder.name]) / 60:.1f}"
        for label, stopped, file in files(config, folder):
            lines.append(row(config, label, stopped, file, minutes))
    return lines


def commands(task):
    """How each run came about; docs/learning.md and docs/results.md say it of UCP."""
    return [command(config) for config, _ in runs(task) if config.method != "ucp"]


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
            *(f"    {line}" for line in commands(each)),
            "",
        ]
        sys.stdout.write("\n".join(said) + "\n")
