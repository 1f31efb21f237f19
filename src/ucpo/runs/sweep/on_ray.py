"""Jobs as tasks of a Ray cluster: the one at RAY_ADDRESS, or one that is started on this machine.

Ray places tasks on nodes with room for them and begins those of a lost node again elsewhere; a job
then goes on from its checkpoint, in the sweep's folder, which all nodes must share.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ucpo.errors import UsageError, nearest
from ucpo.runs.sweep.engines import TICK, refuse_workers
from ucpo.runs.sweep.job import Done, Job

_KNOWN = {"address": str, "cpus": float, "gpus": float, "memory": float, "retries": int}
_REACH = 5.0  # seconds to wait for an answer of a cluster's address
_LEAVE = 60.0  # seconds for tasks to write their checkpoints when told to stop


class OnRay:
    """A Ray cluster.

    Args:
        settings: The table ``[ray]`` of a sweep's file: ``address`` instead of RAY_ADDRESS; what a
            run needs of a node, ``cpus`` (1), ``gpus`` (0) and ``memory`` in GB; and how often a
            run is begun again whose node or process was lost, ``retries`` (10).
        workers: Most runs at the same time; by default what the cluster has room for.
    """

    def __init__(self, settings: Mapping[str, Any], workers: int | None = None) -> None:
        refuse_workers(workers)
        _check(settings)
        self._ray, self._workers = connect(settings.get("address"), workers), workers
        task: dict[str, Any] = {
            "num_cpus": settings.get("cpus", 1),
            "num_gpus": settings.get("gpus", 0),
            "max_retries": settings.get("retries", 10),
            "scheduling_strategy": "SPREAD",
        }
        if "memory" in settings:
            task["memory"] = settings["memory"] * 1e9
        self._perform: Any = self._ray.remote(**task)(_perform)
        nodes = [node for node in self._ray.nodes() if node["Alive"]]
        cpus = self._ray.cluster_resources().get("CPU", 0)
        self.room = workers or max(1, int(cpus / max(settings.get("cpus", 1), 1e-9)))
        plural = "" if len(nodes) == 1 else "s"
        self.where = f"a Ray cluster of {len(nodes)} node{plural} with {cpus:g} cores"

    def do(
        self, jobs: Iterator[Job], stopped: Callable[[], bool], at_once: int | None = None
    ) -> Iterator[Done | None]:
        """Have jobs done by tasks; Ray queues those there is no room for."""
        ray, pending, more, told = self._ray, dict[Any, Job](), True, 0.0
        most = self._workers or at_once
        while True:
            while more and (most is None or len(pending) < most) and not stopped():
                job = next(jobs, None)
                more = job is not None
                if job is not None:
                    pending[self._perform.remote(job)] = job
            if not pending:
                return
            if stopped():
                if not told:
                    told = time.monotonic()
                    for task in pending:
                        ray.cancel(task)
                elif time.monotonic() - told > _LEAVE:
                    return
            ready, _ = ray.wait(list(pending), num_returns=1, timeout=TICK)
            yield None
            for task in ready:
                yield self._answer(task, pending.pop(task))

    def _answer(self, task: Any, job: Job) -> Done:
        try:
            done: Done = self._ray.get(task)
        except self._ray.exceptions.TaskCancelledError:
            return Done(job.name, "stopped")
        except self._ray.exceptions.RayError as error:  # of Ray itself: a job tells its own
            return Done(job.name, "failed", f"Ray gave up on it: {_first_line(error)}")
        return done

    def close(self) -> None:
        """Leave the cluster; one that was started here ends."""
        self._ray.shutdown()


def connect(address: str | None = None, workers: int | None = None) -> Any:
    """Ray, connected to a cluster; one is started here where none is named.

    Args:
        address: By default what RAY_ADDRESS says.
        workers: Cores of one that is started here; by default all.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is reported unasked
    try:
        import ray
    except ImportError:
        raise UsageError("Ray needs the package: pip install 'ucpo[ray]'") from None
    if ray.is_initialized():
        return ray
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    here = address == "local"
    _must_answer(address)
    options: Any = {"num_cpus": workers, "include_dashboard": False} if here else {}
    try:
        ray.init(address=address, logging_level=logging.ERROR, **options)
    except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
        raise UsageError(
            f"cannot join the Ray cluster at {address} ({_first_line(error)}); is `ray status` "
            "content there? Without RAY_ADDRESS one is started on this machine"
        ) from None
    return ray


def _perform(job: Job) -> Done:
    """What a task does."""
    return job()


def _must_answer(address: str) -> None:
    """Refuse an address nobody answers at: Ray itself would wait for minutes."""
    found = re.fullmatch(r"(?:ray://)?(\[[^\]]+\]|[^:/]+):(\d+)", address)
    if found is None:
        return
    try:
        socket.create_connection((found[1].strip("[]"), int(found[2])), _REACH).close()
    except OSError as error:
        raise UsageError(
            f"nobody answers at the Ray cluster's address {address} ({error}); start one there "
            "(ray start --head) or correct RAY_ADDRESS; without it one is started on this machine"
        ) from None


def _check(settings: Mapping[str, Any]) -> None:
    for key, value in settings.items():
        if key not in _KNOWN:
            raise UsageError(f"no option ray.{key}; {nearest(key, list(_KNOWN))}")
        kind = _KNOWN[key]
        fits = isinstance(value, int | float) if kind is float else isinstance(value, kind)
        if not fits or isinstance(value, bool) or (kind is not str and value < 0):
            raise UsageError(f"ray.{key} must be a {kind.__name__} of at least 0, got {value!r}")


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
