"""Against exact optima: the demonstration and the gap."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional

from ucpo.cli.messages import say


@dataclass(frozen=True)
class MeasureGap:
    """Train on a finite problem and measure the gap to its exact optimum at each budget."""

    problem: Positional[str]
    """Streets-v0, Machine-v0, Fords-v0, Crossing-v0, TwoActionsTimed-v0, or module:name of a
    ucpo.exact.FiniteProblem or of a function that makes one."""
    method: tuple[str, ...] = ("ucp",)
    """Methods to train; those for a single budget are trained anew for each of --budgets."""
    seeds: tuple[int, ...] = (0,)
    """One training each."""
    budgets: tuple[float, ...] = ()
    """Budgets to measure at, in cost units; by default four across the range trained for."""
    preset: str = "auto"
    """Name of a preset or path of a TOML file: the way to change any other option."""
    env_steps: int | None = None
    """Environment steps of each training; by default the preset's, as for the options below."""
    budget_range: str | None = None
    """Budgets to train for, low:high."""
    budget_levels: int | None = None
    """Evenly spaced initial budgets to train with, each with a price of its own."""
    gamma: float | None = None
    """The agent's discount. What is measured is undiscounted in any case."""
    output: Path | None = None
    """Folder for gap.csv, gap.png and the runs; must be new. By default nothing is kept."""

    def __call__(self) -> None:
        """Train, measure, print a table."""
        from rich.console import Console

        from ucpo.reports.gap import gap_figure, gap_table
        from ucpo.runs.gap import measure_gap

        options = ("env_steps", "budget_range", "budget_levels", "gamma")
        given = {name: getattr(self, name) for name in options if getattr(self, name) is not None}
        rows = measure_gap(
            self.problem,
            methods=self.method,
            seeds=self.seeds,
            budgets=self.budgets,
            folder=self.output,
            preset=self.preset,
            **given,
        )
        Console().print(gap_table(rows))
        if self.output is not None:
            rows.write_csv(self.output / "gap.csv")
            gap_figure(rows, self.output / "gap.png")
            say(f"numbers, figure and runs in {self.output}")


@dataclass(frozen=True)
class Demo:
    """Train on a small task with a known optimum, evaluate at four budgets, draw the frontier."""

    folder: Path = Path("runs/demo")
    """Where everything goes; replaced if it exists."""
    env_steps: int | None = None
    """Environment steps; by default the preset's."""
    seed: int = 0
    """Seed of the run."""

    def __call__(self) -> None:
        """Run the demonstration."""
        from ucpo.cli.demo import demo

        demo(self.folder, self.env_steps, self.seed)
