"""What runs are called, so that only those with the same settings are averaged.

A label is a run's method, followed by whatever its settings make different: from other runs of the
same method in the report, or from the method itself (a utility of one's own). A preset stands for
all that it sets, so only what runs of one preset do not share is spelt out. Settings come from the
``config.toml`` beside an evaluation; two runs that differ in no setting but the seed have the same
label.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ucpo.reports import paper
from ucpo.storage.names import CONFIG_FILE

Settings = Mapping[str, Any]
"""Options by name, nested ones as ``critic.rate``."""

STOPPED = "stopped"
"""What is said of evaluations whose episodes end once a budget is exceeded."""
_OPEN, _CLOSE = " [", "]"
_MOST = 4  # differences that are spelt out
_USUAL = "auto"  # the preset that goes without saying

# What says who a run is rather than how it was trained, or changes no result.
_IGNORED = {
    *("task", "method", "variant", "summary", "preset", "seed", "budget"),
    *("asynchronous", "worker_timeout", "restart_workers", "threads", "device"),
    *("log_every", "checkpoint_every", "checkpoint_steps"),
}


@dataclass(frozen=True)
class Subject:
    """One evaluation file, as far as its label is concerned."""

    task: str
    method: str
    settings: Settings | None = None
    """None where nothing says how it was trained."""
    how: str = ""
    """What was special about the evaluation itself, such as ``hold=4`` or ``stopped``."""
    name: str = ""
    """What the user calls it, instead of the method."""
    budgets: frozenset[tuple[float, ...]] = field(default_factory=frozenset)
    """Evaluated at."""


def read_settings(folder: Path) -> Settings | None:
    """The settings of the run in a folder; None where there are none to be read."""
    try:
        table = tomllib.loads((folder / CONFIG_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return dict(_flat(table))


def labels(subjects: Sequence[Subject]) -> list[str]:
    """A label for each, in order."""
    made = [""] * len(subjects)
    presets = _presets(subjects)
    groups: dict[tuple[str, ...], list[int]] = {}
    for i, one in enumerate(subjects):
        groups.setdefault((one.task, _base(one), one.how, presets[i]), []).append(i)
    for (_, base, how, preset), members in groups.items():
        known = [i for i in members if subjects[i].settings is not None]
        differing = _differing([subjects[i] for i in known])
        for i in members:
            said = [each for each in (how, preset) if each]
            if i in known:
                said += _said(subjects[i], differing)
            made[i] = base + (f"{_OPEN}{', '.join(said)}{_CLOSE}" if said else "")
    return _told_apart(made, subjects)


def published(label: str) -> str:
    """Which of the paper's methods a label is to be compared with.

    Another utility with none, which is an empty name; episodes that were stopped where the paper's
    were, and only there.
    """
    method, _, rest = label.partition(_OPEN)
    said = rest.removesuffix(_CLOSE).split(", ")
    alike = (STOPPED in said) == (method in paper.STOPPED)
    utility = any(each.startswith("utility=") for each in said)
    return paper.name_of(method) if alike and not utility else ""


def is_baseline(label: str) -> bool:
    """Whether the paper compares UCP with the method."""
    return label.partition(_OPEN)[0] in paper.BASELINES


def name_of(label: str) -> str:
    """A label as it is shown: the method as the paper writes it, then what differs."""
    method, opened, rest = label.partition(_OPEN)
    return paper.name_of(method) + opened + rest


def told_apart(found: Sequence[str]) -> list[str]:
    """Labels that share their method with another one, as shown."""
    methods = [label.partition(_OPEN)[0] for label in found]
    shared = [one for one, m in zip(found, methods, strict=True) if methods.count(m) > 1]
    return [name_of(label) for label in sorted(shared, key=rank)]


def rank(label: str) -> tuple[int, str]:
    """Sorts labels by method as the paper does, then by what differs."""
    place, _ = paper.rank(label.partition(_OPEN)[0])
    return place, label


def _base(subject: Subject) -> str:
    return subject.name or subject.method


def _presets(subjects: Sequence[Subject]) -> list[str]:
    """What is said of each one's preset: nothing of the usual one, or where all have the same.

    Runs with the same settings have the same preset, whatever it was called.
    """
    found: list[str] = []
    first: dict[tuple[str, str, str], str] = {}
    for one in subjects:
        settings = one.settings or {}
        decided = str(sorted((k, str(v)) for k, v in settings.items() if k not in _IGNORED))
        name = Path(_shown(settings.get("preset", _USUAL))).name
        found.append(first.setdefault((one.task, _base(one), decided), name))
    several = {_base(one): set[str]() for one in subjects}
    for one, preset in zip(subjects, found, strict=True):
        several[_base(one)].add(preset)
    return [
        preset if preset != _USUAL and len(several[_base(one)]) > 1 else ""
        for one, preset in zip(subjects, found, strict=True)
    ]


def _differing(subjects: Sequence[Subject]) -> list[str]:
    """Options that are not the same in all of these."""
    tables = [one.settings or {} for one in subjects]
    names = dict.fromkeys(name for table in tables for name in table)
    found = [
        name
        for name in names
        if name not in _IGNORED and len({str(table.get(name)) for table in tables}) > 1
    ]
    # Methods for one budget are trained for each of them; only where two were evaluated at the
    # same budget would the one they were trained for matter.
    trained: dict[tuple[float, ...], set[str]] = {}
    for one, table in zip(subjects, tables, strict=True):
        for budget in one.budgets:
            trained.setdefault(budget, set()).add(str(table.get("budget")))
    return [*found, *(["budget"] if any(len(each) > 1 for each in trained.values()) else [])]


def _said(subject: Subject, differing: Sequence[str]) -> list[str]:
    settings = subject.settings or {}
    own = _utility_of(subject.method)
    utility = settings.get("utility")
    said = []
    if own is not None and utility is not None and utility != own and "utility" not in differing:
        said.append(f"utility={utility}")
    return said + [f"{name}={_shown(settings.get(name))}" for name in differing]


def _utility_of(method: str) -> str | None:
    """The utility that the paper's name of a method stands for."""
    if method not in paper.METHODS:
        return None
    return "mean" if method.endswith(("-mean", "-na")) else "excess"


def _told_apart(made: list[str], subjects: Sequence[Subject]) -> list[str]:
    """Long labels are cut short, and numbered where they would then be the same."""
    short: dict[tuple[str, str], str] = {}
    taken: dict[tuple[str, str], int] = {}
    for label, one in zip(made, subjects, strict=True):
        method, opened, rest = label.partition(_OPEN)
        parts = rest.removesuffix(_CLOSE).split(", ") if opened else []
        if (one.task, label) in short or len(parts) <= _MOST:
            short.setdefault((one.task, label), label)
            continue
        cut = f"{method}{_OPEN}{', '.join(parts[:_MOST])}, and {len(parts) - _MOST} more"
        taken[one.task, cut] = taken.get((one.task, cut), 0) + 1
        short[one.task, label] = f"{cut} #{taken[one.task, cut]}{_CLOSE}"
    return [short[one.task, label] for label, one in zip(made, subjects, strict=True)]


def _flat(table: Mapping[str, Any], where: str = "") -> list[tuple[str, Any]]:
    pairs: list[tuple[str, Any]] = []
    for name, value in table.items():
        pairs += (
            _flat(value, f"{where}{name}.") if isinstance(value, dict) else [(where + name, value)]
        )
    return pairs


def _shown(value: Any) -> str:
    """A value in a label: short, on one line, and nothing that ends the label."""
    text = " ".join(map(str, value)) if isinstance(value, list) else str(value)
    text = "".join(letter for letter in text if letter.isprintable() and letter not in "[],")
    return text[:40] or "none"
