"""Trained policies that come with the package, each with everything needed to train it again.

The zoo is laid out as `ucpo train` lays out runs, TASK/METHOD-seedSEED, and an entry holds what a
run does: policy, configuration, metrics and evaluation, with a card that says how it came about.
Wherever a run folder or policy is asked for, ``zoo:SafetyPointCircle1-v0`` names an entry.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from ucpo.errors import UsageError, nearest

PREFIX = "zoo:"
CARD_FILE = "card.json"
FIRST = ("ucp-seed0", "ucp-ppo-seed0")  # what the name of a task alone stands for


def names() -> list[str]:
    """All entries, as TASK/METHOD-seedSEED."""
    return sorted(card.parent.relative_to(_root()).as_posix() for card in _root().rglob(CARD_FILE))


def is_entry(path: str | Path) -> bool:
    """Whether a path means something in the zoo."""
    return str(path).startswith(PREFIX)


def locate(path: str | Path) -> Path:
    """The folder that ``zoo:NAME`` stands for (``zoo:`` alone: all of it); other paths as given."""
    if not is_entry(path):
        return Path(path)
    name = str(path).removeprefix(PREFIX).strip("/")
    known = names()
    if not name:
        return _root()
    for entry in (name, *(f"{name}/{run}" for run in FIRST)):
        if entry in known:
            return _root() / entry
    tasks = sorted({entry.partition("/")[0] for entry in known})
    raise UsageError(
        f"the zoo has no {name!r} (`ucpo zoo` lists all); "
        f"{nearest(name, known if '/' in name else tasks)}"
    )


def own_file(path: str | Path, name: str) -> Path | None:
    """Where what is found out about an entry goes, as the package's own files stay as they are."""
    if not is_entry(path):
        return None
    return Path("runs", "zoo", locate(path).relative_to(_root()), name)


def _root() -> Path:
    return Path(str(resources.files(__name__)))
