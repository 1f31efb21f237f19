"""Ctrl-C and SIGTERM end a training cleanly."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Stop:
    """A request to end the training after the iteration under way."""

    signal: signal.Signals | None = None

    def asked(self) -> bool:
        """Whether there is one."""
        return self.signal is not None


@contextmanager
def interruptible() -> Iterator[Stop]:
    """Turn the first Ctrl-C or SIGTERM into a request to stop; a second one ends at once."""
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def request(number: int, frame: FrameType | None) -> None:
        stop.signal = signal.Signals(number)
        signal.signal(number, before[signal.Signals(number)])

    for number in before:
        signal.signal(number, request)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
