"""Configurations from and to TOML: presets and methods, and what runs keep.

Presets and methods hold differences from the defaults: a family of tasks first, then a method, then
what the user says. A preset may hold further differences for some tasks, for a learner, and, once
the method has had its say, for some methods.
"""

from __future__ import annotations

import dataclasses
import json
import math
import tomllib
from collections.abc import Mapping
from fnmatch import fnmatchcase
from importlib import resources
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from ucpo.config.options import RunConfig
from ucpo.errors import UsageError, nearest
from ucpo.own import name_of


def resolve(
    task: str = "Courier-v0",
    *,
    method: str = "ucp",
    preset: str = "auto",
    family: str = "default",
    **overrides: Any,
) -> RunConfig:
    """The configuration of a run: defaults, then preset, then method, then `overrides`.

    Args:
        task: Name of the task; presets may hold differences for single tasks.
        method: One of `method_names`, or the path of a TOML file.
        preset: ``auto`` for the one of the `family`, a name, or the path of a TOML file.
        family: What the task's family is called.
        overrides: Fields of `RunConfig`; nested ones as tables, ``critic={"rate": 1e-4}``.
    """
    if "variant" in overrides:
        raise UsageError("variants are methods now: write --method instead of --variant")
    for part in ("networks", "multiplier", "schedule"):  # a class or function of the user's own
        if isinstance(overrides.get(part), dict) and "own" in overrides[part]:
            overrides[part] = overrides[part] | {"own": name_of(overrides[part]["own"])}
    for name in ("budget_range", "budget"):
        if name in overrides:
            overrides[name] = _budgets(overrides[name])
    _, composition = read_method(method)
    learner = str(overrides.get("learner", composition.get("learner", RunConfig.learner)))
    prefix = composition.pop("presets", None)  # of those a method prefers, one for each family
    family = family if prefix is None else f"{prefix}-{family}"
    chosen = family if preset == "auto" else preset
    before, after = _preset(chosen, task, learner, Path(method).stem)
    layers = [
        before,
        composition,
        after,
        {"task": task, "method": Path(method).stem if _is_file(method) else method},
        {"preset": preset, **overrides},
    ]
    merged: dict[str, Any] = {}
    for layer in layers:
        merged = _merge(merged, layer)
    config: RunConfig = from_dict(RunConfig, merged)
    return config


def _budgets(given: Any) -> Any:
    """Budgets given as pairs of numbers, or by name of the cost, as the texts they stand for."""
    if isinstance(given, Mapping):
        return [f"{cost}={_budgets(value)}" for cost, value in given.items()]
    numbers = isinstance(given, tuple | list) and all(
        isinstance(each, int | float) and not isinstance(each, bool) for each in given
    )
    return ":".join(map(str, given)) if numbers and len(given) == 2 else given


def preset_names() -> list[str]:
    """Presets that come with the package."""
    return sorted(p.name[:-5] for p in _shipped("presets").iterdir() if p.name.endswith(".toml"))


def method_names() -> list[str]:
    """Methods that come with the package."""
    return sorted(p.name[:-5] for p in _shipped("methods").iterdir() if p.name.endswith(".toml"))


def read_method(name: str) -> tuple[str, dict[str, Any]]:
    """What a method is, in a sentence, and the options it consists of."""
    if _is_file(name):
        table = _read(Path(name), "method")
    elif name in method_names():
        table = _read(_shipped("methods") / f"{name}.toml", "method")
    else:
        raise UsageError(
            f"no method {name!r}; {nearest(name, method_names())} (or give the path of a .toml)"
        )
    summary = table.pop("summary", "")
    for part in ("multiplier", "shaping"):  # a kind alone may stand for its table
        if isinstance(table.get(part), str):
            table[part] = {"kind": table[part]}
    return str(summary), table


def _is_file(name: str) -> bool:
    return name.endswith(".toml")


def _shipped(folder: str) -> Any:
    return resources.files("ucpo.config") / folder


def _preset(
    name: str, task: str, learner: str, method: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a preset says before a method does, and what it says of methods."""
    if _is_file(name):
        table = _read(Path(name), "preset")
    elif name in preset_names():
        table = _read(_shipped("presets") / f"{name}.toml", "preset")
    else:
        raise UsageError(
            f"no preset {name!r}; {nearest(name, preset_names())} (or give the path of a .toml)"
        )
    methods = _tables(table, "methods", name)
    chosen = {"tasks": task, "learners": learner}
    before, after = _folded(table, chosen, name), dict[str, Any]()
    for pattern, difference in methods.items():
        if fnmatchcase(method, pattern):
            after = _merge(after, _folded(difference, chosen, name))
    return before, after


def _folded(table: dict[str, Any], chosen: dict[str, str], preset: str) -> dict[str, Any]:
    """A table with its differences for what was chosen folded in, one kind after the other."""
    groups = {kind: _tables(table, kind, preset) for kind in chosen}
    table = {key: value for key, value in table.items() if key not in ("methods", *chosen)}
    for kind, differences in groups.items():
        for pattern, difference in differences.items():
            if fnmatchcase(chosen[kind], pattern):
                table = _merge(table, _folded(difference, chosen, preset))
    return table


def _tables(table: dict[str, Any], kind: str, preset: str) -> dict[str, dict[str, Any]]:
    tables = table.get(kind, {})
    if not isinstance(tables, dict) or not all(isinstance(d, dict) for d in tables.values()):
        raise UsageError(f"preset {preset}: {kind} must be tables of options by {kind[:-1]}")
    return tables


def _read(path: Any, what: str) -> dict[str, Any]:
    try:
        return _parse(path.read_text(encoding="utf-8"), f"{what} {path}")
    except FileNotFoundError:
        raise UsageError(f"{what}: there is no file {path}") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{what} {path} is not valid TOML: {error}") from None


def _parse(text: str, what: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # a number of many digits is a ValueError too
        raise UsageError(f"{what} is not valid TOML: {error}") from None


def _merge(base: dict[str, Any], difference: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in difference.items():
        nested = isinstance(value, dict) and isinstance(base.get(key), dict)
        merged[key] = _merge(base[key], value) if nested else value
    return merged


_RENAMED = {
    "variant": "method",
    "stock_discounted": 'stock = "discounted"',
    "stock_observed": 'stock = "hidden"',
    "multiplier.ascent": 'multiplier.kind ("adam" is "softplus" there)',
}


def from_dict(kind: type[Any], table: dict[str, Any], where: str = "") -> Any:
    """Build a configuration from nested tables, naming any key that does not fit."""
    fields = {f.name: f for f in dataclasses.fields(kind)}
    hints = get_type_hints(kind)
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key not in fields:
            if where + key in _RENAMED:
                raise UsageError(f"{where + key} is now called {_RENAMED[where + key]}")
            raise UsageError(f"no option {_shown(where + key)}; {nearest(key, list(fields))}")
        values[key] = _fit(fields[key], value, where + key)
        words = get_args(hints[key]) if get_origin(hints[key]) is Literal else ()
        if words and value not in words:
            raise UsageError(
                f"{where + key}: no {_shown(value)}; {nearest(str(value), list(words))}"
            )
    return kind(**values)


def _fit(spec: dataclasses.Field[Any], value: Any, where: str) -> Any:
    """One value as its field wants it."""
    if spec.default_factory is not dataclasses.MISSING:  # a nested configuration
        kind = type(spec.default_factory())
        if isinstance(value, kind):
            return value
        if not isinstance(value, dict):
            raise UsageError(f"{where} must be a table of options, got {_shown(value)}")
        return from_dict(kind, value, f"{where}.")
    default = spec.default
    if isinstance(default, tuple):
        items = value if isinstance(value, list | tuple) else [value]
        return tuple(_scalar(type(default[0]) if default else str, item, where) for item in items)
    if default is None and value is None:
        return None
    return _scalar(float if default is None else type(default), value, where)  # None: a number


def _scalar(kind: Any, value: Any, where: str) -> Any:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind is str and number:  # a budget
        return str(value)
    if kind is float and number:
        value = float(value) if abs(value) < 2**63 else math.inf
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise UsageError(f"{where} must be of type {kind.__name__}, got {_shown(value)}")
    if kind is float and math.isnan(value):
        raise UsageError(f"{where} must be a number, got nan")
    if kind is int and not -(2**53) < value < 2**53:
        raise UsageError(f"{where} is too large: {_shown(value)}")
    if kind is str and not value.isprintable():
        raise UsageError(f"{where} holds characters that cannot be printed: {_shown(value)}")
    return value


def _shown(value: Any) -> str:
    """A value for a message: short, and on one line, whatever it is."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def to_toml(config: RunConfig) -> str:
    """The whole configuration as TOML, in the form presets have."""
    table = dataclasses.asdict(config)
    plain = {k: v for k, v in table.items() if not isinstance(v, dict)}
    lines = [f"{key} = {_toml(value)}" for key, value in plain.items() if value is not None]
    for name, nested in table.items():
        if isinstance(nested, dict):
            lines += ["", f"[{name}]"]
            lines += [
                f"{key} = {_toml(value)}" for key, value in nested.items() if value is not None
            ]
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return json.dumps(value)  # TOML's basic strings are JSON's, but for DEL
    if isinstance(value, tuple):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    return repr(value)


def read_config(path: Path) -> RunConfig:
    """Read a run's config.toml."""
    config: RunConfig = from_dict(RunConfig, _read(path, "configuration"))
    return config


def parse_config(text: str, what: str) -> RunConfig:
    """Read what `to_toml` wrote; `what` it is called in messages."""
    config: RunConfig = from_dict(RunConfig, _parse(text, what))
    return config
