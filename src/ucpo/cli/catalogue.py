"""List what comes with the package."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ucpo.cli.messages import say
from ucpo.config.options import RunConfig


@dataclass(frozen=True)
class Tasks:
    """List the tasks that come with the package."""

    def __call__(self) -> None:
        """Print a table."""
        from rich.console import Console
        from rich.table import Table

        from ucpo.envs.registry import TASKS, make_task

        shown = Table(box=None, padding=(0, 2, 0, 0))
        shown.add_column("task", no_wrap=True)
        for head in ("obs", "act", "limit"):
            shown.add_column(head, justify="right")
        shown.add_column("what it is")
        for name, entry in TASKS.items():
            spec = make_task(name, 1).spec
            sizes = (spec.observation_size, spec.action_size, spec.max_episode_steps)
            shown.add_row(name, *map(str, sizes), entry.summary)
        Console().print(shown)
        say(
            "Any Gymnasium environment that reports a cost works too: "
            "ucpo train my_package:MyEnv-v0 --budget-range 0:10 (ucpo check looks at it first)"
        )


PARTS = ("learner", "multiplier", "shaping", "utility", "starts", "stock")
"""What a method is made of."""


def _part(table: Mapping[str, Any], part: str) -> str:
    """What a method says of a part of it, or what it is by default."""
    value = table.get(part, getattr(RunConfig(), part))
    if isinstance(value, Mapping):
        value = value.get("kind", getattr(RunConfig(), part).kind)
    return str(getattr(value, "kind", value))


@dataclass(frozen=True)
class Methods:
    """List the methods to train with, and what each is made of."""

    def __call__(self) -> None:
        """Print a table."""
        from rich.console import Console
        from rich.table import Table

        from ucpo.config.files import method_names, read_method

        shown = Table(box=None, padding=(0, 2, 0, 0))
        shown.add_column("method", no_wrap=True)
        shown.add_column("what it is, and its parts")
        for name in method_names():
            summary, table = read_method(name)
            parts = ", ".join(f"{part} {_part(table, part)}" for part in PARTS)
            shown.add_row(name, f"{summary}\n[dim]{parts}[/dim]")
        Console().print(shown)
        say(
            "A multiplier of the kind gradient may be another in a preset. A file of your own in "
            "the same form works too: ucpo train TASK --method my.toml"
        )


@dataclass(frozen=True)
class Zoo:
    """List the trained policies that come with the package."""

    def __call__(self) -> None:
        """Print a table."""
        from rich.console import Console

        from ucpo.policies.zoo.cards import table

        Console().print(table())
        say(
            "zoo:NAME stands for a run, and zoo:TASK for its ucp-seed0 or ucp-ppo-seed0: "
            "ucpo evaluate zoo:TASK --hold N, where hold is not 1"
        )
