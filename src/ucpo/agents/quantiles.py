"""Quantile regression between two sets of quantiles, exact, without the N x N pairs in memory.

The loss is the mean over all pairs of a predicted quantile and a target of
``rho_tau(d) = |d| |tau - 1{d < 0}|`` with ``d = target - prediction``. Its gradient with respect to
a prediction only asks how many targets lie below and above it: a loop that counts is all it takes.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor

Floats = Any  # float32 arrays, as numba sees them


def levels(count: int) -> Tensor:
    """The cumulative probabilities ``(2i - 1) / 2N`` the quantiles stand for, shape (N,)."""
    return (torch.arange(count, dtype=torch.float32) + 0.5) / count


def quantile_loss(quantiles: Tensor, targets: Tensor) -> Tensor:
    """Mean over pairs and batch of the quantile-regression loss, for each critic apart.

    Args:
        quantiles: Predictions at `levels(N)`, shape (critics, batch, N).
        targets: Equally likely samples of what they should predict, shape (critics, batch, M);
            constants here.

    Returns:
        Loss of each critic, shape (critics,).
    """
    loss: Tensor = _QuantileLoss.apply(quantiles, targets.detach())  # type: ignore[no-untyped-call]
    return loss


class _QuantileLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, quantiles: Tensor, targets: Tensor) -> Tensor:
        on_cpu = quantiles.device.type == "cpu" and quantiles.dtype == torch.float32
        loss, gradient = (_by_counting if on_cpu else _by_sorting)(quantiles, targets)
        pairs = quantiles.shape[1] * quantiles.shape[2] * targets.shape[2]
        ctx.save_for_backward(gradient / pairs)
        return loss.sum(-1) / pairs

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, None]:
        (gradient,) = ctx.saved_tensors
        return upstream[0][:, None, None] * gradient, None


def _by_counting(quantiles: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Loss summed over pairs, (critics, batch), and its gradient, on the CPU."""
    gradient = np.empty(quantiles.shape, np.float32)
    loss = np.empty(quantiles.shape[:2], np.float32)
    taus = levels(quantiles.shape[2]).numpy()
    _count(
        quantiles.detach().contiguous().numpy(), targets.contiguous().numpy(), taus, gradient, loss
    )
    return torch.from_numpy(loss), torch.from_numpy(gradient)


# Reassociation lets the compiler use SIMD; it only reorders the sum that makes the loss.
@numba.njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def _count(
    quantiles: Floats, targets: Floats, taus: Floats, gradient: Floats, loss: Floats
) -> None:
    critics, batch, count = quantiles.shape
    zero, half, one = np.float32(0.0), np.float32(0.5), np.float32(1.0)
    for critic in range(critics):
        for row in range(batch):
            target = targets[critic, row]
            total = zero
            for i in range(count):
                quantile, tau = quantiles[critic, row, i], taus[i]
                below, above, distance, offset = zero, zero, zero, zero
                for j in range(target.shape[0]):
                    d = target[j] - quantile
                    below += np.float32(d < zero)
                    above += np.float32(d > zero)
                    distance += abs(d)
                    offset += d
                gradient[critic, row, i] = below * (one - tau) - above * tau
                total += half * (distance - offset) + tau * offset
            loss[critic, row] = total


def _by_sorting(quantiles: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """The same in tensor operations for other devices and precisions: search the sorted targets."""
    taus = levels(quantiles.shape[2]).to(quantiles)
    ordered = targets.sort(-1).values
    below = torch.searchsorted(ordered, quantiles.detach())
    above = ordered.shape[-1] - torch.searchsorted(ordered, quantiles.detach(), right=True)
    gradient = below * (1.0 - taus) - above * taus
    sums = torch.nn.functional.pad(ordered.cumsum(-1), (1, 0))
    sum_below = sums.gather(-1, below)
    shortfall = below * quantiles - sum_below
    overshoot = sums[..., -1:] - sum_below - (ordered.shape[-1] - below) * quantiles
    return ((1.0 - taus) * shortfall + taus * overshoot).sum(-1), gradient
