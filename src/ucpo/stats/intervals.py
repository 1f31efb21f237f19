"""Means of a few independent runs, and how far they can be trusted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ucpo.problem import Floats

CONFIDENCE = 0.95


class Interval(NamedTuple):
    """A mean and half the width of its confidence interval."""

    mean: float
    half: float
    """Not a number with fewer than two values: nothing is known of their spread."""

    @property
    def low(self) -> float:
        """Lower end."""
        return self.mean - self.half

    @property
    def high(self) -> float:
        """Upper end."""
        return self.mean + self.half


def student_t(values: Sequence[float] | Floats, confidence: float = CONFIDENCE) -> Interval:
    """Mean of independent values with its Student-t interval."""
    samples = np.asarray(values, float)
    if not len(samples):
        return Interval(math.nan, math.nan)
    if len(samples) < 2:
        return Interval(float(samples.mean()), math.nan)
    half = half_width(float(samples.std(ddof=1)), len(samples), confidence)
    return Interval(float(samples.mean()), half)


def half_width(deviation: float, count: int, confidence: float = CONFIDENCE) -> float:
    """Half the Student-t interval of a mean, from the sample standard deviation."""
    if count < 2:
        return math.nan
    from scipy.special import stdtrit  # scipy.stats takes a second to import

    quantile = float(stdtrit(count - 1, 0.5 + confidence / 2.0))
    return quantile * deviation / math.sqrt(count)


def overlap(one: Interval, other: Interval) -> bool | None:
    """Whether two intervals have a point in common; None where one of them is not known."""
    if math.isnan(one.half) or math.isnan(other.half):
        return None
    return one.low <= other.high and other.low <= one.high
