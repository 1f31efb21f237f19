"""Rows of a batch shared out among threads, for work that lets go of the interpreter lock."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from ucpo.envs.interface import Ints

_LIMIT: int | None = None  # threads a batch may use in this process, where that was said
_TRIALS = 10  # calls by one thread before it is decided whether more would help
_WORTH = 1.1e-3  # seconds of work in a call from which on handing over the lock is worth it


class Shares:
    """Who works on which rows.

    Args:
        rows: How many there are.
        threads: How many may work at once. By default one per processor, at most one per row,
            where a few calls by one thread take long enough for sharing to pay; otherwise one.
    """

    def __init__(self, rows: int, threads: int | None = None) -> None:
        count = min(rows, threads or processors())
        self._rows = np.array_split(np.arange(rows), count)
        self._pool = ThreadPoolExecutor(count - 1) if count > 1 else None
        self._trials = _TRIALS if threads is None and count > 1 else 0
        self._shortest = np.inf

    def each(self, work: Callable[[Ints], None]) -> None:
        """Call `work` once per share and wait until all rows are done."""
        if self._trials:
            self._try_alone(work)
            return
        waiting = [self._pool.submit(work, rows) for rows in self._rows[1:]] if self._pool else []
        work(self._rows[0])  # by the calling thread, which would only wait otherwise
        for done in waiting:
            done.result()

    def _try_alone(self, work: Callable[[Ints], None]) -> None:
        """Do it all in this thread; after the last trial, stay alone if the work is light."""
        began = time.perf_counter()
        for rows in self._rows:
            work(rows)
        self._shortest = min(self._shortest, time.perf_counter() - began)
        self._trials -= 1
        if not self._trials and self._shortest < _WORTH:
            self._rows = [np.concatenate(self._rows)]
            self.close()
            self._pool = None

    def close(self) -> None:
        """End the threads."""
        if self._pool is not None:
            self._pool.shutdown()


def limit(threads: int | None) -> None:
    """Have batches made from now on use no more threads, as where every core has a run already."""
    global _LIMIT
    _LIMIT = threads


def processors() -> int:
    """Those this process may use, as was said or where the system says so."""
    if _LIMIT is not None:
        return _LIMIT
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
