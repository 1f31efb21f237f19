"""Files that are whole or absent, whatever happens while they are written.

A new file is written under another name, brought to the disk, read back and compared before it gets
its own. A full disk is waited for. Nothing here needs POSIX; what only Windows does was read in the
documentation of its calls and tried with stand-ins for them, never on Windows itself.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import logging
import os
import socket
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from ucpo.errors import UsageError
from ucpo.storage.names import LOCK_FILE

PARTIAL = ".partial"  # how names of unfinished files end
_FULL = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))
_BINARY = getattr(os, "O_BINARY", 0)  # Windows would change ends of lines
_LOCKED = 2**30  # byte of a lock file that Windows locks: far from the text, which stays readable
_RETRY = 10.0  # seconds between attempts while the disk is full

T = TypeVar("T")

log = logging.getLogger("ucpo")


def digest(data: bytes) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def replace(path: Path, data: bytes) -> str:
    """Make or replace a file as a whole; returns the digest of what is on the disk now."""
    partial, expected = path.with_name(path.name + PARTIAL), digest(data)
    try:
        with partial.open("wb", buffering=0) as file:
            _write(file.fileno(), data)
            os.fsync(file.fileno())
            if hasattr(os, "posix_fadvise"):  # so that the disk is read back, not the cache
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        if digest(partial.read_bytes()) != expected:
            raise OSError(errno.EIO, "what was written reads back differently", str(partial))
        partial.replace(path)
    except OSError as error:
        error.filename = error.filename or str(path)
        with contextlib.suppress(OSError):
            partial.unlink()
        raise
    _sync(path.parent)
    return expected


def must_be_writable(path: Path, remedy: str) -> None:
    """Refuse a file that could not be written, before hours go into what is to be in it."""
    if path.is_dir():
        raise UsageError(f"{path} is a folder, where a file is to be written; {remedy}")
    probe = path.with_name(path.name + PARTIAL)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        probe.open("ab").close()
        probe.unlink()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise UsageError(f"{path} cannot be written ({reason}); {remedy}") from None


def append(path: Path, data: bytes) -> None:
    """Add to the end of a file, all of it or nothing."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | _BINARY, 0o666)
    try:
        size = os.fstat(descriptor).st_size
        try:
            _write(descriptor, data)
        except OSError as error:
            error.filename = str(path)
            os.ftruncate(descriptor, size)
            raise
    finally:
        os.close(descriptor)


def patiently(write: Callable[[], T], stopped: Callable[[], bool] = lambda: False) -> T:
    """Write; while the disk is full, say so and try again, until asked to stop."""
    paused = False
    while True:
        try:
            made = write()
        except OSError as error:
            if error.errno not in _FULL:
                raise
            if not paused:
                log.warning(
                    "the disk is full: no room for %s. The run is paused and loses nothing; it "
                    "goes on once there is room. Ctrl-C ends it, with the last checkpoint intact",
                    error.filename,
                )
            paused = True
            until = time.monotonic() + _RETRY
            while time.monotonic() < until:
                if stopped():
                    raise
                time.sleep(0.05)
        else:
            if paused:
                log.warning("there is room on the disk again; the run goes on")
            return made


class InUseError(UsageError):
    """A folder is locked by another process; later it may not be."""


class Lock:
    """Keeps a second process off a run folder for as long as this one lives.

    The operating system holds the lock and lets go of it when the process ends, however it ends, so
    a lock file left behind by a crash locks nothing. What is written in it is for people.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / LOCK_FILE
        while True:
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | _BINARY, 0o666)
            try:
                _lock_soon(self._descriptor)
            except OSError as error:
                holder = os.read(self._descriptor, 200).decode(errors="replace").strip()
                os.close(self._descriptor)
                if error.errno not in (errno.EAGAIN, errno.EACCES, errno.EDEADLK):
                    raise
                raise InUseError(
                    f"{folder} is in use by another process ({holder or 'which left no name'}); "
                    "wait until it ends, or end it, or choose another folder"
                ) from None
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(self._descriptor), self._path.stat()):
                    break
            os.close(self._descriptor)  # its holder removed it between our opening and locking
        about = f"process {os.getpid()} on {socket.gethostname()}, since {time.ctime()}\n"
        with contextlib.suppress(OSError):  # on a full disk the lock holds without its text
            os.ftruncate(self._descriptor, 0)
            os.lseek(self._descriptor, 0, os.SEEK_SET)
            _write(self._descriptor, about.encode())
        self._let_go = weakref.finalize(self, os.close, self._descriptor)

    def release(self) -> None:
        """Let others in."""
        try:  # while it is locked, so that nobody locks a file about to vanish
            self._path.unlink(missing_ok=True)
        except PermissionError:  # Windows removes no open file; left behind, it locks nothing
            self._let_go()
            with contextlib.suppress(OSError):
                self._path.unlink(missing_ok=True)
        self._let_go()


def holder(folder: Path) -> str | None:
    """Who has a run folder locked, in the words of its lock file; None where nobody has."""
    try:
        descriptor = os.open(folder / LOCK_FILE, os.O_RDWR | _BINARY)
    except OSError:  # not there, or not ours to write
        return None
    try:
        _lock(descriptor)
    except OSError:
        return os.read(descriptor, 200).decode(errors="replace").strip()
    finally:
        os.close(descriptor)
    return None


def _lock_soon(descriptor: int) -> None:
    """Lock an open file; one that is only being looked at by `holder` is free in a moment."""
    for _ in range(5):
        try:
            return _lock(descriptor)
        except OSError:
            time.sleep(0.02)
    return _lock(descriptor)


def _lock(descriptor: int) -> None:
    """Lock an open file, or raise the OSError of a file that somebody else has locked."""
    try:
        import fcntl
    except ImportError:
        import msvcrt

        calls: Any = msvcrt  # known to type checkers on Windows only
        os.lseek(descriptor, _LOCKED, os.SEEK_SET)
        try:
            calls.locking(descriptor, calls.LK_NBLCK, 1)
        finally:
            os.lseek(descriptor, 0, os.SEEK_SET)
        return
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _write(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _sync(folder: Path) -> None:
    """Bring the names in a folder to the disk."""
    with contextlib.suppress(PermissionError):  # Windows opens no folders, and needs no such thing
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
