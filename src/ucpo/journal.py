"""Where metrics go: CSV, TensorBoard, Weights & Biases, the terminal. Written, never read."""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, TextIO

from ucpo.errors import UsageError

Row = dict[str, float]


class Sink(Protocol):
    """Takes rows of metrics."""

    def write(self, row: Row, timing: Row) -> None:
        """Take one row; `timing` holds what depends on the clock."""

    def close(self) -> None:
        """Write out what is held back."""


class Journal:
    """Hands every row to every sink."""

    def __init__(self, sinks: Sequence[Sink] = ()) -> None:
        self._sinks = sinks

    def write(self, row: Row, timing: Row) -> None:
        """Hand on one row."""
        for sink in self._sinks:
            sink.write(row, timing)

    def close(self) -> None:
        """Close every sink."""
        for sink in self._sinks:
            sink.close()


class CsvSink:
    """`metrics.csv`: the same bytes for the same seed, so timings stay out of it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fields: list[str] | None = None

    def write(self, row: Row, timing: Row) -> None:
        """Append a row; values that were not known in the first row have no column."""
        first = self._fields is None
        self._fields = self._fields or list(row)
        with self._path.open("w" if first else "a", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, self._fields, restval="", extrasaction="ignore")
            if first:
                writer.writeheader()
            writer.writerow({key: f"{value:.9g}" for key, value in row.items()})

    def close(self) -> None:
        """Nothing is held back."""


class TensorBoardSink:
    """Events for TensorBoard, over environment steps."""

    def __init__(self, folder: Path) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer: Any = SummaryWriter(str(folder))

    def write(self, row: Row, timing: Row) -> None:
        """Write every metric and the speed."""
        env_steps = int(row["env_steps"])
        for key, value in row.items():
            if value == value:  # not a number: no episode in that band yet
                self._writer.add_scalar(key, value, env_steps)
        self._writer.add_scalar("steps_per_second", timing["steps_per_second"], env_steps)

    def close(self) -> None:
        """Flush the events."""
        self._writer.close()


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
        shown = [f"{key} {_number(row[key])}" for key in row if key.partition("/")[0] in _PLAIN]
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
        *((key.replace("/", ": "), _number(v)) for key, v in row.items() if key[:5] == "cost/"),
    ):
        head.add_row(name, text)
    body = Table("budget", "violations", "excess", "price")
    for key in row:
        kind, _, band = key.partition("/")
        if kind == "violations":
            body.add_row(
                band.replace("/", " "),
                f"{row[key]:.1%}",
                _number(row[f"excess/{band}"]),
                _number(row[f"price/{band}"]),
            )
    return Group(head, body)


def _number(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:.3f}"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}"
