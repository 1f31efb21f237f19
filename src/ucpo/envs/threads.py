"""Rows of a batch shared out among threads, for work that lets go of the interpreter lock."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from ucpo.envs.interface import Ints


class Shares:
    """Who works on which rows.

    Args:
        rows: How many there are.
        threads: How many may work at once; by default one per processor, at most one per row.
    """

    def __init__(self, rows: int, threads: int | None = None) -> None:
        count = min(rows, threads or processors())
        self._rows = np.array_split(np.arange(rows), count)
        self._pool = ThreadPoolExecutor(count - 1) if count > 1 else None

    def each(self, work: Callable[[Ints], None]) -> None:
        """Call `work` once per share and wait until all rows are done."""
        waiting = [self._pool.submit(work, rows) for rows in self._rows[1:]] if self._pool else []
        work(self._rows[0])  # by the calling thread, which would only wait otherwise
        for done in waiting:
            done.result()

    def close(self) -> None:
        """End the threads."""
        if self._pool is not None:
            self._pool.shutdown()


def processors() -> int:
    """Those this process may use, where the system says so."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
