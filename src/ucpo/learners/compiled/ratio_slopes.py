"""Losses of `ucpo.learners.surrogates` for Gaussian policies with their slopes, in compiled loops.

All three are functions of how much more probable each decision has become, and FOCOPS of how far
its distribution has moved. So each says what its slopes are in these two, and one function leads
both back to means and log-deviations. Sums are in double precision; they are short.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

Floats = Any  # arrays, as numba sees them

CLIPPED, FOCOPS, P3O = 0, 1, 2
"""Which loss. Its numbers are the fields of the class of that name, in order."""


@njit(cache=True, nogil=True)
def surrogate_slopes(
    kind: int,
    numbers: Floats,
    mean: Floats,
    log_std: Floats,
    sample: Floats,
    log_prob: Floats,
    old_mean: Floats,
    old_log_std: Floats,
    advantage: Floats,
    costs: Floats,
    excess: Floats,
    of_mean: Floats,
    of_log_std: Floats,
) -> Any:
    """The loss; its slopes are filled in.

    Args:
        kind: CLIPPED, FOCOPS or P3O.
        numbers: Its settings.
        mean: Of the new policy, (batch, action).
        log_std: Of the new policy, (action,).
        sample: What the old policy drew, (batch, action).
        log_prob: By the old policy, (batch,).
        old_mean: Like `mean`.
        old_log_std: Like `log_std`.
        advantage: Combined, (batch,).
        costs: Advantages of the costs, (batch, C).
        excess: Of recent episodes, (C,).
        of_mean: Filled, (batch, action).
        of_log_std: Filled, (action,).
    """
    ratio = _ratios(mean, log_std, sample, log_prob)
    of_ratio, of_moved = np.zeros(len(mean)), np.zeros(len(mean))
    if kind == FOCOPS:
        moved = divergences(mean, log_std, old_mean, old_log_std)
        loss = _focops(numbers, ratio, moved, advantage, of_ratio, of_moved)
    elif kind == P3O:
        loss = _p3o(numbers, ratio, advantage, costs, excess, of_ratio)
    else:
        loss = _clipped(numbers[0], ratio, advantage, of_ratio)
    inverse = np.exp(-log_std)
    old_inverse, growth = np.exp(-2.0 * old_log_std), np.exp(2.0 * (log_std - old_log_std))
    of_log_std[:] = np.float32(0.0)
    for i in range(len(mean)):
        along = of_ratio[i] * ratio[i]
        for a in range(len(log_std)):
            noise = (sample[i, a] - mean[i, a]) * inverse[a]
            shift = (mean[i, a] - old_mean[i, a]) * old_inverse[a]
            of_mean[i, a] = along * noise * inverse[a] + of_moved[i] * shift
            of_log_std[a] += along * (noise * noise - 1.0) + of_moved[i] * (growth[a] - 1.0)
    return loss


@njit(cache=True, nogil=True)
def _ratios(mean: Floats, log_std: Floats, sample: Floats, log_prob: Floats) -> Floats:
    inverse, ratio = np.exp(-log_std), np.empty(len(mean))
    constant = 0.0
    for a in range(len(log_std)):
        constant += log_std[a] + 0.5 * np.log(2.0 * np.pi)
    for i in range(len(mean)):
        chance = -constant
        for a in range(len(log_std)):
            noise = (sample[i, a] - mean[i, a]) * inverse[a]
            chance -= 0.5 * noise * noise
        ratio[i] = np.exp(chance - log_prob[i])
    return ratio


@njit(cache=True, nogil=True)
def divergences(mean: Floats, log_std: Floats, to_mean: Floats, to_log_std: Floats) -> Floats:
    """KL from one Gaussian policy to another in each row, (batch,)."""
    found, inverse = np.zeros(len(mean)), np.exp(-to_log_std)
    wider = log_std - to_log_std
    growth = np.exp(2.0 * wider)
    for i in range(len(mean)):
        for a in range(len(log_std)):
            shift = (mean[i, a] - to_mean[i, a]) * inverse[a]
            found[i] += 0.5 * (growth[a] + shift * shift - 1.0) - wider[a]
    return found


@njit(cache=True, nogil=True)
def _clipped(clip: float, ratio: Floats, advantage: Floats, of_ratio: Floats) -> Any:
    loss, batch = 0.0, len(ratio)
    for i in range(batch):
        near = min(max(ratio[i], 1.0 - clip), 1.0 + clip)
        gain = ratio[i] * advantage[i]
        # Where the clipped reading is the smaller one, nothing is to be gained by moving on.
        moves = gain <= near * advantage[i]
        loss -= gain if moves else near * advantage[i]
        of_ratio[i] = -advantage[i] / batch if moves else 0.0
    return loss / batch


@njit(cache=True, nogil=True)
def _focops(
    numbers: Floats,
    ratio: Floats,
    moved: Floats,
    advantage: Floats,
    of_ratio: Floats,
    of_moved: Floats,
) -> Any:
    temperature, reach = numbers[0], numbers[1]
    loss, batch = 0.0, len(ratio)
    for i in range(batch):
        if moved[i] <= reach:
            loss += moved[i] - ratio[i] * advantage[i] / temperature
            of_ratio[i] = -advantage[i] / (temperature * batch)
            of_moved[i] = 1.0 / batch
    return loss / batch


@njit(cache=True, nogil=True)
def _p3o(
    numbers: Floats,
    ratio: Floats,
    advantage: Floats,
    costs: Floats,
    excess: Floats,
    of_ratio: Floats,
) -> Any:
    clip, penalty, gamma = numbers[0], numbers[1], numbers[2]
    loss, batch = _clipped(clip, ratio, advantage, of_ratio), len(ratio)
    for c in range(len(excess)):
        worse = 0.0
        for i in range(batch):
            near = min(max(ratio[i], 1.0 - clip), 1.0 + clip)
            worse += max(ratio[i] * costs[i, c], near * costs[i, c])
        expected = worse / batch + excess[c] * (1.0 - gamma)
        if expected < 0.0:
            continue
        loss += penalty * expected
        for i in range(batch):
            near = min(max(ratio[i], 1.0 - clip), 1.0 + clip)
            if ratio[i] * costs[i, c] >= near * costs[i, c]:
                of_ratio[i] += penalty * costs[i, c] / batch
    return loss
