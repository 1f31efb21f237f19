"""A sweep: every run of a plan trained and evaluated by an engine, then one report."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ucpo.config.files import read_config
from ucpo.errors import UsageError
from ucpo.runs.status import Status, read_status, run_folders
from ucpo.runs.sweep.engines import Engine
from ucpo.runs.sweep.job import Done, make_jobs
from ucpo.runs.sweep.plan import Plan, Planned
from ucpo.storage import files
from ucpo.storage.names import CONFIG_FILE, SWEEP_FILE

REPORT_FOLDER = "report"


@dataclass(frozen=True)
class Result:
    """How the runs of a sweep stand when it ends."""

    done: Mapping[str, Done]
    """What was worked on this time, by name."""
    before: int
    """Runs that were finished already."""
    interrupted: bool

    def of(self, state: str) -> list[Done]:
        """What ended in a state."""
        return [one for one in self.done.values() if one.state == state]


class SweepFolder:
    """The folder of a sweep, for one `ucpo sweep` at a time.

    Args:
        path: New, or that of the same sweep.
        runs: Those of the plan.
    """

    def __init__(self, path: Path, runs: Sequence[Planned]) -> None:
        self.path = path
        _refuse_another_sweep(path, runs)
        path.mkdir(parents=True, exist_ok=True)
        self._lock = files.Lock(path)
        self.mark = _read(path).get("mark") or uuid.uuid4().hex
        self.note(runs)

    def note(self, runs: Sequence[Planned]) -> None:
        """Write down what is to be run, for `ucpo runs`."""
        about = {
            "mark": self.mark,
            "runs": {
                run.name: {
                    "task": run.config.task,
                    "method": run.config.method,
                    "seed": run.config.seed,
                    "env_steps": run.config.env_steps,
                }
                for run in runs
            },
        }
        files.replace(self.path / SWEEP_FILE, json.dumps(about, indent=1).encode())

    def close(self) -> None:
        """Let others use it."""
        self._lock.release()


def run_sweep(
    plan: Plan,
    folder: SweepFolder,
    engine: Engine,
    *,
    stopped: Callable[[], bool] = lambda: False,
    told: Callable[[Done], None] = lambda done: None,
    tick: Callable[[], None] = lambda: None,
) -> Result:
    """Have every run of a plan finished and evaluated.

    Args:
        plan: What is to be run.
        folder: Where.
        engine: By whom.
        stopped: Asked now and then; True ends it with everything resumable.
        told: Told how each run ended.
        tick: Called several times a second.
    """
    jobs = make_jobs(plan.runs, folder.path, folder.mark, plan.evaluation)
    missing = [job for job in jobs if not job.is_done()]
    done: dict[str, Done] = {}
    for one in engine.do(iter(missing), stopped):
        if one is None:
            tick()
        else:
            done[one.name] = one
            told(one)
    return Result(done, len(jobs) - len(missing), stopped())


def statuses(folder: Path) -> list[Status]:
    """How every run at or below a folder stands; those of a sweep that have not begun too."""
    if not folder.is_dir():
        raise UsageError(f"there is no folder {folder}; name one with runs in it, such as runs")
    found: dict[Path, tuple[str, Mapping[str, Any] | None]] = {}
    for file in sorted(folder.rglob(SWEEP_FILE)):
        for name, about in _read(file.parent).get("runs", {}).items():
            run = file.parent / name
            found[run] = (str(run.relative_to(folder)), about)
    for run in run_folders(folder):
        found.setdefault(run, (str(run.relative_to(folder)), None))
    return [read_status(run, name, about) for run, (name, about) in found.items()]


def _read(folder: Path) -> dict[str, Any]:
    try:
        found = json.loads((folder / SWEEP_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _refuse_another_sweep(folder: Path, runs: Sequence[Planned]) -> None:
    """Runs of different plans in one folder would be taken for one comparison."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file; a sweep needs a folder (--folder)")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / SWEEP_FILE).is_file():
        raise UsageError(f"{folder} holds something else than a sweep; choose another --folder")
    planned = {folder / run.name: run.config for run in runs}
    for run in run_folders(folder) if folder.is_dir() else ():
        if run not in planned:
            raise UsageError(
                f"{folder} is the folder of another sweep: it holds {run.relative_to(folder)}, "
                "which this file does not ask for; choose another --folder, or add the run"
            )
        differing = list(_differing(read_config(run / CONFIG_FILE), planned[run]))
        if differing:
            raise UsageError(
                f"{folder} is the folder of another sweep: {run.relative_to(folder)} was begun "
                f"with {', '.join(differing[:3])}; choose another --folder, or change it back"
            )


def _differing(one: Any, other: Any, where: str = "") -> Iterator[str]:
    """Options in which two configurations differ, with the value of the first."""
    for name, value in vars(one).items():
        against = getattr(other, name)
        if hasattr(value, "__dataclass_fields__"):
            yield from _differing(value, against, f"{where}{name}.")
        elif value != against:
            yield f"{where}{name} = {value!r} (now {against!r})"
