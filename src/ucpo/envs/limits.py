"""Costs that any robot can be charged beside those of its task: speed and effort above a limit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ucpo.errors import UsageError
from ucpo.problem import Floats

NAMES = ("speed", "speed_excess", "control", "control_excess")
"""Whether the last step was above a limit, 1 or 0, and by how much."""
CONTROL_LIMIT = 0.25


class Robots(Protocol):
    """What can be measured of a batch after a step."""

    def speed(self) -> Floats:
        """In m/s, (n,)."""

    def effort(self) -> Floats:
        """Mean squared control as a share of what is possible, 0 to 1, (n,)."""


@dataclass(frozen=True)
class Limits:
    """What costs nothing."""

    speed: float
    control: float = CONTROL_LIMIT

    def __post_init__(self) -> None:
        if not self.speed >= 0.0:
            raise UsageError(f"speed_limit must be at least 0 m/s, got {self.speed}")
        if not 0.0 <= self.control < 1.0:
            raise UsageError(f"control_limit must be from 0 to below 1, got {self.control}")

    def charge(self, name: str, robots: Robots) -> Floats:
        """A cost by name, (n,)."""
        kind, _, by_how_much = name.partition("_")
        if kind == "speed":
            values, limit = robots.speed(), self.speed
        else:
            values, limit = robots.effort(), self.control
        above: Floats = np.maximum(values - limit, 0.0)
        return above if by_how_much else (values > limit).astype(np.float64)
