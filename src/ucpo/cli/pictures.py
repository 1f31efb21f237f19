"""Pictures of episodes and of exact solutions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tyro.conf import Positional

from ucpo.cli.messages import refuse_negative, say
from ucpo.errors import UsageError


@dataclass(frozen=True)
class Watch:
    """Write an episode of a task as a moving picture."""

    task: Positional[str]
    """Name of a navigation or velocity task."""
    policy: str | None = None
    """Run folder, policy file or zoo:TASK; without one, actions are random."""
    budget: tuple[float, ...] = (25.0,)
    """What the episode may cost; several are shown side by side."""
    seed: int = 0
    """Seed of the episode."""
    output: Path = Path("episode.gif")
    """Where the picture goes: a .gif, or an .mp4 (needs ucpo[video])."""
    camera: Literal["overview", "track", "vision"] | None = None
    """Render with MuJoCo from this camera; by default a drawing from above, without OpenGL. The
    velocity tasks are always rendered, from the side."""
    every: int = 4
    """Environment steps between pictures."""
    pixels: int = 320
    """Width and height of a picture."""

    def __call__(self) -> None:
        """Play and write."""
        import numpy as np

        from ucpo.envs.registry import make_task
        from ucpo.show.episodes import compare

        refuse_negative(self.seed)
        if not self.budget:
            raise UsageError("which budget? e.g. --budget 0 10 25")
        costs = None
        if self.policy is None:
            generator = np.random.default_rng(self.seed)
            size = make_task(self.task, 1).spec.action_size
            act: Any = lambda obs, stock: generator.uniform(-1.0, 1.0, (1, size))  # noqa: E731
        else:
            from ucpo.policies.policy import load

            policy = load(self.policy)
            for budget in self.budget:
                policy.budgets(budget)  # refuses what was not trained for
            act, costs = policy.act, policy.info.cost_names
            policy.must_fit(make_task(self.task, 1, costs).spec)
        how: Any = {"camera": self.camera, "every": self.every, "pixels": self.pixels}
        seen = compare(self.task, act, self.output, self.budget, self.seed, costs=costs, **how)
        for budget, one in zip(self.budget, seen, strict=True):
            paid = ", ".join(f"{cost:g}" for cost in one.costs)
            say(f"budget {budget:g}: return {one.returns:.2f}, cost {paid} in {one.steps} steps")
        say(f"written to {self.output}")


@dataclass(frozen=True)
class Illustrate:
    """Show, exactly solved, that keeping a budget on average is not keeping it."""

    output: Path = Path("runs/illustration")
    """Folder for the figures."""
    gamma: tuple[float, ...] = (0.5, 0.9, 0.99)
    """Discounts of the two-action problem of the paper's appendix B."""
    budgets: tuple[float, ...] = (0.5, 1.0, 1.5, 2.0, 3.0)
    """Its budgets."""

    def __call__(self) -> None:
        """Solve, draw, print a table."""
        from rich.console import Console
        from rich.table import Table

        from ucpo.show.illustrations import illustrate

        shown = Table(
            *("problem", "gamma", "budget", "constraint", "value", "cost"),
            *("P(cost > b)", "excess", "1 in 1000"),
        )
        for row in illustrate(self.output, self.gamma, self.budgets):
            shown.add_row(
                *(row.problem, f"{row.gamma:g}", f"{row.budget:g}", row.constraint),
                *(f"{row.value:.3f}", f"{row.cost:.3f}", f"{row.over_budget:.1%}"),
                *(f"{row.excess:.3f}", f"{row.rare_cost:g}"),
            )
        Console().print(shown)
        say(f"figures in {self.output}")
