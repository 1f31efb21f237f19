"""The loss of UCP's actor with its slopes written down, in one compiled pass."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

Floats = Any  # arrays of float32, as numba sees them


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def lesser(quantiles: Floats, i: int) -> tuple[int, Any]:
    """Which of the first two critics says less of a row on average, and the sum of what it says."""
    first = second = np.float32(0.0)
    for k in range(quantiles.shape[2]):
        first += quantiles[0, i, k]
    for k in range(quantiles.shape[2]):
        second += quantiles[1, i, k]
    return (0, first) if first <= second else (1, second)


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def squares(numbers: Floats, factor: Any, slope: Floats) -> Any:
    """The sum of squares; `slope` is the gradient of half the factor times it."""
    total = np.float32(0.0)
    for a in range(len(numbers)):
        total += numbers[a] * numbers[a]
        slope[a] = factor * numbers[a]
    return total


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def priced(
    quantiles: Floats,
    log_prob: Floats,
    mean: Floats,
    log_std: Floats,
    stock: Floats,
    price: Floats,
    linear: Any,
    weights: Any,
    of_quantiles: Floats,
    of_log_prob: Floats,
    of_mean: Floats,
    of_log_std: Floats,
) -> Any:
    """`ucpo.learners.ucp.actor_loss` of linear utilities and excesses, with its penalties.

    Args:
        quantiles: Of the critics, (2 + C, batch, N).
        log_prob: Of the policy's sample, (batch,).
        mean: (batch, action).
        log_std: (batch, action).
        stock: (batch, C).
        price: (batch, C).
        linear: Whether each cost counts as it is, (C,), or only what is beyond its budget.
        weights: Of the entropy, and of the policy's squared size.
        of_quantiles: Filled with the slope of the loss, like the others of their kind.
        of_log_prob: ...
        of_mean: ...
        of_log_std: ...
    """
    critics, batch, count = quantiles.shape
    weight, regulariser = weights
    zero, one, two = np.float32(0.0), np.float32(1.0), np.float32(2.0)
    share, loss = one / np.float32(count), 0.0
    for i in range(batch):
        prices = one
        for c in range(critics - 2):
            prices += price[i, c]
        scale = one / (prices * np.float32(batch))
        chosen, total = lesser(quantiles, i)
        expected = -total * share
        for k in range(count):
            of_quantiles[chosen, i, k], of_quantiles[1 - chosen, i, k] = -scale * share, zero
        for c in range(critics - 2):
            slope, utility = price[i, c] * scale * share, zero
            if linear[c]:
                for k in range(count):
                    utility += stock[i, c] + quantiles[2 + c, i, k]
                    of_quantiles[2 + c, i, k] = slope
            else:
                for k in range(count):
                    final = stock[i, c] + quantiles[2 + c, i, k]
                    utility += zero if final < zero else final  # what is not a number shows
                    of_quantiles[2 + c, i, k] = slope if final >= zero else zero
            expected += price[i, c] * utility * share
        factor = two * regulariser * scale
        size = squares(mean[i], factor, of_mean[i]) + squares(log_std[i], factor, of_log_std[i])
        of_log_prob[i] = weight * scale
        loss += scale * (expected + weight * log_prob[i] + regulariser * size)
    return loss
