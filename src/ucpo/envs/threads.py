"""Rows of a batch shared out among threads, for work that lets go of the interpreter lock."""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread

import numpy as np

from ucpo.envs.native import NEXT, Waiting, finished, leave, must_be_woken, refill

Work = Callable[[Waiting, int], None]
"""What a thread does about rows that nobody has begun with; threads are numbered."""

_LIMIT: int | None = None  # threads a batch may use in this process, where that was said
_TRIALS = 10  # calls by one thread before it is decided whether more would help
_WORTH = 1.1e-3  # seconds of work in a call from which on handing over the lock is worth it
_NAP = 5e-5  # seconds between looks at whether others are done


class Shares:
    """Who works on which rows.

    Args:
        work: What is done, over and over again.
        rows: How many there are.
        threads: How many may work at once. By default one per processor, at most one per row,
            where a few calls by one thread take long enough for sharing to pay; otherwise one.
    """

    def __init__(self, work: Work, rows: int, threads: int | None = None) -> None:
        count = min(rows, threads or processors())
        ends = np.cumsum([0, *map(len, np.array_split(np.arange(rows), count))])
        self._work = work
        self._first, self._last = ends[:-1].astype(np.int64), ends[1:]
        self._begin_anew()
        self._helpers = [_Helper(thread) for thread in range(1, count)]
        # Of whoever forgets to close them, too.
        self._dismiss = weakref.finalize(self, _dismiss, self._helpers)
        self._trials = _TRIALS if threads is None and count > 1 else 0
        self._shortest = np.inf

    def each(self) -> None:
        """Have every row worked on once, and wait until all are done."""
        refill(self._waiting, self._first)
        try:
            if self._trials:
                self._try_alone()
            else:
                self._share()
        except BaseException:
            self._waiting[NEXT] = self._last  # others go no further
            self._begin_anew()  # but may still be busy
            raise

    def _begin_anew(self) -> None:
        nothing = np.zeros_like(self._first)
        self._waiting: Waiting = np.array([self._last, self._last, nothing, nothing], np.int64)
        self._failures: list[BaseException] = []

    def _share(self) -> None:
        for helper in self._helpers:
            if must_be_woken(self._waiting, helper.number):
                helper.jobs.put((self._work, self._waiting, self._failures))
        self._work(self._waiting, 0)  # by the calling thread, which would only wait otherwise
        while not finished(self._waiting):
            if self._failures:
                raise self._failures[0]
            # A queue's `get` with a timeout this short may never end in Python 3.11.
            time.sleep(_NAP)

    def _try_alone(self) -> None:
        """Do it all in this thread; after the last trial, stay alone if the work is light."""
        began = time.perf_counter()
        self._work(self._waiting, 0)
        self._shortest = min(self._shortest, time.perf_counter() - began)
        self._trials -= 1
        if not self._trials and self._shortest < _WORTH:
            self.close()

    def close(self) -> None:
        """End the threads."""
        self._dismiss()
        self._helpers = []


class _Helper(Thread):
    """A thread that does what it is given, and nothing else until the next time.

    A pool's threads would hand back results, which takes longer than the rows that are left.
    """

    def __init__(self, number: int) -> None:
        super().__init__(daemon=True)
        self.jobs: SimpleQueue[tuple[Work, Waiting, list[BaseException]] | None] = SimpleQueue()
        self.number = number
        self.start()

    def run(self) -> None:
        while self._help():
            pass

    def _help(self) -> bool:
        """Do the next job; its own method, for nothing of a job may be kept while none is there."""
        job = self.jobs.get()
        if job is None:
            return False
        work, waiting, failures = job
        try:
            while True:
                work(waiting, self.number)
                if leave(waiting, self.number):
                    break
        except BaseException as failure:
            failures.append(failure)
        return True


def _dismiss(helpers: list[_Helper]) -> None:
    for helper in helpers:
        helper.jobs.put(None)


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
