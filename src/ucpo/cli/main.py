"""The command line. Heavy imports stay inside the command that needs them."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro
from tyro.conf import Positional, arg, subcommand

from ucpo import __version__
from ucpo.config.files import resolve
from ucpo.config.options import RunConfig
from ucpo.envs.registry import family_of
from ucpo.errors import LostError, UsageError

if TYPE_CHECKING:
    from ucpo.runs.run import UCP

PREEMPTED = 75  # exit code after SIGTERM: a checkpoint was written, `ucpo resume` goes on

DESCRIPTION = """Reinforcement learning under budgets that are chosen after training.

Any command also takes --debug, which shows the whole traceback of an error. ucpo --version says
which version this is."""


@dataclass(frozen=True)
class Train:
    """Train an agent on a task."""

    config: Annotated[RunConfig, arg(name="")]
    run: str | None = None
    """Folder for the run; by default runs/TASK/VARIANT-seedSEED. Must be new."""
    track: Literal["wandb"] | None = None
    """Also log to this service."""

    def __call__(self) -> None:
        """Train, then say where the policy is."""
        from ucpo.runs.run import UCP

        config = self.config
        name = config.task.replace("/", "-").replace(":", "-")
        budget = "".join(f"-{text.replace('=', '')}" for text in config.budget)
        folder = Path(self.run or f"runs/{name}/{config.variant}{budget}-seed{config.seed}")
        _finish(UCP.from_config(config).learn(run=folder, track=self.track), folder)


@dataclass(frozen=True)
class Resume:
    """Go on with a run that was stopped or broke off, as if nothing had happened."""

    run: Positional[str]
    """The run's folder."""
    env_steps: int | None = None
    """A new total of environment steps, to extend a run; by default what it was begun with."""
    track: Literal["wandb"] | None = None
    """Also log to this service."""

    def __call__(self) -> None:
        """Train on, then say where the policy is."""
        from ucpo.runs.run import UCP

        folder = Path(self.run)
        _finish(UCP.resume(folder, env_steps=self.env_steps).learn(track=self.track), folder)


@dataclass(frozen=True)
class Evaluate:
    """Play episodes with a trained policy at any budgets and report return and cost."""

    policy: Positional[str]
    """Run folder, policy file, or zoo:TASK for one that comes with the package."""
    budgets: tuple[str, ...] = ()
    """Budgets in cost units; each holds for every cost, or hazards=5,vases=2 names them. By default
    0, 5, 15 and 25 where trained for, otherwise four across the trained range."""
    episodes: int = 1000
    """Episodes per budget."""
    seed: int = 0
    """Seed of the episodes."""
    num_envs: int = 64
    """Environments each process steps together."""
    processes: int = 1
    """Processes to share the episodes among. They come out the same on any number."""
    task: str | None = None
    """Another task than the one trained on."""
    extrapolate: bool = False
    """Allow budgets outside the range trained for."""
    save_paths: int = 0
    """Episodes per budget to keep whole, for drawing (paths.parquet; navigation: paths.png)."""
    calibrate: bool = False
    """Also compare what the critics predict with what happens (calibration.parquet)."""
    output: Path | None = None
    """Where to write one row per episode (Parquet); by default evaluation.parquet in the run (for
    the zoo, in runs/zoo here). Episodes that are there already are kept and not played again."""

    def __call__(self) -> None:
        """Evaluate, save the episodes, print a table."""
        from rich.console import Console
        from rich.progress import Progress

        from ucpo.evaluation import Request, evaluate_run
        from ucpo.policies import zoo
        from ucpo.policies.policy import load
        from ucpo.reports import draw_paths, table

        _refuse_negative(self.seed)
        info = load(self.policy).info
        if self.task is None and ":" in info.task:  # a policy must not run code
            raise UsageError(
                f"the policy was trained on {info.task}, which would import a Python module "
                f"that the file names; if you trust it, say --task {info.task}"
            )
        budgets = [info.read_budget(text) for text in self.budgets] or info.usual_budgets()
        request = Request(
            policy=zoo.locate(self.policy),
            budgets=budgets,
            episodes=self.episodes,
            seed=self.seed,
            task=self.task,
            extrapolate=self.extrapolate,
            num_envs=self.num_envs,
            processes=self.processes,
            save_paths=self.save_paths,
            calibrate=self.calibrate,
            output=self.output or zoo.own_file(self.policy, "evaluation.parquet"),
        )
        with Progress(console=Console(stderr=True)) as progress:
            bar = progress.add_task("episodes", total=None)
            try:
                result = evaluate_run(
                    request,
                    begun=lambda kept, missing: progress.update(
                        bar, total=kept + missing, completed=kept
                    ),
                    done=lambda count: progress.advance(bar, count),
                )
            except KeyboardInterrupt:
                _say("finished episodes are kept; the same command goes on from there")
                raise
        Console().print(table(result.episodes))
        if result.moved:
            _say(f"episodes of an earlier state of this policy are now in {result.moved}")
        kept = len(result.episodes) - result.played
        _say(
            f"{result.played:,} episodes played, {kept:,} kept from before; one row each in "
            f"{result.output}. Next: ucpo report {result.output.parent} -o report"
        )
        if result.paths:
            drawn = draw_paths(result.paths)
            _say(f"whole episodes in {result.paths}" + (f", drawn in {drawn}" if drawn else ""))


@dataclass(frozen=True)
class Report:
    """Make tables, figures and one page from run folders and evaluation files."""

    runs: Positional[tuple[Path, ...]]
    """Run folders, folders of run folders, evaluation files (Parquet), zoo:TASK, or zoo: for all
    that comes with the package."""
    output: Annotated[Path, arg(aliases=["-o"])] = Path("report")
    """Folder for report.html, report.md, tables and figures."""
    against_paper: bool = False
    """Set the paper's numbers beside them, where it has any."""

    def __call__(self) -> None:
        """Read, summarise, draw, write."""
        from rich.console import Console
        from rich.progress import Progress

        from ucpo.envs.threads import processors
        from ucpo.reports import build

        with Progress(console=Console(stderr=True)) as progress:
            bar = progress.add_task("figures", total=None)
            page = build(
                self.runs,
                self.output,
                against_paper=self.against_paper,
                processes=processors(),
                drawn=lambda done, total: progress.update(bar, completed=done, total=total),
            )
        _say(f"open {page}; tables and figures are beside it")


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
        _say(
            "Any Gymnasium environment that reports a cost works too: "
            "ucpo train my_package:MyEnv-v0 --budget-range 0:10"
        )


@dataclass(frozen=True)
class Zoo:
    """List the trained policies that come with the package."""

    def __call__(self) -> None:
        """Print a table."""
        from rich.console import Console

        from ucpo.policies.zoo.cards import table

        Console().print(table())
        _say("zoo:NAME stands for a run, and zoo:TASK for its ucp-seed0: ucpo evaluate zoo:TASK")


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
    """Where the picture goes."""
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

        _refuse_negative(self.seed)
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
            _say(f"budget {budget:g}: return {one.returns:.2f}, cost {paid} in {one.steps} steps")
        _say(f"written to {self.output}")


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
        _say(f"figures in {self.output}")


@dataclass(frozen=True)
class MeasureGap:
    """Train on a finite problem and measure the gap to its exact optimum at each budget."""

    problem: Positional[str]
    """Streets-v0, Machine-v0, Fords-v0, Crossing-v0, TwoActionsTimed-v0, or module:name of a
    ucpo.exact.FiniteProblem or of a function that makes one."""
    variant: tuple[str, ...] = ("ucp",)
    """Variants to train; those for a single budget are trained anew for each of --budgets."""
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
            variants=self.variant,
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
            _say(f"numbers, figure and runs in {self.output}")


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


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; user errors end with one paragraph and exit code 2."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given == ["--version"]:
        sys.stdout.write(f"ucpo {__version__}\n")
        return
    debug = "--debug" in given
    given = [text for text in given if text != "--debug"]
    try:
        commands: Any = (
            Annotated[Train, subcommand("train", default=_train_defaults(given))]
            | Annotated[Resume, subcommand("resume")]
            | Annotated[Evaluate, subcommand("evaluate")]
            | Annotated[Report, subcommand("report")]
            | Annotated[Tasks, subcommand("tasks")]
            | Annotated[Zoo, subcommand("zoo")]
            | Annotated[Watch, subcommand("watch")]
            | Annotated[Illustrate, subcommand("illustrate")]
            | Annotated[MeasureGap, subcommand("measure-gap")]
            | Annotated[Demo, subcommand("demo")]
        )
        tyro.cli(commands, args=given, prog="ucpo", description=DESCRIPTION)()
    except (UsageError, LostError, OSError) as error:
        if debug:
            raise
        _say(f"ucpo: {error}")
        sys.exit(2)
    except KeyboardInterrupt:
        _say("ucpo: interrupted")
        sys.exit(130)


def _train_defaults(given: list[str]) -> Train:
    """Task, preset and variant decide the defaults of other options, so they are read first."""
    if given[:1] != ["train"]:
        return Train(RunConfig())
    peek = argparse.ArgumentParser(prog="ucpo train", add_help=False, allow_abbrev=False)
    peek.add_argument("task", nargs="?")
    peek.add_argument("--preset", default="auto")
    peek.add_argument("--variant", default="ucp")
    peek.add_argument("--budget", nargs="+", default=[])
    known, rest = peek.parse_known_args(given[1:])
    if known.task is None and not {"-h", "--help"} & set(rest):
        raise UsageError("which task? `ucpo tasks` lists them; e.g. ucpo train Courier-v0")
    task = known.task or "Courier-v0"
    return Train(
        resolve(
            task,
            variant=known.variant,
            preset=known.preset,
            family=family_of(task),
            budget=known.budget,
        )
    )


def _finish(agent: UCP, folder: Path) -> None:
    """Say how a training ended; one that was told to go away ends with a code of its own."""
    made = f"{agent.agent.env_steps:,} environment steps, {agent.agent.updates:,} updates"
    if agent.interrupted is None:
        _say(f"done; the policy is in {folder} ({made}). Next: ucpo evaluate {folder}")
        return
    _say(
        f"stopped early; the policy so far is in {folder} ({made}). Next: ucpo evaluate {folder}, "
        f"or go on with ucpo resume {folder}"
    )
    if agent.interrupted is signal.SIGTERM:
        sys.exit(PREEMPTED)


def _refuse_negative(seed: int) -> None:
    if seed < 0:
        raise UsageError(f"seed must be at least 0, got {seed}")


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
