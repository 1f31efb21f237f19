"""Parquet files: whole or not there at all, and a clear word where one cannot be read."""

from __future__ import annotations

import io
from pathlib import Path

import polars as pl

from ucpo.errors import UsageError
from ucpo.storage import files


def write(frame: pl.DataFrame, path: Path) -> None:
    """Write a file; an earlier one survives until the new one is whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    files.replace(path, buffer.getvalue())


def columns(path: Path) -> list[str]:
    """Names of the columns of a file."""
    try:
        return list(pl.read_parquet_schema(path))
    except (pl.exceptions.PolarsError, OSError) as error:
        raise _unreadable(path, error) from None


def read(path: Path, only: list[str] | None = None) -> pl.DataFrame:
    """Read a file, or only some of its columns."""
    try:
        return pl.read_parquet(path, columns=only)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: Exception) -> UsageError:
    reason = next(iter(str(error).splitlines()), type(error).__name__)
    return UsageError(
        f"{path} cannot be read as Parquet ({reason}); evaluate again, or leave it out"
    )
