"""Where metrics go: CSV, TensorBoard, Weights & Biases, the terminal. Written, never read."""

from __future__ import annotations

import csv
import io
import os
import socket
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TextIO

from ucpo.errors import UsageError
from ucpo.storage import files, names

Row = dict[str, float]


class Sink(Protocol):
    """Takes rows of metrics."""

    def write(self, row: Row, timing: Row) -> None:
        """Take one row; `timing` holds what depends on the clock."""

    def close(self) -> None:
        """Write out what is held back."""


class Journal:
    """Hands every row to every sink; a full disk is waited for, until asked to stop."""

    def __init__(
        self, sinks: Sequence[Sink] = (), stopped: Callable[[], bool] = lambda: False
    ) -> None:
        self._sinks, self._stopped = sinks, stopped

    def write(self, row: Row, timing: Row) -> None:
        """Hand on one row."""
        for sink in self._sinks:
            files.patiently(partial(sink.write, row, timing), self._stopped)

    def close(self) -> None:
        """Close every sink."""
        for sink in self._sinks:
            sink.close()


class CsvSink:
    """`metrics.csv`: the same bytes for the same seed, so timings stay out of it.

    Args:
        path: The file.
        before: What it held when the run that goes on was saved; anything later is forgotten.
    """

    def __init__(self, path: Path, before: bytes = b"") -> None:
        self._path = path
        self._fields: list[str] | None = None
        if before:
            self._fields = next(csv.reader([before.decode().splitlines()[0]]))
            files.replace(path, before)
        else:
            path.unlink(missing_ok=True)

    def write(self, row: Row, timing: Row) -> None:
        """Append a row; values that were not known in the first row have no column."""
        fields = self._fields or list(row)
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, fields, restval="", extrasaction="ignore")
        if self._fields is None:
            writer.writeheader()
        writer.writerow({key: _cell(value) for key, value in row.items()})
        files.append(self._path, text.getvalue().encode())
        self._fields = fields

    def close(self) -> None:
        """Nothing is held back."""


def _cell(value: float) -> str:
    """A number as text; nothing where there is none yet, so that columns are read as numbers."""
    return f"{value:.9g}" if value == value else ""


class TensorBoardSink:
    """Events for TensorBoard, over environment steps.

    Written here and at once: PyTorch's writer does it in a thread, where nobody can wait for a full
    disk.

    Args:
        folder: The run's.
        env_steps: Where a run goes on; TensorBoard forgets what earlier files say of later steps.
    """

    def __init__(self, folder: Path, env_steps: int | None = None) -> None:
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog
        from tensorboard.compat.proto.summary_pb2 import Summary

        self._event, self._summary = Event, Summary
        now = time.time()
        # TensorBoard reads files in the order of their names.
        host = f"{socket.gethostname()}.{os.getpid()}"
        self._path = folder / f"events.out.tfevents.{now:.6f}.{host}"
        head = [Event(wall_time=now, file_version="brain.Event:2")]
        if env_steps is not None:
            restart = SessionLog(status=SessionLog.START)
            head.append(Event(wall_time=now, step=env_steps + 1, session_log=restart))
        self._head = b"".join(map(_record, head))

    def write(self, row: Row, timing: Row) -> None:
        """Write every metric and the speed."""
        values = {**row, "steps_per_second": timing["steps_per_second"]}
        summary = self._summary()
        for key, value in values.items():
            if value == value:  # not a number: no episode in that band yet
                summary.value.add(tag=key, simple_value=value)
        event = self._event(wall_time=time.time(), step=int(row["env_steps"]), summary=summary)
        files.append(self._path, self._head + _record(event))
        self._head = b""

    def close(self) -> None:
        """Nothing is held back."""


def _record(event: Any) -> bytes:
    """An event as TensorFlow's files hold it: with its length and checksums of both."""
    from tensorboard.summary.writer.record_writer import RecordWriter

    buffer = io.BytesIO()
    RecordWriter(buffer).write(event.SerializeToString())
    return buffer.getvalue()


class Callback:
    """Tells a function every row."""

    def __init__(self, told: Callable[[Row], None]) -> None:
        self._told = told

    def write(self, row: Row, timing: Row) -> None:
        """Tell it."""
        self._told({**row, "steps_per_second": timing["steps_per_second"]})

    def close(self) -> None:
        """Nothing is held back."""


class WandbSink:
    """Weights & Biases, for those who have it."""

    def __init__(self, folder: Path, settings: dict[str, Any]) -> None:
        try:
            import wandb
        except ImportError:
            raise UsageError(
                "tracking with wandb needs the package: pip install 'ucpo[wandb]'"
            ) from None
        self._run: Any = wandb.init(project="ucpo", dir=str(folder), config=settings)

    def write(self, row: Row, timing: Row) -> None:
        """Log every metric and the speed."""
        values = {**row, "steps_per_second": timing["steps_per_second"]}
        self._run.log(values, step=int(row["env_steps"]))

    def close(self) -> None:
        """Finish the run."""
        self._run.finish()


class Display:
    """Progress on the terminal: a live table, or plain lines where there is no terminal."""

    def __init__(self, title: str, stream: TextIO | None = None) -> None:
        from rich.console import Console
        from rich.live import Live

        self._title = title
        self._console = Console(file=stream or sys.stderr)
        self._live: Live | None = None
        if self._console.is_terminal:
            self._live = Live(console=self._console, refresh_per_second=4, transient=False)
            self._live.start()

    def write(self, row: Row, timing: Row) -> None:
        """Show the latest row."""
        if self._live is not None:
            self._live.update(_table(self._title, row, timing))
            return
        shown = [f"{key} {_number(row[key])}" for key in row if names.parts(key)[0] in _PLAIN]
        clock = f"{timing['steps_per_second']:.0f} steps/s, {_clock(timing['left'])} left"
        self._console.print(f"{' | '.join(shown)} | {clock}", soft_wrap=True, highlight=False)

    def close(self) -> None:
        """Leave the last table on the screen."""
        if self._live is not None:
            self._live.stop()


_PLAIN = ("env_steps", "updates", "return", "cost")


def _table(title: str, row: Row, timing: Row) -> Any:
    from rich.console import Group
    from rich.table import Table

    steps, goal = row["env_steps"], timing["goal"]
    head = Table(title=title, show_header=False, box=None)
    for name, text in (
        ("environment steps", f"{steps:,.0f} of {goal:,.0f} ({steps / goal:.0%})"),
        ("speed", f"{timing['steps_per_second']:,.0f} steps/s, {_clock(timing['left'])} left"),
        ("updates", f"{row['updates']:,.0f}"),
        ("episodes", f"{row['episodes']:,.0f}"),
        ("return", _number(row["return"])),
        *(
            (key.replace("/", ": "), _number(v))
            for key, v in row.items()
            if key.startswith("cost/")
        ),
    ):
        head.add_row(name, text)
    body = Table("budget", "violations", "excess", "price")
    for key in row:
        kind, cost, band = names.parts(key)
        if kind == names.VIOLATIONS:
            price = names.column(names.PRICE, cost, band)
            body.add_row(
                f"{cost} {band}",
                f"{row[key]:.1%}",
                _number(row[names.column(names.EXCESS, cost, band)]),
                _number(row[price]) if price in row else "",
            )
    return Group(head, body)


def _number(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:.3f}"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}"
