"""The one error a user is meant to see, and what messages have in common."""

from __future__ import annotations

import logging
import os
import shlex

log = logging.getLogger("ucpo")
_SAID: set[str] = set()


class UsageError(Exception):
    """What was given cannot work. The message says what was wrong, what was expected, what to do.

    The command line prints it without a traceback and exits with code 2. Messages may quote
    untrusted files, so control characters are escaped. It is not a ValueError, because the command
    line's parser would take those for its own.
    """

    def __init__(self, text: str) -> None:
        super().__init__("".join(c if c.isprintable() else repr(c)[1:-1] for c in text))


class NotFiniteError(UsageError):
    """An environment or an update produced NaN or infinity; the run must not go on."""


class LostError(RuntimeError):
    """The process of an environment has ended, or does not answer."""


def shell(path: str | os.PathLike[str]) -> str:
    """A path or name as it can be pasted into a shell, quoted where it has to be."""
    return shlex.quote(os.fspath(path))


def say_once(text: str) -> None:
    """Say something surprising aloud, once in a process however often it comes up."""
    if text not in _SAID:
        _SAID.add(text)
        log.warning("%s", text)


def nearest(name: str, known: list[str], otherwise: str = "") -> str:
    """A hint such as ``did you mean 'excess'?``; when nothing is close, `otherwise` or the list."""
    import difflib

    close = difflib.get_close_matches(name, known, n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    return otherwise or f"known: {', '.join(sorted(known))}"
