"""Rows that survive an interruption: one Parquet file, and parts beside it while under way."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from ucpo.errors import UsageError
from ucpo.evaluation.episodes import Job, Row, job_of
from ucpo.storage import parquet

SECONDS = 20.0
"""Between parts: what an interruption can cost at most."""


class Store:
    """Finished rows of one policy on one task.

    Args:
        file: Where the rows are in the end.
        policy: Fingerprint of the policy; rows of another one are moved aside, see `moved`.
        task: Name of the task.
        costs: Names of its costs, in order.
        key: Columns that tell rows apart.
    """

    def __init__(
        self, file: Path, policy: str, task: str, costs: Sequence[str], key: Sequence[str] = ()
    ) -> None:
        self.file, self._task, self._costs = file, task, costs
        budgets = [f"budget_{name}" for name in costs]
        self._key = ["task", *budgets, "episode_seed", *key]
        self._parts = file.with_suffix(".parts")
        self._rows: list[Row] = []
        self._written = time.monotonic()
        self.moved = self._move_aside(policy)

    def finished(self) -> set[Job]:
        """The episodes of this task that need not be played again."""
        names = ["task", *(f"budget_{name}" for name in self._costs), "episode_seed"]
        files = self._files()
        if not files:
            return set()
        rows = pl.concat(parquet.read(file, names) for file in files)
        mine = rows.filter(pl.col("task") == self._task).unique()
        return {job_of(row, self._costs) for row in mine.iter_rows(named=True)}

    def add(self, rows: list[Row]) -> None:
        """Keep rows; now and then they are written."""
        self._rows += rows
        if time.monotonic() - self._written > SECONDS:
            self.flush()

    def flush(self) -> None:
        """Write what is held back."""
        if self._rows:
            name = f"{uuid.uuid4().hex}.parquet"  # never that of a part left by another call
            parquet.write(pl.DataFrame(self._rows), self._parts / name)
        self._rows, self._written = [], time.monotonic()

    def merge(self) -> pl.DataFrame:
        """Put all parts into the one file, each episode once, and return all rows."""
        self.flush()
        files = self._files()
        frames = [parquet.read(file) for file in files]
        if not frames:
            return pl.DataFrame()
        rows = pl.concat(frames, how="diagonal_relaxed")
        rows = rows.unique(self._key, keep="first", maintain_order=True).sort(self._key)
        if files != [self.file]:
            parquet.write(rows, self.file)
        for file in files:
            if file != self.file:
                file.unlink()
        if self._parts.is_dir():
            self._parts.rmdir()
        return rows

    def _files(self) -> list[Path]:
        parts = sorted(self._parts.glob("*.parquet"))
        return [self.file, *parts] if self.file.is_file() else parts

    def _move_aside(self, policy: str) -> Path | None:
        """Rows of a policy that has since learned on are kept, under another name."""
        moved = None
        for file in self._files():
            columns = parquet.columns(file)
            missing = [name for name in self._key if name not in columns]
            if missing:
                raise UsageError(
                    f"{file} has no column {missing[0]}: it holds other costs, or was written by "
                    "another version; move it away or choose another --output"
                )
            found = set(parquet.read(file, ["policy"])["policy"]) if "policy" in columns else {"-"}
            if found != {policy}:
                name = f"{self.file.stem}-of-{'-'.join(sorted(found - {policy}))}"
                name += "" if file == self.file else f"-{file.stem}"
                moved = self.file.with_name(f"{name}.parquet")
                file.replace(moved)
        return moved
