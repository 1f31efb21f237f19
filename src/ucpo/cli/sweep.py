"""Many runs: sweep and runs."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tyro.conf import Positional

from ucpo.cli.messages import say
from ucpo.errors import UsageError, shell

if TYPE_CHECKING:
    from ucpo.runs.status import Status
    from ucpo.runs.sweep.engines import Engine
    from ucpo.runs.sweep.job import Done
    from ucpo.runs.sweep.plan import Plan
    from ucpo.runs.sweep.sweep import Result

_REDRAW = 2.0  # seconds


class _Watching:
    """Shows how a sweep stands: the table of its runs on a terminal, lines elsewhere."""

    def __init__(self, folder: Path) -> None:
        from rich.console import Console
        from rich.live import Live

        self._folder, self._due = folder, 0.0
        console = Console(stderr=True)
        self._live = Live(console=console, refresh_per_second=1, transient=True)
        self._shown = console.is_terminal

    def __enter__(self) -> _Watching:
        if self._shown:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown:
            self._live.stop()

    def tick(self) -> None:
        """Draw the table again, if it is time to."""
        from ucpo.runs.sweep.sweep import statuses

        begun = time.monotonic()
        if self._shown and begun > self._due:
            self._live.update(runs_table(_urgent_first(statuses(self._folder))))
            took = time.monotonic() - begun
            self._due = begun + max(_REDRAW, 10.0 * took)  # of a thousand runs less often

    def told(self, done: Done) -> None:
        """Say how a run ended."""
        text = f"{done.state}: {done.name}" + (f" ({done.why})" if done.why else "")
        self._live.console.print(text, highlight=False, soft_wrap=True, markup=False)


@dataclass(frozen=True)
class Sweep:
    """Train and evaluate many runs, here or on a cluster, then report on all of them."""

    file: Positional[Path]
    """TOML with options as in a preset; lists (task, method, seed, any option) are crossed."""
    on: Literal["local", "ray", "slurm"] = "local"
    """Who runs them: processes of this machine, a Ray cluster (the one at RAY_ADDRESS, or one that
    is started here), or Slurm."""
    folder: Path | None = None
    """Folder of the sweep; by default sweeps/NAME, with the name of the file. The same command goes
    on with what is in it."""
    workers: int | None = None
    """Runs at the same time; by default one per core here, and what Ray or Slurm has room for."""
    tune: bool = False
    """Let Optuna choose the values of what [tune.search] names, instead of crossing lists."""

    def __call__(self) -> None:
        """Run what is not finished, evaluate, report."""
        from ucpo.runs.interruption import interruptible
        from ucpo.runs.sweep.plan import read_plan
        from ucpo.runs.sweep.sweep import SweepFolder, run_sweep

        plan = read_plan(self.file)
        folder = self.folder or Path("sweeps") / self.file.stem
        if self.tune:
            return self._search(plan, folder)
        with ExitStack() as stack:
            place = SweepFolder(folder, plan.runs)
            stack.callback(place.close)
            engine = self._engine(plan, folder)
            stack.callback(engine.close)
            say(f"{len(plan.runs)} runs in {folder}, on {engine.where}")
            shown = stack.enter_context(_Watching(folder))
            stop = stack.enter_context(interruptible())
            result = run_sweep(
                plan, place, engine, stopped=stop.asked, told=shown.told, tick=shown.tick
            )
        return self._finish(result, plan, folder)

    def _search(self, plan: Plan, folder: Path) -> None:
        """Try what Optuna says, then say what was best."""
        from ucpo.runs.interruption import interruptible
        from ucpo.runs.sweep.sweep import SweepFolder
        from ucpo.runs.sweep.tuning import Study, run_search

        study = Study(plan, folder)
        with ExitStack() as stack:
            place = SweepFolder(folder, study.runs)
            stack.callback(place.close)
            engine = self._engine(plan, folder)
            stack.callback(engine.close)
            say(f"{study.search.trials} trials in {folder}, on {engine.where}")
            shown = stack.enter_context(_Watching(folder))
            stop = stack.enter_context(interruptible())
            hooks: Any = {"stopped": stop.asked, "told": shown.told, "tick": shown.tick}
            best = run_search(study, place, engine, **hooks)
        if best is not None:
            chosen = ", ".join(f"{name} = {value}" for name, value in best.chosen.items())
            say(f"best so far: {best.name}, worth {best.worth:.4g}: {chosen}")
            say(f"{best.file} is a preset with its options: ucpo train ... --preset {best.file}")
        if stop.asked():
            say(f"stopped; nothing is lost, the same command goes on with {folder}")
            sys.exit(130)
        if best is None:
            raise UsageError(f"no trial finished; `ucpo runs {shell(folder)}` says why")

    def _engine(self, plan: Plan, folder: Path) -> Engine:
        if self.on == "ray":
            from ucpo.runs.sweep.on_ray import OnRay

            return OnRay(plan.ray, self.workers)
        if self.on == "slurm":
            from ucpo.runs.sweep.on_slurm import OnSlurm

            return OnSlurm(plan.slurm, folder, self.workers)
        from ucpo.runs.sweep.engines import Local

        return Local(self.workers)

    def _finish(self, result: Result, plan: Plan, folder: Path) -> None:
        """Say how it ended, and make the report of what there is."""
        from ucpo.runs.sweep.sweep import REPORT_FOLDER

        if result.interrupted:
            say(f"stopped; nothing is lost, the same command goes on with {folder}")
            sys.exit(130)
        ended = Counter(done.state for done in result.done.values())
        ended["finished"] += result.before
        say(f"{folder}: " + ", ".join(f"{n} {state}" for state, n in ended.items() if n))
        if plan.evaluation.episodes and ended["finished"]:
            from ucpo.reports import build

            page = build([folder], folder / REPORT_FOLDER, told=say)
            say(f"open {page}; tables and figures are beside it")
        unfinished = [one for one in result.done.values() if one.state != "finished"]
        if unfinished:
            raise UsageError(
                f"{len(unfinished)} of {len(plan.runs)} runs did not finish; the others did. "
                f"`ucpo runs {shell(folder)}` says why; the same command tries them again"
            )


@dataclass(frozen=True)
class Runs:
    """List the runs in a folder: how far they are, how fast, where, and what went wrong."""

    folder: Positional[Path] = Path("runs")
    """That of a sweep, or any with runs in it."""
    watch: bool = False
    """Draw it again every two seconds, until Ctrl-C."""

    def __call__(self) -> None:
        """Print a table."""
        from rich.console import Console
        from rich.live import Live

        from ucpo.runs.sweep.sweep import statuses

        found = statuses(self.folder)
        if not found:
            raise UsageError(f"no runs in {self.folder}; ucpo train and ucpo sweep make some")
        console = Console()
        if not self.watch:
            console.print(runs_table(found))
            return
        with Live(runs_table(_urgent_first(found)), console=console, refresh_per_second=1) as live:
            while True:
                time.sleep(_REDRAW)
                live.update(runs_table(_urgent_first(statuses(self.folder))))


def runs_table(runs: Sequence[Status]) -> Any:
    """A table of runs, why some failed, and a line that sums them up."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from ucpo.runs.status import time_left

    table = Table(box=None, padding=(0, 2, 0, 0))
    for head in ("task", "run", "state"):
        table.add_column(head, overflow="fold")
    for head in ("steps", "steps/s", "left", "return", "cost"):
        table.add_column(head, justify="right", no_wrap=True)
    for run in runs:
        where = f" ({run.said})" if run.said and run.state in ("running", "evaluating") else ""
        table.add_row(
            run.task,
            Path(run.name).name,
            Text(run.state + where, style=_STYLES.get(run.state, "")),
            f"{run.env_steps / run.goal:.0%} of {run.goal:,}" if run.goal else "",
            f"{run.speed:,.0f}" if run.speed is not None else "",
            _clock(run.seconds_left),
            f"{run.returns:.2f}" if run.returns is not None else "",
            ", ".join(f"{value:.2f}" for value in run.costs.values()),
        )
    failed = [Text(f"{run.name}: {run.said}") for run in runs if run.state == "failed"]
    counts = Counter(run.state for run in runs)
    summed = ", ".join(f"{count} {state}" for state, count in counts.items())
    left = time_left(runs)
    return Group(table, *failed, Text(summed + (f"; about {_clock(left)} left" if left else "")))


def _urgent_first(runs: Sequence[Status]) -> list[Status]:
    """What is going on before what waits or is over: a terminal may not have room for all."""
    order = ("running", "evaluating", "failed", "stopped", "waiting", "pruned", "finished")
    return sorted(runs, key=lambda run: order.index(run.state))


_STYLES = {"failed": "bold red", "running": "green", "evaluating": "green", "finished": "bold"}


def _clock(seconds: float | None) -> str:
    if seconds is None:
        return ""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}"
