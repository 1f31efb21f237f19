"""The tables of docs/results.md, from the cards: ``python -m ucpo.zoo.page`` prints them."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from ucpo import zoo
from ucpo.reports.paper import lookup
from ucpo.zoo.cards import card

TRAININGS = "| entry | environment steps | updates | hours | command |\n|---|---|---|---|---|"
RESULTS = (
    "| task | seed | budget | return | cost | P(cost > b) | excess | paper's return "
    "| paper's cost |\n|---|---|---|---|---|---|---|---|---|"
)


def training(name: str) -> str:
    """The row that says how an entry was trained."""
    entry = card(name)
    counts = f"{entry.env_steps:,} | {entry.updates:,} | {entry.hours:.1f}"
    return f"| {name} | {counts} | `{entry.command}` |"


def results(name: str) -> Iterator[str]:
    """The rows that say what an entry does at each budget, beside the paper."""
    task, run = name.split("/")
    method, seed = run.split("-seed")
    for row in card(name).evaluation:
        paper = lookup(method, task, row["budget"])
        yield (
            f"| {task} | {seed} | {row['budget']:g} | {row['return']:.1f} | {row['cost']:.1f} "
            f"| {row['exceeded']:.3f} | {row['excess']:.2f} "
            f"| {paper.return_mean} ± {paper.return_ci95} "
            f"| {paper.cost_mean} ± {paper.cost_ci95} |"
        )


def main() -> None:
    """Print both tables."""
    names = zoo.names()
    rows = [TRAININGS, *map(training, names), "", RESULTS]
    rows += [row for name in names for row in results(name)]
    sys.stdout.write("\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
