"""Methods compared over many tasks with few seeds each.

Interquartile mean and stratified bootstrap follow Agarwal et al., "Deep Reinforcement Learning at
the Edge of the Statistical Precipice" (2021): outlying runs do not decide, and the interval
resamples seeds within each task, never tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ucpo.problem import Floats
from ucpo.stats.intervals import CONFIDENCE

RESAMPLES = 2000


def interquartile_mean(values: Sequence[float] | Floats) -> float:
    """Mean of the middle half: the lowest and the highest quarter (rounded down) do not count."""
    scores = np.ravel(np.asarray(values, float))
    return float(middle_means(scores)) if len(scores) else float("nan")


def middle_means(scores: Floats) -> Floats:
    """Interquartile means along the last axis."""
    ordered = np.sort(scores, axis=-1)
    cut = scores.shape[-1] // 4
    means: Floats = ordered[..., cut : scores.shape[-1] - cut].mean(-1)
    return means


def bootstrap_interval(
    tasks: Sequence[Sequence[float] | Floats],
    generator: np.random.Generator,
    statistic: Callable[[Floats], Floats] = middle_means,
    resamples: int = RESAMPLES,
    confidence: float = CONFIDENCE,
) -> tuple[float, float]:
    """Percentile interval of a statistic of all runs, seeds resampled within each task.

    Args:
        tasks: Comparable scores of the seeds, for each task.
        generator: Draws the resamples.
        statistic: Of all scores together, (resamples, runs) -> (resamples,).
        resamples: How many.
        confidence: Of the interval.
    """
    scores = [np.asarray(task, float) for task in tasks if len(task)]
    if not scores or max(len(task) for task in scores) < 2:
        return float("nan"), float("nan")
    drawn = np.concatenate(
        [task[generator.integers(len(task), size=(resamples, len(task)))] for task in scores],
        axis=1,
    )  # (resamples, runs)
    low, high = np.quantile(statistic(drawn), [0.5 - confidence / 2.0, 0.5 + confidence / 2.0])
    return float(low), float(high)


def probability_of_improvement(
    ours: Sequence[Sequence[float] | Floats], theirs: Sequence[Sequence[float] | Floats]
) -> float:
    """Chance that a run of one method beats a run of another on the same task, over all tasks.

    For each task the share of pairs of seeds won, ties counting half; then the mean over tasks.
    Tasks where either has no run are left out.
    """
    shares = []
    for mine, other in zip(ours, theirs, strict=True):
        if len(mine) and len(other):
            gap = np.asarray(mine, float)[:, None] - np.asarray(other, float)[None]
            shares.append(np.mean((gap > 0.0) + 0.5 * (gap == 0.0)))
    return float(np.mean(shares)) if shares else float("nan")
