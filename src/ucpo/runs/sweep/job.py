"""What a worker does with one run of a sweep, on whichever machine it works.

A job may be done any number of times, by several workers even: what is finished is left alone, what
broke off goes on from its checkpoint, and the lock of a run's folder keeps a second worker out. So
engines need not know how far a run is.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import shutil
import socket
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

from ucpo.config.files import parse_config, to_toml
from ucpo.config.options import RunConfig
from ucpo.errors import UsageError
from ucpo.runs.status import is_finished, read_outcome
from ucpo.runs.sweep.plan import Evaluation, Planned
from ucpo.storage import files
from ucpo.storage.names import CONFIG_FILE, LOCK_FILE, OUTCOME_FILE, PRUNED_FILE, SWEEP_FILE

PATIENCE = 60.0
"""Seconds to wait for a folder that another process works in: one that was told to end may take as
long, and a node that was lost takes its time to notice."""
_REMAINS = {LOCK_FILE, OUTCOME_FILE, CONFIG_FILE + files.PARTIAL, "log.txt"}
T = TypeVar("T")
End = Literal["finished", "stopped", "pruned", "failed", "elsewhere"]


@dataclass(frozen=True)
class Done:
    """How a job ended."""

    name: str
    state: End
    why: str = ""


@dataclass(frozen=True)
class Job:
    """One run: to be trained to its end, then evaluated. Can be sent to another machine."""

    name: str
    sweep: str
    """The sweep's folder, which all machines must share."""
    mark: str
    """What tells that folder from another of the same name."""
    config: str
    """TOML: complete, so that nothing else has to be the same elsewhere."""
    evaluation: Evaluation
    home: str
    """The folder the sweep was started in, where modules of the user's are."""

    @property
    def folder(self) -> Path:
        """The run's."""
        return Path(self.sweep) / self.name

    def is_done(self) -> bool:
        """Whether there is nothing left to do."""
        outcome = read_outcome(self.folder)
        asked = json.loads(json.dumps(dataclasses.asdict(self.evaluation)))
        return outcome.get("state") == "finished" and outcome.get("evaluation") == asked

    def __call__(self) -> Done:
        """Do what is left to do; whatever goes wrong is in what is returned."""
        if not self._is_shared():
            return Done(
                self.name,
                "failed",
                f"{socket.gethostname()} does not see the sweep's folder {self.sweep}; put it on a "
                "drive that all machines share (--folder)",
            )
        try:
            with _one_thread(), _told(self.name), _at(self.home):
                done = files.patiently(self._perform)
        except KeyboardInterrupt:
            return Done(self.name, "stopped")
        except files.InUseError as error:
            return Done(self.name, "elsewhere", str(error))
        except Exception as error:
            done = self._failed(error)
        self._note(done)
        return done

    def _perform(self) -> Done:
        """Train, then evaluate; may be begun again where the disk was full."""
        (self.folder / OUTCOME_FILE).unlink(missing_ok=True)
        if not is_finished(self.folder):
            end = _patiently_alone(self._train)
            if end is not None:
                return Done(self.name, end)
        if self.evaluation.episodes:
            _patiently_alone(self._evaluate)
        return Done(self.name, "finished")

    def _train(self) -> End | None:
        """Begin or go on; None where the training came to its end."""
        from ucpo.runs.run import Run

        folder, pruned = self.folder, self.folder / PRUNED_FILE
        if (folder / CONFIG_FILE).is_file():
            run = Run.resume(folder)
            new = None
        else:
            _clear(folder)
            run = Run.from_config(self._config())
            new = folder
        seen = [False]

        def look(row: object) -> None:
            seen[0] = pruned.is_file()

        look(None)
        try:
            run.learn(run=new, show=False, on_log=look, stop=lambda: seen[0])
        except OSError:
            if run.interrupted is None:  # not while waiting for room on the disk
                raise
        if run.interrupted is not None:
            return "stopped"
        if run.learner.env_steps >= run.config.env_steps:
            return None
        return "pruned" if seen[0] else "stopped"

    def _evaluate(self) -> None:
        from ucpo.evaluation import Request, evaluate_run
        from ucpo.policies.policy import load

        policy, own = load(self.folder), self._config().task
        asked = [policy.info.read_budget(text) for text in self.evaluation.budgets]
        request = Request(
            policy=self.folder,
            budgets=asked or policy.info.usual_budgets(),
            episodes=self.evaluation.episodes,
            seed=self.evaluation.seed,
            task=own if ":" in own else None,  # a run of our own: its module may be imported
        )
        lock = files.Lock(self.folder)
        try:
            evaluate_run(request, policy=policy)
        finally:
            lock.release()

    def _config(self) -> RunConfig:
        return parse_config(self.config, f"configuration of {self.name}")

    def _is_shared(self) -> bool:
        """Whether this machine sees the sweep's folder; otherwise it would train for nothing."""
        try:
            found = json.loads((Path(self.sweep) / SWEEP_FILE).read_text(encoding="utf-8"))
            return bool(found["mark"] == self.mark)
        except (OSError, ValueError, KeyError, TypeError):
            return False

    def _failed(self, error: Exception) -> Done:
        known = isinstance(error, UsageError | OSError)
        text = str(error) if known else f"{type(error).__name__}: {error}"
        if not known:
            logging.getLogger("ucpo").error("%s: %s", self.name, traceback.format_exc())
        return Done(self.name, "failed", " ".join(text.split()))

    def _note(self, done: Done) -> None:
        """Leave in the folder how it ended, for `ucpo runs` and for the next attempt."""
        about = {"state": done.state, "why": done.why, "host": socket.gethostname()}
        if done.state == "finished":
            about["evaluation"] = dataclasses.asdict(self.evaluation)  # type: ignore[assignment]
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            files.replace(self.folder / OUTCOME_FILE, json.dumps(about, indent=2).encode())
        except OSError as error:  # the outcome is returned as well
            logging.getLogger("ucpo").warning("%s: %s", self.name, error)


def make_jobs(
    runs: tuple[Planned, ...], folder: Path, mark: str, evaluation: Evaluation
) -> list[Job]:
    """A job for every run."""
    sweep, home = str(folder.resolve()), str(Path.cwd())
    return [Job(run.name, sweep, mark, to_toml(run.config), evaluation, home) for run in runs]


def _patiently_alone(work: Callable[[], T]) -> T:
    """Do what needs a folder for itself; wait a while for one who is about to leave it."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            return work()
        except files.InUseError:
            if time.monotonic() > until:
                raise
            time.sleep(0.5)


def _clear(folder: Path) -> None:
    """Remove what a run left that was killed before it had begun, or that refused to begin."""
    if folder.is_dir() and {path.name for path in folder.iterdir()} <= _REMAINS:
        lock = files.Lock(folder)
        shutil.rmtree(folder, ignore_errors=True)
        lock.release()


@contextmanager
def _one_thread() -> Iterator[None]:
    """Every core has a run of its own."""
    from ucpo.envs import threads

    threads.limit(1)
    try:
        yield
    finally:
        threads.limit(None)


@contextmanager
def _at(home: str) -> Iterator[None]:
    """Work in the folder the sweep was started in, where this machine has it."""
    before = Path.cwd()
    if Path(home).is_dir():
        os.chdir(home)
    try:
        yield
    finally:
        os.chdir(before)


@contextmanager
def _told(name: str) -> Iterator[None]:
    """Say aloud what must not be missed, such as a full disk, and of which run."""
    handler = _Aloud(name)
    log = logging.getLogger("ucpo")
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)


class _Aloud(logging.Handler):
    def __init__(self, name: str) -> None:
        super().__init__(logging.WARNING)
        self._run = name

    def emit(self, record: logging.LogRecord) -> None:
        host = socket.gethostname()
        sys.stderr.write(f"ucpo: {self._run} on {host}: {record.getMessage()}\n")
