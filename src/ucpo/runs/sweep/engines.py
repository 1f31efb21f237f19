"""Who does the jobs of a sweep: what engines have in common, and the one for this machine alone.

An engine is asked one thing: to have jobs done. It takes the next one whenever there is room for
it, so that whoever hands them out may decide late what it is.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any, Protocol

from ucpo.errors import UsageError
from ucpo.runs.sweep.job import Done, Job

ATTEMPTS = 3
"""How often a job is begun whose process or machine is lost under it."""
TICK = 0.2
"""Seconds between looks at whether to stop."""
_CLEAN = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


class Engine(Protocol):
    """Has jobs done."""

    where: str
    """What it works on, for people: ``2 workers on this machine``."""

    room: int
    """Jobs it can do at the same time, as it stands."""

    def do(
        self, jobs: Iterator[Job], stopped: Callable[[], bool], at_once: int | None = None
    ) -> Iterator[Done | None]:
        """Have jobs done; yields how each ended, and now and then None, as it happens.

        Args:
            jobs: The next one is taken when there is room for it.
            at_once: Most jobs to take before others have ended.
            stopped: Asked several times a second. True: no further job is begun, those under way
                are told to stop, and the iterator ends when they have.
        """

    def close(self) -> None:
        """Let go of what it holds."""


@dataclass(frozen=True)
class _Worker:
    job: Job
    process: Any
    answers: Connection
    attempt: int


class Local:
    """Worker processes on this machine, each with one thread and one run at a time.

    Args:
        workers: How many; by default as many as there are processors.
    """

    def __init__(self, workers: int | None = None) -> None:
        from ucpo.envs.threads import processors

        refuse_workers(workers)
        self.room = workers or processors()
        ending = "" if self.room == 1 else "s"
        self.where = f"{self.room} worker{ending} on this machine"
        self._context: Any = multiprocessing.get_context(_CLEAN)
        if _CLEAN == "forkserver":  # what every worker needs is then imported once
            self._context.set_forkserver_preload(["ucpo.runs.run", "ucpo.evaluation"])

    def do(
        self, jobs: Iterator[Job], stopped: Callable[[], bool], at_once: int | None = None
    ) -> Iterator[Done | None]:
        """Have jobs done by processes; one that dies is replaced, and its run goes on."""
        team: list[_Worker] = []
        more, told = True, False
        try:
            while True:
                while more and len(team) < (at_once or self.room) and not stopped():
                    job = next(jobs, None)
                    more = job is not None
                    if job is not None:
                        team.append(self._start(job))
                if not team:
                    return
                if stopped() and not told:
                    told = True
                    for worker in team:
                        os.kill(worker.process.pid, signal.SIGINT)
                wait([worker.answers for worker in team], timeout=TICK)
                yield None
                for worker in [one for one in team if one.answers.poll()]:
                    team.remove(worker)
                    done = self._answer(worker)
                    if done is not None:
                        yield done
                    elif not stopped() and worker.attempt < ATTEMPTS:
                        team.append(self._start(worker.job, worker.attempt + 1))
                    else:
                        yield _lost(worker, stopped())
        finally:  # reached with workers left when it is to end at once
            for worker in team:
                worker.process.kill()
                worker.process.join()

    def close(self) -> None:
        """Nothing is held."""

    def _start(self, job: Job, attempt: int = 1) -> _Worker:
        answers, theirs = self._context.Pipe(duplex=False)
        process = self._context.Process(target=_work, args=(job, theirs), name=job.name)
        with _single_threaded():
            process.start()
        theirs.close()  # so that the end of the process is noticed here
        return _Worker(job, process, answers, attempt)

    def _answer(self, worker: _Worker) -> Done | None:
        """What a worker said; None where it died before it could."""
        try:
            done: Done = worker.answers.recv()
        except (EOFError, ConnectionResetError):
            return None
        finally:
            worker.process.join()
            worker.answers.close()
        return done


def refuse_workers(workers: int | None) -> None:
    """Refuse fewer than one."""
    if workers is not None and workers < 1:
        raise UsageError(f"--workers must be at least 1, got {workers}")


def _lost(worker: _Worker, stopped: bool) -> Done:
    if stopped:
        return Done(worker.job.name, "stopped")
    why = (
        f"its process died {ATTEMPTS} times (exit code {worker.process.exitcode}; -9 is often a "
        "lack of memory)"
    )
    return Done(worker.job.name, "failed", why)


def _work(job: Job, answers: Connection) -> None:
    """What a process of the local engine does."""
    # Ctrl-C is for the one that started this, who then says it once to each.
    if hasattr(os, "setpgid"):
        os.setpgid(0, 0)
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    answers.send(job())


def _leave_with_parent() -> None:
    """Once the sweep's own process is gone, end as by Ctrl-C: with a checkpoint."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGINT)


@contextmanager
def _single_threaded() -> Iterator[None]:
    """Libraries that read their number of threads when they are loaded get one."""
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
