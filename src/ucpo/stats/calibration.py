"""Whether predicted distributions deserve belief.

Where in its predicted distribution an outcome lies (the probability integral transform, PIT) is
uniform for a perfect prediction. With finitely many quantiles, and costs that have atoms, that
place is an interval; its mass is spread evenly over it (Czado, Gneiting and Held, 2009), which
needs no random numbers.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from ucpo.problem import Floats

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
BINS = 20


def coverage(low: Floats, high: Floats, levels: Floats) -> Floats:
    """How often outcomes lay below the predicted quantiles, (levels,); `levels` if perfect.

    Args:
        low: Lower ends of the PIT intervals, (samples,), in [0, 1].
        high: Upper ends, (samples,).
        levels: Of the quantiles asked about, (levels,).
    """
    width = np.maximum(high - low, 1e-12)
    shares = [np.clip((level - low) / width, 0.0, 1.0).mean() for level in levels]
    return np.array(shares)


def pit_histogram(low: Floats, high: Floats, bins: int = BINS) -> Floats:
    """Share of outcomes in each of `bins` equal slices of the prediction; 1 / bins if perfect."""
    return np.diff(coverage(low, high, np.linspace(0.0, 1.0, bins + 1)))


def calibration_error(low: Floats, high: Floats) -> float:
    """Mean distance between coverage and level over all levels; 0 is perfect, 0.5 the worst."""
    levels = (np.arange(100) + 0.5) / 100.0
    return float(np.abs(coverage(low, high, levels) - levels).mean())


def calibration_summary(rows: pl.DataFrame) -> pl.DataFrame:
    """One row per task, method and cost of calibration rows (`ucpo.evaluation.calibration`).

    Columns: ``seeds``, ``predictions``, ``observed`` (mean share of the sum that was observed),
    ``predicted`` and ``happened`` (means), ``covered_05`` to ``covered_95``, ``error``.
    """
    summary = []
    for (task, method, name), group in rows.group_by(
        ["task", "method", "cost"], maintain_order=True
    ):
        low, high = group["pit_low"].to_numpy(), group["pit_high"].to_numpy()
        covered = coverage(low, high, np.array(LEVELS)).tolist()
        summary.append(
            {
                "task": task,
                "method": method,
                "cost_name": name,
                "seeds": group["training_seed"].n_unique(),
                "predictions": len(group),
                **{n: group[n].to_numpy().mean() for n in ("observed", "predicted", "happened")},
                **{
                    f"covered_{round(100 * level):02d}": share
                    for level, share in zip(LEVELS, covered, strict=True)
                },
                "error": calibration_error(low, high),
            }
        )
    return pl.DataFrame(summary)
