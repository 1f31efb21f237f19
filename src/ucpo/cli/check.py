"""Look at an environment before training on it."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from tyro.conf import Positional

from ucpo.cli.messages import refuse_negative, say


@dataclass(frozen=True)
class Check:
    """Step an environment with random actions: its costs, its ends, and budgets that make sense."""

    task: Positional[str]
    """my_package:MyEnv-v0, my_module:MyEnv, or any task `ucpo train` takes."""
    costs: tuple[str, ...] = ()
    """Names of the costs to look at; all it has by default."""
    env_steps: int = 5000
    """Steps to make."""
    seconds: float = 60.0
    """Stop sooner after this time."""
    seed: int = 0
    """Seed of the actions and episodes."""

    def __call__(self) -> None:
        """Look, print what was found, suggest a command."""
        from rich.console import Console
        from rich.table import Table

        from ucpo.envs.checks import check

        refuse_negative(self.seed)
        found = check(
            self.task,
            costs=self.costs or None,
            env_steps=self.env_steps,
            seconds=self.seconds,
            seed=self.seed,
        )
        spec, ended = found.spec, len(found.lengths)
        shown = Table(*("cost", "per step", "costly steps", "least", "most"), box=None)
        for head in ("episode: median", "9 in 10 below", "most"):
            shown.add_column(head)
        for cost in found.costs:
            low, high, most = (
                cost.episodes[int(q * (len(cost.episodes) - 1))] for q in (0.5, 0.9, 1)
            )
            numbers = (cost.smallest, cost.largest, low, high, most)
            shown.add_row(
                cost.name, f"{cost.mean:.3g}", f"{cost.often:.1%}", *(f"{n:.3g}" for n in numbers)
            )
        say(
            f"{found.task}: observations of {spec.observation_size} numbers, "
            f"{'a choice of' if spec.discrete else 'actions of'} {spec.action_size}; "
            f"{found.env_steps:,} random steps, rewards {found.rewards[0]:.3g} to "
            f"{found.rewards[1]:.3g}"
        )
        if ended:
            middle = sorted(found.lengths)[ended // 2]
            say(
                f"{ended} episodes of {min(found.lengths)} to {max(found.lengths)} steps (median "
                f"{middle}): {found.terminated} ended by themselves, in {ended - found.terminated} "
                "time ran out"
            )
        Console(file=sys.stderr).print(shown)
        for remark in found.remarks:
            say(f"- {remark}")
        say("A budget above what random episodes spend hardly ever binds. To train:")
        sys.stdout.write(found.command + "\n")
