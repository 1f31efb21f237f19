"""Refusals of impossible values, in one sentence."""

from __future__ import annotations

from ucpo.errors import UsageError


def require(condition: bool, message: str) -> None:
    """Raise a `UsageError` with the message unless the condition holds."""
    if not condition:
        raise UsageError(message)


def within(name: str, value: float, low: float, high: float) -> None:
    """Refuse a value outside its bounds."""
    bound = f"at least {low:,}" if value < low else f"at most {high:,}"
    require(low <= value <= high, f"{name} must be {bound}, got {value}")
