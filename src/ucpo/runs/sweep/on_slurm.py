"""Jobs as arrays of Slurm, submitted and watched by submitit.

A job that meets its time limit or is preempted is queued again, and goes on from its checkpoint on
whichever node it is given next.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ucpo.envs.threads import processors
from ucpo.errors import UsageError, nearest
from ucpo.runs.sweep.engines import ATTEMPTS, TICK, refuse_workers
from ucpo.runs.sweep.job import Done, Job

LOGS = "slurm"
"""Folder in that of the sweep: scripts, and what jobs printed."""
CLUSTERS = ("slurm", "local", "debug")
_LEAVE = 120.0  # seconds for jobs to write their checkpoints when cancelled
_DEFAULTS: Mapping[str, Any] = {
    "name": "ucpo",
    "timeout_min": 240,
    "cpus_per_task": 1,
    "mem_gb": 4,
}
_REQUEUES = 1000  # after time limits: a run goes on where it was, so there is no harm in many


class OnSlurm:
    """A Slurm cluster, seen from a node that may submit.

    Args:
        settings: The table ``[slurm]`` of a sweep's file, in submitit's words: ``timeout_min``
            (240), ``mem_gb`` (4), ``cpus_per_task`` (1), ``partition``, ``account``, ``qos``,
            ``constraint``, ``setup`` and so on. ``cluster`` is ``slurm``; ``local`` has submitit
            start processes here instead, ``debug`` does one job after the other in this process.
        folder: The sweep's.
        workers: Most runs at the same time.
    """

    def __init__(
        self, settings: Mapping[str, Any], folder: Path, workers: int | None = None
    ) -> None:
        refuse_workers(workers)
        self._cluster = str(settings.get("cluster", "slurm"))
        asked = {**_DEFAULTS, **{k: v for k, v in settings.items() if k != "cluster"}}
        self._executor = _executor(self._cluster, folder.resolve() / LOGS, asked, workers)
        here = {"local": processors(), "debug": 1}.get(self._cluster)
        self._most = workers or here
        self.room = self._most or 16
        what = {"slurm": "Slurm", "local": "submitit's processes on this machine"}
        self.where = what.get(self._cluster, "this process, one run after the other")

    def do(
        self, jobs: Iterator[Job], stopped: Callable[[], bool], at_once: int | None = None
    ) -> Iterator[Done | None]:
        """Have jobs done: all of them as one array, or as many at once as were asked for."""
        most = at_once or (None if self._cluster == "slurm" else self._most)
        pending: list[tuple[Any, Job, int]] = []
        told = 0.0
        while True:
            new = [] if stopped() else _take(jobs, most, len(pending))
            if new:
                submitted = self._executor.submit_array([_Requeued(job) for job in new])
                pending += [(one, job, 1) for one, job in zip(submitted, new, strict=True)]
            if not pending:
                return
            if stopped():
                told = told or self._cancel(pending)
                if time.monotonic() - told > _LEAVE:
                    return
            time.sleep(TICK)
            yield None
            for entry in [entry for entry in pending if entry[0].done()]:
                pending.remove(entry)
                done = self._answer(entry, stopped())
                if done is None:
                    again = self._executor.submit(_Requeued(entry[1]))
                    pending.append((again, entry[1], entry[2] + 1))
                else:
                    yield done

    def _cancel(self, pending: list[tuple[Any, Job, int]]) -> float:
        for submitted, _, _ in pending:
            submitted.cancel(check=False)
        return time.monotonic()

    def _answer(self, entry: tuple[Any, Job, int], stopped: bool) -> Done | None:
        """How a job ended; None: it broke off and is to be submitted again."""
        submitted, job, attempt = entry
        error = submitted.exception()
        if error is None:
            done: Done = submitted.result()
            preempted = done.state == "stopped" and not stopped and self._cluster != "debug"
            return None if preempted else done
        if stopped:
            return Done(job.name, "stopped")
        if attempt < ATTEMPTS:
            return None
        lines = [line for line in str(error).splitlines() if line.strip()]
        last = lines[-1].strip() if lines else type(error).__name__
        where = submitted.paths.stderr
        why = f"it broke off {ATTEMPTS} times ({last}); what it printed is in {where}"
        return Done(job.name, "failed", why)

    def close(self) -> None:
        """Nothing is held."""


class _Requeued:
    """A job that submitit queues again when its time is up."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def __call__(self) -> Done:
        return self._job()

    def checkpoint(self) -> Any:
        """What to queue: the same, since a run's checkpoints are its own business."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self)


def _take(jobs: Iterator[Job], most: int | None, pending: int) -> list[Job]:
    """The next jobs, as many as there is room for; None: all."""
    taken: list[Job] = []
    while most is None or pending + len(taken) < most:
        job = next(jobs, None)
        if job is None:
            break
        taken.append(job)
    return taken


def _executor(cluster: str, folder: Path, asked: Mapping[str, Any], workers: int | None) -> Any:
    try:
        import submitit
    except ImportError:
        raise UsageError("Slurm needs the package submitit: pip install 'ucpo[slurm]'") from None
    if cluster not in CLUSTERS:
        raise UsageError(f"slurm.cluster: no {cluster!r}; {nearest(cluster, list(CLUSTERS))}")
    generic = submitit.AutoExecutor._valid_parameters()
    special = submitit.SlurmExecutor._valid_parameters() - {"job_name", "time", "mem"}
    for key in asked:
        if key not in generic | special:
            raise UsageError(f"no option slurm.{key}; {nearest(key, [*generic, *special])}")
    options = {key if key in generic else f"slurm_{key}": value for key, value in asked.items()}
    if workers is not None:
        options["slurm_array_parallelism"] = workers
    try:
        made = submitit.AutoExecutor(folder, cluster=cluster, slurm_max_num_timeout=_REQUEUES)
        made.update_parameters(**options)
    except RuntimeError:
        raise UsageError(
            "Slurm is not to be found here: there is no srun. Give the command on a node that may "
            "submit jobs; --on local uses this machine"
        ) from None
    except (AssertionError, ValueError, TypeError) as error:
        raise UsageError(f"[slurm]: {' '.join(str(error).split())}") from None
    return made
