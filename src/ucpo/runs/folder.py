"""The folder of a run while it is in use: locked against others, with a log of what happened."""

from __future__ import annotations

import logging
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ucpo.config.files import to_toml
from ucpo.config.options import RunConfig
from ucpo.errors import UsageError, shell
from ucpo.storage import files
from ucpo.storage.names import CONFIG_FILE, LOG_FILE, METRICS_FILE


class RunFolder:
    """A run folder that nobody else may use until it is closed.

    Args:
        path: An existing folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = files.Lock(path)

    @classmethod
    def new(cls, path: Path) -> RunFolder:
        """Make one."""
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            hint = (
                f"To go on with the run in it: ucpo resume {shell(path)}. Otherwise choose another"
            )
            if not (path / CONFIG_FILE).is_file():
                hint = "Choose another"
            raise UsageError(
                f"{path} exists already; nothing was changed. {hint} folder (--run NAME), or "
                "remove this one if it is not needed"
            ) from None
        return cls(path)

    def write_config(self, config: RunConfig) -> None:
        """Write or replace config.toml."""
        files.replace(self.path / CONFIG_FILE, to_toml(config).encode())

    def metrics(self) -> bytes:
        """What metrics.csv holds so far."""
        path = self.path / METRICS_FILE
        return path.read_bytes() if path.is_file() else b""

    def discard(self) -> None:
        """Remove it, where a training did not even begin: nothing must block another attempt."""
        self.close()
        shutil.rmtree(self.path, ignore_errors=True)

    def close(self) -> None:
        """Let others use it."""
        self._lock.release()


@contextmanager
def logged(folder: Path | None, show: bool) -> Iterator[None]:
    """Send messages to the log of a run folder and, if wanted, to the terminal."""
    handlers: list[logging.Handler] = [_Terminal()] if show else []
    if folder is not None:
        handlers.append(_File(folder / LOG_FILE))
    level = files.log.level
    files.log.setLevel(logging.INFO)
    for handler in handlers:
        files.log.addHandler(handler)
    try:
        yield
    finally:
        for handler in handlers:
            files.log.removeHandler(handler)
        files.log.setLevel(level)


class _Terminal(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        sys.stderr.write(f"ucpo: {record.getMessage()}\n")


class _File(logging.Handler):
    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def emit(self, record: logging.LogRecord) -> None:
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record.created))
        with suppress(OSError):  # that the disk is full must not keep anyone from saying so
            files.append(self._path, f"{when} {record.getMessage()}\n".encode())
