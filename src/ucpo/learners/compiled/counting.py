"""The quantile loss by counting: how many targets lie below and above each quantile.

`ucpo.learners.quantiles` says what it is. Up to a hundred quantiles nothing is faster than to
compare all pairs, a register of quantiles with one target at a time; beyond, targets are sorted and
each quantile is looked up among them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numba import njit, types
from numba.extending import intrinsic
from torch import Tensor

from ucpo.learners.compiled.registers import WIDTH, Writer
from ucpo.learners.compiled.tiles import COLUMNS

Floats = Any  # arrays, as numba sees them

FEW = 100
"""Targets up to which all pairs are compared."""


def levels(count: int) -> Tensor:
    """The cumulative probabilities ``(2i - 1) / 2N`` the quantiles stand for, shape (N,)."""
    return (torch.arange(count, dtype=torch.float32) + 0.5) / count


class QuantileLoss(torch.autograd.Function):
    """Of each critic, the mean over pairs and batch; the gradient is counted on the way."""

    @staticmethod
    def forward(ctx: Any, quantiles: Tensor, targets: Tensor) -> Tensor:
        """Loss of each critic, (critics,)."""
        on_cpu = quantiles.device.type == "cpu" and quantiles.dtype == torch.float32
        loss, gradient = (compiled if on_cpu else in_tensors)(quantiles, targets)
        ctx.save_for_backward(gradient)
        ctx.pairs = pairs = quantiles.shape[1] * quantiles.shape[2] * targets.shape[2]
        return loss.sum(-1) / pairs

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, None]:
        """Gradient with respect to the predictions; targets are constants."""
        (gradient,) = ctx.saved_tensors
        return (upstream[0] / ctx.pairs)[:, None, None] * gradient, None


def compiled(quantiles: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Loss summed over pairs, (critics, batch), and its gradient, on the CPU."""
    gradient = np.empty(quantiles.shape, np.float32)
    loss = np.empty(quantiles.shape[:2], np.float32)
    given: Any = quantiles.detach().contiguous().numpy()
    taus: Any = levels(quantiles.shape[2]).numpy()
    others: Any = targets.contiguous().numpy()
    if targets.shape[2] <= FEW:
        compare(given, others, taus, gradient, loss)
    else:
        # NumPy's sort uses SIMD; one in the loop below would cost several times as much.
        _search(given, np.sort(others, axis=-1), taus, gradient, loss)
    return torch.from_numpy(loss), torch.from_numpy(gradient)


@intrinsic
def _count(
    typing: Any, quantiles: Any, targets: Any, many: Any, below: Any, above: Any, short: Any
) -> Any:
    """For each of COLUMNS quantiles: targets below and above it, and what those below fall short.

    All arguments but `many`, the number of targets, are addresses.
    """
    return types.void(*[types.intp] * 6), _write_count


def _write_count(context: Any, build: Any, _signature: Any, arguments: Any) -> Any:
    quantiles, targets, many, *results = arguments
    write, halves = Writer(build), range(COLUMNS // WIDTH)
    zero, one = write.constant(0.0), write.constant(1.0)
    mine = [write.load(quantiles, j) for j in halves]

    def turn(at: Any, *sums: Any) -> list[Any]:
        target = write.everywhere(write.load_one(at))
        added: list[Any] = []
        for j in halves:
            is_below = build.fcmp_ordered("<", target, mine[j])
            is_above = build.fcmp_ordered(">", target, mine[j])
            gap = build.fsub(mine[j], target)
            for case, more in ((is_below, one), (is_above, one), (is_below, gap)):
                total = sums[len(added)]
                added.append(build.select(case, build.fadd(total, more), total))
        return [build.add(at, write.integer(4)), *added]

    nothing = [zero] * (len(halves) * len(results))
    _, *sums = write.loop(many, [targets, *nothing], turn)
    for place, total in enumerate(sums):
        register, result = divmod(place, len(results))
        write.store(total, results[result], register)
    return context.get_dummy_value()


@njit(cache=True, nogil=True)
def compare(
    quantiles: Floats, targets: Floats, taus: Floats, gradient: Floats, loss: Floats
) -> None:
    """Loss summed over pairs, (critics, batch), and its gradient, for up to FEW targets."""
    critics, batch, count = quantiles.shape
    many, one = targets.shape[2], np.float32(1.0)
    blocks = (count + COLUMNS - 1) // COLUMNS
    mine, below, above, short = np.zeros((4, blocks * COLUMNS), np.float32)
    for critic in range(critics):
        for sample in range(batch):
            total = 0.0
            for j in range(many):
                total += np.float64(targets[critic, sample, j])
            for i in range(count):
                mine[i] = quantiles[critic, sample, i]
            for block in range(blocks):
                further = 4 * COLUMNS * block
                _count(  # type: ignore[call-arg]
                    mine.ctypes.data + further,
                    targets.ctypes.data + 4 * many * (critic * batch + sample),
                    many,
                    below.ctypes.data + further,
                    above.ctypes.data + further,
                    short.ctypes.data + further,
                )
            added = 0.0
            for i in range(count):
                gradient[critic, sample, i] = below[i] * (one - taus[i]) - above[i] * taus[i]
                # Those above exceed by what all do, less what those below fall short.
                added += short[i] + taus[i] * (total - many * np.float64(mine[i]))
            loss[critic, sample] = added


@njit(cache=True, nogil=True)
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


def in_tensors(quantiles: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
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
