"""What episodes say about policies under budgets. Nothing here knows how they were trained."""

from ucpo.stats.aggregates import (
    bootstrap_interval,
    interquartile_mean,
    probability_of_improvement,
)
from ucpo.stats.calibration import (
    calibration_error,
    calibration_summary,
    coverage,
    pit_histogram,
)
from ucpo.stats.intervals import Interval, overlap, student_t
from ucpo.stats.levels import Level, best_level, worst_mean
from ucpo.stats.selection import select_budgets
from ucpo.stats.summaries import over_seeds, per_seed
from ucpo.stats.tails import Tail, cost_names, summarise, tail

__all__ = [
    "Interval",
    "Level",
    "Tail",
    "best_level",
    "bootstrap_interval",
    "calibration_error",
    "calibration_summary",
    "cost_names",
    "coverage",
    "interquartile_mean",
    "over_seeds",
    "overlap",
    "per_seed",
    "pit_histogram",
    "probability_of_improvement",
    "select_budgets",
    "student_t",
    "summarise",
    "tail",
    "worst_mean",
]
