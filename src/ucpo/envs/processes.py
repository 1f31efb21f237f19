"""Foreign environments to ask and to be answered by: in this process or each in its own.

Both kinds answer the same questions, so whoever steps a batch first asks all of them and then
collects the answers; environments in processes of their own work in between, at the same time.
"""

from __future__ import annotations

import multiprocessing
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, Protocol

import cloudpickle

from ucpo.errors import LostError

TIMEOUT = 120.0  # seconds; some environments take long to begin
_PATIENCE = 5.0  # seconds that a process gets to end by itself
# Not by forking this process: it may have threads, and forks of those can hang.
_CLEAN = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"


class Host(Protocol):
    """Has one environment."""

    def ask(self, method: str, *args: Any, **named: Any) -> None:
        """Have a method of the environment called."""

    def answer(self) -> Any:
        """What the call asked for last returned; errors are raised here."""

    def close(self) -> None:
        """Close the environment."""


class Here:
    """An environment in this process, which does at once what it is asked."""

    def __init__(self, env: Any) -> None:
        self._env = env
        self._answer: Any = None

    def ask(self, method: str, *args: Any, **named: Any) -> None:
        """Call the method."""
        self._answer = getattr(self._env, method)(*args, **named)

    def answer(self) -> Any:
        """What it returned."""
        return self._answer

    def close(self) -> None:
        """Close the environment."""
        self._env.close()


class Elsewhere:
    """An environment in a process of its own.

    As always with processes, a script that starts some must do so under
    ``if __name__ == "__main__":``, because they import it.

    Args:
        make: Makes it, there. May be any function, a nameless one too.
        name: For messages.
        timeout: Seconds after which an answer is no longer waited for.
    """

    def __init__(self, make: Callable[[], Any], name: str, timeout: float = TIMEOUT) -> None:
        self._name, self._timeout = name, timeout
        context: Any = multiprocessing.get_context(_CLEAN)
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(
            target=_serve, args=(theirs, cloudpickle.dumps(make)), name=name, daemon=True
        )
        self._process.start()
        theirs.close()  # so that the end of the process is noticed here

    def ask(self, method: str, *args: Any, **named: Any) -> None:
        """Send the question."""
        try:
            self._pipe.send((method, args, named))
        except (BrokenPipeError, ConnectionResetError):
            raise self._gone() from None

    def answer(self) -> Any:
        """Wait for the answer."""
        try:
            if not self._pipe.poll(self._timeout):
                raise LostError(
                    f"the process of {self._name} has not answered for {self._timeout:g} s"
                )
            failed, answer = self._pipe.recv()
        except (EOFError, ConnectionResetError):
            raise self._gone() from None
        if failed:
            raise RuntimeError(f"{self._name} failed in its process:\n{answer}")
        return answer

    def close(self) -> None:
        """Close the environment and end the process."""
        if self._process.is_alive():
            try:
                self._pipe.send(None)
            except (BrokenPipeError, ConnectionResetError):
                pass
            else:
                self._process.join(_PATIENCE)
        self.kill()

    def kill(self) -> None:
        """End the process, which may be past listening."""
        if self._process.is_alive():
            self._process.kill()
        self._process.join()
        self._pipe.close()

    def _gone(self) -> LostError:
        self._process.join(_PATIENCE)
        return LostError(
            f"the process of {self._name} ended unasked (exit code {self._process.exitcode}); in a "
            'script, start processes under if __name__ == "__main__":'
        )


def _serve(pipe: Connection, pickled: bytes) -> None:
    """Answer questions about one environment until there are no more."""
    try:
        env = cloudpickle.loads(pickled)()
    except Exception:
        pipe.recv()
        pipe.send((True, traceback.format_exc()))
        return
    while True:
        try:
            question = pipe.recv()
        except EOFError:  # nobody is left to ask
            question = None
        if question is None:
            env.close()
            return
        method, args, named = question
        try:
            pipe.send((False, getattr(env, method)(*args, **named)))
        except Exception:
            pipe.send((True, traceback.format_exc()))
