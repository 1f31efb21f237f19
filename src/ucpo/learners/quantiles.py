"""Quantile regression between two sets of quantiles, exact, without the N x N pairs in memory.

The loss is the mean over all pairs of a predicted quantile and a target of
``rho_tau(d) = |d| |tau - 1{d < 0}|`` with ``d = target - prediction``. Its gradient with respect to
a prediction only asks how many targets lie below and above it, and the loss what they add up to:
sort the targets once, then look every prediction up among them. N log N instead of N x N.
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
        loss, gradient = (_compiled if on_cpu else _in_tensors)(quantiles, targets)
        pairs = quantiles.shape[1] * quantiles.shape[2] * targets.shape[2]
        ctx.save_for_backward(gradient)
        ctx.pairs = pairs
        return loss.sum(-1) / pairs

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, None]:
        (gradient,) = ctx.saved_tensors
        return (upstream[0] / ctx.pairs)[:, None, None] * gradient, None


def _compiled(quantiles: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Loss summed over pairs, (critics, batch), and its gradient, on the CPU."""
    gradient = np.empty(quantiles.shape, np.float32)
    loss = np.empty(quantiles.shape[:2], np.float32)
    taus = levels(quantiles.shape[2]).numpy()
    # NumPy's sort uses SIMD; a comparison sort in the loop below would cost several times as much.
    ordered = np.sort(targets.numpy(), axis=-1)
    _search(quantiles.detach().contiguous().numpy(), ordered, taus, gradient, loss)
    return torch.from_numpy(loss), torch.from_numpy(gradient)


@numba.njit(cache=True, nogil=True)
def _search(
    quantiles: Floats, ordered: Floats, taus: Floats, gradient: Floats, loss: Floats
) -> None:
    critics, batch, count = quantiles.shape
    samples = ordered.shape[2]
    stride = 1  # the largest power of two within `samples`
    while 2 * stride <= samples:
        stride *= 2
    row = np.full(2 * stride, np.inf, np.float32)  # the targets, then infinities
    sums = np.zeros(samples + 1, np.float64)  # sums[k]: of the k smallest targets
    below = np.empty(count, np.int32)
    one = np.float32(1.0)
    for critic in range(critics):
        for sample in range(batch):
            for j in range(samples):
                row[j] = ordered[critic, sample, j]
                sums[j + 1] = sums[j] + row[j]
            # Binary searches side by side: no branch depends on the data, so none is mispredicted.
            below[:] = 0
            step = stride
            while step:
                for i in range(count):
                    start = below[i]
                    further = row[start + step - 1] < quantiles[critic, sample, i]
                    below[i] = start + step if further else start
                step //= 2
            total = 0.0
            for i in range(count):
                quantile, tau, k = quantiles[critic, sample, i], taus[i], below[i]
                up_to = k
                while up_to < samples and row[up_to] == quantile:
                    up_to += 1
                above = np.float32(samples - up_to)
                gradient[critic, sample, i] = np.float32(k) * (one - tau) - above * tau
                rest = sums[samples] - sums[k] - (samples - k) * np.float64(quantile)
                total += (one - tau) * (k * np.float64(quantile) - sums[k]) + tau * rest
            loss[critic, sample] = total


def _in_tensors(quantiles: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """The same in tensor operations, for other devices and precisions."""
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
