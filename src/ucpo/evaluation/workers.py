"""Jobs shared among processes. Who plays an episode makes no difference to it."""

from __future__ import annotations

import multiprocessing
import queue
import signal
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ucpo import own
from ucpo.envs.registry import entry_of, make_task
from ucpo.envs.shaping import EarlyTermination
from ucpo.errors import UsageError
from ucpo.evaluation.episodes import Job, Observer, Row, Totals, play
from ucpo.policies.policy import Policy, load

_PATIENCE = 1.0  # seconds between looks at whether the others are alive


@dataclass(frozen=True)
class Work:
    """What to play and what to keep of it; can be sent to another process."""

    policy: Path  # file or run folder
    task: str
    num_envs: int
    paths: frozenset[Job] = frozenset()
    """Episodes to keep whole."""
    calibrate: bool = False
    """Ask the critics as well."""
    hold: int = 1
    """Environment steps each action is kept for."""
    stopped: bool = False
    """Let episodes end in the step that exceeds a budget."""
    network: str | None = None
    """my_module:my_network, where that made the policy's networks."""


def share(
    work: Work, policy: Policy, jobs: Sequence[Job], processes: int
) -> Iterator[dict[str, list[Row]]]:
    """Play jobs on some processes; yields rows by kind as episodes finish."""
    processes = min(processes, len(jobs))
    if processes <= 1:
        yield from _play(work, policy, jobs) if jobs else ()
        return
    context = multiprocessing.get_context("spawn")
    results: Any = context.Queue()
    shares = [jobs[i::processes] for i in range(processes)]
    team = [context.Process(target=_serve, args=(work, mine, results)) for mine in shares]
    for worker in team:
        worker.daemon = True
        worker.start()
    try:
        working = processes
        while working:
            try:
                message = results.get(timeout=_PATIENCE)
            except queue.Empty:
                _check_alive(team)
                continue
            if isinstance(message, Exception):
                raise message
            if message is None:
                working -= 1
            else:
                yield message
    finally:
        for worker in team:
            worker.terminate()
            worker.join()


def _serve(work: Work, jobs: Sequence[Job], results: Any) -> None:
    """What a worker does: send rows, then None; or what went wrong."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the one that started this
    try:
        network = own.find(work.network, "a network") if work.network else None
        for rows in _play(work, load(work.policy, network=network), jobs, threads=1):
            results.put(rows)
        results.put(None)
    except UsageError as error:
        results.put(error)
    except Exception:
        results.put(RuntimeError("in a process of the evaluation:\n" + traceback.format_exc()))


def _play(
    work: Work, policy: Policy, jobs: Sequence[Job], threads: int | None = None
) -> Iterator[dict[str, list[Row]]]:
    import torch

    torch.set_num_threads(1)
    entry = entry_of(work.task)
    ours = entry is not None and entry.threaded
    options: dict[str, Any] = {"threads": threads} if ours and threads else {}
    count = min(work.num_envs, len(jobs))
    task = make_task(work.task, count, policy.info.cost_names, **options)
    if work.stopped:
        task = EarlyTermination(task)
    observers: dict[str, Observer] = {"episodes": Totals(policy, task, work.hold)}
    if work.paths:
        from ucpo.evaluation.paths import Paths

        observers["paths"] = Paths(policy, task, work.paths, work.hold)
    if work.calibrate:
        observers["calibration"] = _calibration(work, policy, task)
    try:
        yield from play(policy, task, jobs, observers, work.hold)
    finally:
        task.close()


def _calibration(work: Work, policy: Policy, task: Any) -> Observer:
    from ucpo.evaluation.calibration import Calibration
    from ucpo.policies.critics import load_critics
    from ucpo.storage.names import CRITICS_FILE

    folder = work.policy if work.policy.is_dir() else work.policy.parent
    critics = load_critics(folder / CRITICS_FILE, policy.info, policy.network)
    return Calibration(policy, critics, task, work.hold)


def _check_alive(team: Sequence[Any]) -> None:
    for worker in team:
        if worker.exitcode not in (None, 0):
            raise RuntimeError(
                f"a process of the evaluation died (exit code {worker.exitcode}); finished "
                "episodes are kept: run the same command again to go on"
            )
