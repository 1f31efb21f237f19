"""Prints the tables of docs/results.md, from the cards: ``python -m ucpo.policies.zoo.page``."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import groupby

from ucpo.policies import zoo
from ucpo.policies.zoo.cards import card
from ucpo.reports.paper import lookup
from ucpo.reports.sheets import interval
from ucpo.stats import student_t

TRAININGS = "| entry | environment steps | updates | hours | command |\n|---|---|---|---|---|"
RESULTS = (
    "| task | method | seeds | budget | return | cost | P(cost > b) | excess | paper's return "
    "| paper's cost |\n|---|---|---|---|---|---|---|---|---|---|"
)
_MEASURED = ("return", "cost", "exceeded", "excess")
_PUBLISHED = {"ucp-ppo": "ucp"}  # what stands beside methods that the paper does not have


def groups() -> list[list[str]]:
    """The entries, those that differ in their seed alone together."""
    return [list(names) for _, names in groupby(zoo.names(), key=_without_seed)]


def training(name: str) -> str:
    """The row that says how an entry was trained."""
    entry = card(name)
    counts = f"{entry.env_steps:,} | {entry.updates:,} | {entry.hours:.1f}"
    return f"| {name} | {counts} | `{entry.command}` |"


def results(names: Sequence[str]) -> Iterator[str]:
    """The rows that say what a group does at each budget, beside the paper.

    Means over its seeds, with 95 % Student-t intervals where there is more than one.
    """
    task, method = _without_seed(names[0])
    hold = card(names[0]).hold
    used = f"{method}, hold {hold}" if hold > 1 else method
    seeds = ", ".join(name.rpartition("-seed")[2] for name in names)
    for rows in zip(*(card(name).evaluation for name in names), strict=True):
        budget = rows[0]["budget"]
        paper = lookup(_PUBLISHED.get(method, method), task, budget)
        ours = [interval(*student_t([row[key] for row in rows])) for key in _MEASURED]
        published = (
            f"{paper.return_mean} ± {paper.return_ci95}",
            f"{paper.cost_mean} ± {paper.cost_ci95}",
        )
        yield f"| {' | '.join((task, used, seeds, f'{budget:g}', *ours, *published))} |"


def _without_seed(name: str) -> tuple[str, str]:
    task, _, run = name.partition("/")
    return task, run.rpartition("-seed")[0]


def main() -> None:
    """Print both tables."""
    rows = [TRAININGS, *map(training, zoo.names()), "", RESULTS]
    rows += [row for names in groups() for row in results(names)]
    sys.stdout.write("\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
