"""What every command says alike."""

from __future__ import annotations

import sys

from ucpo.errors import UsageError


def say(text: str) -> None:
    """Write a line for people, apart from what a command prints."""
    sys.stderr.write(text + "\n")


def refuse_negative(seed: int) -> None:
    """Seeds count from 0."""
    if seed < 0:
        raise UsageError(f"seed must be at least 0, got {seed}")
