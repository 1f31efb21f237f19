"""Evaluate and report."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from ucpo.cli.messages import refuse_negative, say
from ucpo.errors import UsageError, shell


@dataclass(frozen=True)
class Evaluate:
    """Play episodes with a trained policy at any budgets and report return and cost."""

    policy: Positional[str]
    """Run folder, policy file, zoo:TASK for one that comes with the package, or hf:user/name."""
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
    """Another task than the one trained on; also to say that the module of my_package:MyEnv-v0 may
    be imported, which a policy file alone must not decide."""
    network: str | None = None
    """my_module:my_network, where that made the policy's networks; imported only if said here."""
    hold: int = 1
    """Environment steps each action is kept for; 1 decides at every step. Written to files of their
    own, evaluation-hold4.parquet and so on."""
    stopped: bool = False
    """Let episodes end in the step that exceeds a budget, as early termination does while training
    (the paper reports PPO-ET so). Written to evaluation-stopped.parquet."""
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
        from ucpo.evaluation.episodes import file_of
        from ucpo.evaluation.runs import own_network
        from ucpo.policies import places
        from ucpo.policies.policy import load
        from ucpo.reports import draw_paths, table
        from ucpo.storage.names import EVALUATION_FILE

        refuse_negative(self.seed)
        policy = load(self.policy, network=own_network(self.network))
        info = policy.info
        budgets = [info.read_budget(text) for text in self.budgets] or info.usual_budgets()
        kept = file_of(EVALUATION_FILE, self.hold, self.stopped)
        request = Request(
            policy=places.locate(self.policy),
            budgets=budgets,
            episodes=self.episodes,
            seed=self.seed,
            task=self.task,
            hold=self.hold,
            stopped=self.stopped,
            network=self.network,
            extrapolate=self.extrapolate,
            num_envs=self.num_envs,
            processes=self.processes,
            save_paths=self.save_paths,
            calibrate=self.calibrate,
            output=self.output or places.own_file(self.policy, kept),
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
                    policy=policy,
                )
            except KeyboardInterrupt:
                say("finished episodes are kept; the same command goes on from there")
                raise
        Console().print(table(result.episodes))
        if result.moved:
            say(f"episodes of an earlier state of this policy are now in {result.moved}")
        before = len(result.episodes) - result.played
        reported = result.output.parent if result.output.name == EVALUATION_FILE else result.output
        say(
            f"{result.played:,} episodes played, {before:,} kept from before; one row each in "
            f"{result.output}. Next: ucpo report {shell(reported)} -o report"
        )
        if result.paths:
            drawn = draw_paths(result.paths)
            say(f"whole episodes in {result.paths}" + (f", drawn in {drawn}" if drawn else ""))


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
    label: tuple[str, ...] = ()
    """NAME=FOLDER: what to call the runs in a folder. By default runs are called by their method
    and what differs in their settings; different settings are never averaged."""

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
                names=_names(self.label),
                processes=processors(),
                drawn=lambda done, total: progress.update(bar, completed=done, total=total),
                told=say,
            )
        say(f"open {page}; tables and figures are beside it")


def _names(labels: tuple[str, ...]) -> dict[Path, str]:
    named = {}
    for text in labels:
        name, equals, folder = text.partition("=")
        if not (name and equals and Path(folder).exists()):
            raise UsageError(
                f"a label is NAME=FOLDER, with a folder that exists; got {text!r}, e.g. "
                "--label short=runs/short long=runs/long"
            )
        named[Path(folder)] = name
    return named
