"""What is known about each entry: how it was trained, and how it does."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ucpo.policies import zoo


@dataclass(frozen=True, kw_only=True)
class Card:
    """How an entry came about and what 1000 episodes at each budget showed."""

    command: str
    """What trains it again."""
    env_steps: int
    updates: int
    hours: float
    """Wall-clock time of the training."""
    machine: str
    """What it took that time on."""
    evaluation: list[dict[str, float]]
    """For each budget: return and cost (means), exceeded (share of episodes), excess (mean)."""
    hold: int = 1
    """Environment steps each action was kept for in these episodes."""

    def write(self, folder: Path) -> None:
        """Write the card of an entry."""
        text = json.dumps(asdict(self), indent=2)
        (folder / zoo.CARD_FILE).write_text(text + "\n", encoding="utf-8")


def card(name: str) -> Card:
    """The card of an entry, named with or without ``zoo:``."""
    folder = zoo.locate(zoo.PREFIX + name.removeprefix(zoo.PREFIX))
    return Card(**json.loads((folder / zoo.CARD_FILE).read_text(encoding="utf-8")))


def table() -> Any:
    """A rich table of all entries."""
    from rich.table import Table

    shown = Table(box=None, padding=(0, 1, 0, 0))
    shown.add_column("name", no_wrap=True)
    for head in ("steps", "hours", "hold", "budget", "return", "cost", "exceeded"):
        shown.add_column(head, justify="right")
    for name in zoo.names():
        entry = card(name)
        first = (name, f"{entry.env_steps / 1e6:g}M", f"{entry.hours:.1f}", f"{entry.hold}")
        for row in entry.evaluation:
            shown.add_row(
                *first,
                f"{row['budget']:g}",
                f"{row['return']:.1f}",
                f"{row['cost']:.1f}",
                f"{row['exceeded']:.1%}",
            )
            first = ("", "", "", "")
    return shown
