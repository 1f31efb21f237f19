"""Pages of methods, made from config/methods/*.toml and parts.toml."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from ucpo.config.files import method_names, read_method
from ucpo.config.options import RunConfig

PARTS: dict[str, dict[str, dict[str, str]]] = tomllib.loads(
    (Path(__file__).parent / "parts.toml").read_text(encoding="utf-8")
)
COLUMNS = ("learner", "multiplier", "shaping", "utility", "starts", "stock")
SINGLE_BUDGET = 25


def names() -> list[str]:
    """Methods that come with the package, UCP and its variants first."""
    return sorted(method_names(), key=lambda name: (not name.startswith("ucp"), name))


def composition(name: str) -> dict[str, str]:
    """Which part a method takes for each question; `update` only of those that learn by PPO,
    `schedule` only where a method says one.
    """
    _, table = read_method(name)
    defaults = RunConfig()

    def chosen(part: str) -> str:
        given: Any = table.get(part, getattr(defaults, part))
        if isinstance(given, dict):
            given = given.get("kind", getattr(defaults, part).kind)
        return str(getattr(given, "kind", given))

    parts = {part: chosen(part) for part in COLUMNS}
    if parts["learner"] == "ppo":
        parts["update"] = str(table.get("ppo", {}).get("update", "clip"))
    if "schedule" in table:
        parts["schedule"] = chosen("schedule")
    return parts


def table() -> str:
    """All methods and what they are made of."""
    rows = [f"| method | {' | '.join(COLUMNS)} | what it is |", "|---" * (len(COLUMNS) + 2) + "|"]
    for name in names():
        parts = composition(name)
        cells = " | ".join(parts[part] for part in COLUMNS)
        rows.append(f"| [{name}]({name}.md) | {cells} | {read_method(name)[0]} |")
    return "\n".join(rows)


def page(name: str) -> str:
    """The page of one method."""
    summary, _ = read_method(name)
    parts = composition(name)
    budget = f" --budget {SINGLE_BUDGET}" if parts["starts"] == "single" else ""
    lines = [f"# {name}", "", summary, ""]
    lines += ["```sh", f"ucpo train SafetyPointGoal1-v0 --method {name}{budget}", "```", ""]
    lines += ["## Composition", "", "| part | choice | what it does |", "|---|---|---|"]
    for part, choice in parts.items():
        lines.append(f"| {part} | `{choice}` | {_text(part, choice).get('what', '')} |")
    if parts["multiplier"] == "gradient":
        lines += ["", "A preset may replace the multiplier of the kind `gradient` by another."]
    lines += ["", "## Equations", ""]
    for part, choice in parts.items():
        text = _text(part, choice)
        if "equation" in text:
            lines += [f"**{part.capitalize()}**: `{choice}`", ""]
            lines += ["$$", text["equation"], "$$", ""]
    cited = [_text(part, choice).get("reference") for part, choice in parts.items()]
    known = [reference for reference in dict.fromkeys(cited) if reference]
    if known:
        lines += ["## References", "", *(f"- {reference}" for reference in known), ""]
    lines += ["## The file", "", "```toml", _file(name), "```", ""]
    lines.append("[Methods](index.md) says what the symbols mean.")
    return "\n".join(lines) + "\n"


def _text(part: str, choice: str) -> dict[str, str]:
    return PARTS.get(part, {}).get(choice, {})


def _file(name: str) -> str:
    import ucpo.config

    path = Path(str(ucpo.config.__file__)).parent / "methods" / f"{name}.toml"
    return path.read_text(encoding="utf-8").strip()
