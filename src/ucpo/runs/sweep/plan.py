"""What a sweep consists of, read from a TOML file.

Options are those of a preset. A list is several values, and all lists are crossed; tables
``[[runs]]`` hold further options, each crossed for itself. Options that are lists themselves (the
widths of hidden layers) take lists of lists.

Example:
    task = ["SafetyPointGoal1-v0", "SafetyCarGoal1-v0"]
    seed = [0, 1, 2]
    [[runs]]
    method = "ucp"
    [[runs]]
    method = ["ppo-lag", "sac-lag"]
    budget = [10, 25]
"""

from __future__ import annotations

import dataclasses
import itertools
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ucpo.config.files import resolve
from ucpo.config.options import RunConfig
from ucpo.envs.registry import TASKS, family_of, import_home, make_task
from ucpo.errors import UsageError, nearest

_IN_THE_NAME = ("task", "method", "seed", "budget")  # by `RunConfig.folder`
_TABLES = ("runs", "evaluate", "ray", "slurm", "tune")
Options = dict[str, Any]
"""Values by the dotted name of their option."""


@dataclass(frozen=True)
class Evaluation:
    """What is played with every trained policy."""

    episodes: int = 1000
    """Per budget; 0: nothing is evaluated, and no report made."""
    budgets: tuple[str, ...] = ()
    """As `ucpo evaluate` takes them; by default what it takes by default."""
    seed: int = 0


@dataclass(frozen=True)
class Planned:
    """One run of a sweep."""

    name: str
    """Its folder in that of the sweep."""
    config: RunConfig
    options: Options = field(default_factory=dict)
    """What was said of it, by the dotted names of options."""


@dataclass(frozen=True)
class Plan:
    """Everything a file asks for."""

    runs: tuple[Planned, ...]
    evaluation: Evaluation = field(default_factory=Evaluation)
    ray: Mapping[str, Any] = field(default_factory=dict)
    """What to ask of a Ray cluster; see `ucpo.runs.sweep.on_ray`."""
    slurm: Mapping[str, Any] = field(default_factory=dict)
    """What to ask of Slurm; see `ucpo.runs.sweep.on_slurm`."""
    tune: Mapping[str, Any] = field(default_factory=dict)
    """What to search for; see `ucpo.runs.sweep.tuning`."""


def read_plan(file: Path) -> Plan:
    """Read a sweep's file; whatever cannot work is said before anything is run."""
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"there is no file {file}; a sweep is described in a .toml") from None
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"sweep {file} is not valid TOML: {error}") from None
    try:
        return make_plan(table)
    except UsageError as error:
        raise UsageError(f"sweep {file}: {error}") from None


def make_plan(table: Mapping[str, Any]) -> Plan:
    """The plan a table describes."""
    tables = {name: table[name] for name in _TABLES if name in table}
    common = {name: value for name, value in table.items() if name not in _TABLES}
    several = tables.pop("runs", [{}])
    if not isinstance(several, list) or not all(isinstance(one, dict) for one in several):
        raise UsageError("runs must be tables of options, each under a line [[runs]]")
    if not several:
        raise UsageError("runs is an empty list; give at least one table [[runs]], or leave it out")
    for name, value in tables.items():
        if not isinstance(value, dict):
            raise UsageError(f"{name} must be a table: options under a line [{name}]")
    return Plan(
        runs=_named([one for more in several for one in _crossed({**common, **more}, common)]),
        evaluation=_evaluation(tables.pop("evaluate", {})),
        **tables,
    )


def run_name(config: RunConfig, labels: Sequence[str] = ()) -> str:
    """The folder of a run in that of its sweep: TASK/METHOD-BUDGET-LABELS-seedSEED.

    Args:
        config: Of the run.
        labels: What else tells it from others, such as ``critic.rate=0.0001``.
    """
    ending = f"-seed{config.seed}"
    stem = config.folder.name.removesuffix(ending)
    name = "-".join([stem, *labels]) + ending
    safe = re.sub(r"[^\w.=+,-]", "-", name)  # a method may be a path, a budget have a colon
    return (config.folder.parent / safe).as_posix()


def label(option: str, value: Any) -> str:
    """An option and its value as a part of a name."""
    if isinstance(value, list | tuple):
        return f"{option}={'x'.join(map(str, value))}"
    if isinstance(value, float):
        return f"{option}={value:g}"
    return f"{option}={Path(value).stem if option == 'preset' else value}"


def make_config(options: Options) -> RunConfig:
    """The configuration of a run with these options, everything else as `ucpo train` has it."""
    nested: dict[str, Any] = {}
    for name, value in options.items():
        *groups, last = name.split(".")
        place = nested
        for group in groups:
            place = place.setdefault(group, {})
        place[last] = value
    task = nested.pop("task", None)
    if not isinstance(task, str):
        raise UsageError('which task? `ucpo tasks` lists them; e.g. task = "Courier-v0"')
    import_home(task)  # a module may register utilities too, which options then name
    return resolve(task, family=family_of(task), **nested)


@dataclass(frozen=True)
class _One:
    """One combination of values."""

    options: Options
    listed: frozenset[str]  # options that were given as lists


def _crossed(table: Mapping[str, Any], common: Mapping[str, Any]) -> list[_One]:
    """Every combination of the values of a table."""
    for name, value in common.items():  # a table of options in both: the one adds to the other
        if isinstance(value, dict) and isinstance(table[name], dict):
            table = {**table, name: {**value, **table[name]}}
    axes = dict(_axes(table, RunConfig, ""))
    listed = frozenset(name for name, (_, several) in axes.items() if several)
    values = [values for values, _ in axes.values()]
    return [
        _One(dict(zip(axes, chosen, strict=True)), listed) for chosen in itertools.product(*values)
    ]


def _axes(
    table: Mapping[str, Any], kind: type[Any], where: str
) -> Iterator[tuple[str, tuple[list[Any], bool]]]:
    """Each option of a table with its values, and whether these were a list."""
    fields = {field.name: field for field in dataclasses.fields(kind)}
    for key, value in table.items():
        name, spec = where + key, fields.get(key)
        if spec is None:
            known = [*fields, *([] if where else _TABLES)]
            raise UsageError(f"no option {name!r}; {nearest(key, known)}")
        if isinstance(value, dict) and spec.default_factory is not dataclasses.MISSING:
            yield from _axes(value, type(spec.default_factory()), f"{name}.")
        elif value == []:
            raise UsageError(f"{name} is an empty list; give at least one value, or leave it out")
        elif isinstance(value, list) and _means_several(key, value, spec.default):
            yield name, (value, True)
        else:
            yield name, ([value], False)


def _means_several(key: str, value: list[Any], default: Any) -> bool:
    """Whether a list is several values rather than one that is a list itself."""
    if not isinstance(default, tuple):
        return True
    if key in ("budget", "budget_range"):  # several without a cost's name can be nothing else
        return not any(isinstance(one, str) and "=" in one for one in value)
    return all(isinstance(one, list) for one in value)


def _named(found: Sequence[_One]) -> tuple[Planned, ...]:
    """Every run with its name, each once."""
    configs = [make_config(one.options) for one in found]
    _refuse_unknown_tasks({config.task for config in configs})
    alike: dict[str, list[_One]] = {}
    for one, config in zip(found, configs, strict=True):
        alike.setdefault(run_name(config), []).append(one)
    runs: dict[str, Planned] = {}
    for one, config in zip(found, configs, strict=True):
        others = alike[run_name(config)]
        told = [
            name
            for name in dict.fromkeys(name for other in others for name in other.options)
            if name not in _IN_THE_NAME and (name in one.listed or _differs(name, others))
        ]
        labels = [label(name, one.options[name]) for name in told if name in one.options]
        name = run_name(config, labels)
        if runs.setdefault(name, Planned(name, config, one.options)).config != config:
            raise UsageError(
                f"two different runs would be called {name}; give values that differ in their "
                "first six digits, or methods and presets with names of their own"
            )
    return tuple(runs.values())


def _differs(name: str, runs: Sequence[_One]) -> bool:
    return len({repr(run.options.get(name)) for run in runs}) > 1


def _refuse_unknown_tasks(tasks: set[str]) -> None:
    for task in sorted(tasks - set(TASKS)):
        make_task(task, 1).close()


def _evaluation(table: Mapping[str, Any]) -> Evaluation:
    known = {field.name: field.default for field in dataclasses.fields(Evaluation)}
    for key in table:
        if key not in known:
            raise UsageError(f"no option evaluate.{key}; {nearest(key, list(known))}")
    for key in ("episodes", "seed"):
        value = table.get(key, known[key])
        if type(value) is not int or value < 0:
            raise UsageError(f"evaluate.{key} must be a whole number of at least 0, got {value!r}")
    budgets = table.get("budgets", [])
    texts = map(str, budgets if isinstance(budgets, list) else [budgets])
    return Evaluation(table.get("episodes", 1000), tuple(texts), table.get("seed", 0))
