"""The squashed Gaussian with its slopes written down, in one compiled pass each on a CPU.

What it computes is said in tensor operations beside it, which other devices use; autograd's
bookkeeping of a few dozen of those takes longer than the numbers do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numba import njit
from torch import Tensor

Floats = Any  # arrays, as numba sees them


def arrays(*tensors: Tensor) -> Any:
    """Their numbers, one after the other in memory."""
    return [tensor.detach().contiguous().numpy() for tensor in tensors]


def _compiles(tensor: Tensor) -> bool:
    return tensor.device.type == "cpu" and tensor.dtype == torch.float32


class SquashedGaussian(torch.autograd.Function):
    """A tanh-squashed Gaussian's action, log-probability, mean before tanh and log-deviation."""

    @staticmethod
    def forward(
        ctx: Any, said: Tensor, noise: Tensor, low: float, high: float
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """From what an actor said, (batch, 2 * action), and normal noise, (batch, action).

        Logarithms of deviations lie between `low` and `high`.
        """
        bend, shift, *answer = (squash if _compiles(said) else squash_in_tensors)(
            said, noise, low, high
        )
        ctx.save_for_backward(bend, shift, answer[0])
        ctx.half = 0.5 * (high - low)
        return answer[0], answer[1], answer[2], answer[3]

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        """Gradient of what the actor said."""
        bend, shift, action = ctx.saved_tensors
        if _compiles(action):
            kept = (bend, shift, action, *upstream)
            return squash_slopes(kept, ctx.half), None, None, None
        of_action, of_log_prob, of_mean, of_log_std = upstream
        along = of_log_prob[:, None]
        slope = of_action * (1.0 - action.square()) + 2.0 * along * action  # before tanh
        spread = slope * shift - along + of_log_std
        both = [slope + of_mean, ctx.half * spread * (1.0 - bend.square())]
        return torch.cat(both, dim=-1), None, None, None


def squash_in_tensors(said: Tensor, noise: Tensor, low: float, high: float) -> tuple[Tensor, ...]:
    """tanh of the raw log-deviation, deviation times noise, and what is sampled."""
    mean, raw = said.chunk(2, dim=-1)
    bend = torch.tanh(raw)
    log_std = low + 0.5 * (high - low) * (bend + 1.0)
    shift = log_std.exp() * noise
    before_tanh = mean + shift
    gaussian = -0.5 * noise.square() - log_std - 0.5 * math.log(2.0 * math.pi)
    # log(1 - tanh(x)^2), in a form that does not underflow for large x
    squashed = 2.0 * (math.log(2.0) - before_tanh - torch.nn.functional.softplus(-2 * before_tanh))
    log_prob = (gaussian - squashed).sum(-1)
    return bend, shift, torch.tanh(before_tanh), log_prob, mean.clone(), log_std


def squash(said: Tensor, noise: Tensor, low: float, high: float) -> tuple[Tensor, ...]:
    """The same, compiled."""
    batch, actions = noise.shape
    found = np.empty((5, batch, actions), np.float32)
    log_prob = np.empty(batch, np.float32)
    bounds = np.float32(low), np.float32(0.5 * (high - low))
    squash_rows(*arrays(said, noise), *bounds, found, log_prob)  # type: ignore[call-arg]
    bend, shift, action, mean, log_std = torch.from_numpy(found)
    return bend, shift, action, torch.from_numpy(log_prob), mean, log_std


@njit(cache=True, nogil=True, error_model="numpy")
def squash_rows(
    said: Floats, noise: Floats, low: float, half: float, found: Floats, log_prob: Floats
) -> None:
    """What `squash_in_tensors` finds: `found`, (5, batch, action), is all but `log_prob`."""
    batch, actions = noise.shape
    bend, shift, action, mean, log_std = found
    constant = np.float32(0.5 * math.log(2.0 * math.pi) + 2.0 * math.log(2.0))
    zero, share, one, two = np.float32(0.0), np.float32(0.5), np.float32(1.0), np.float32(2.0)
    for i in range(batch):
        total = zero
        for a in range(actions):
            bend[i, a] = math.tanh(said[i, actions + a])
            log_std[i, a] = low + half * (bend[i, a] + one)
            shift[i, a] = math.exp(log_std[i, a]) * noise[i, a]
            mean[i, a] = said[i, a]
            x = mean[i, a] + shift[i, a]
            action[i, a] = math.tanh(x)
            soft = math.log1p(math.exp(-two * abs(x))) + max(-two * x, zero)
            near = two * (x + soft) - share * noise[i, a] * noise[i, a]
            total += near - log_std[i, a] - constant
        log_prob[i] = total


def squash_slopes(kept: Sequence[Tensor], half: float) -> Tensor:
    """Gradient of what the actor said, (batch, 2 * action).

    Args:
        kept: The first three of what `squash` found, and slopes of a loss in the other four.
        half: Of the range of log-deviations.
    """
    batch, actions = kept[0].shape
    found = np.empty((batch, 2 * actions), np.float32)
    squash_slopes_of_rows(*arrays(*kept), np.float32(half), found)  # type: ignore[call-arg]
    return torch.from_numpy(found)


@njit(cache=True, nogil=True)
def squash_slopes_of_rows(
    bend: Floats,
    shift: Floats,
    action: Floats,
    of_action: Floats,
    of_log_prob: Floats,
    of_mean: Floats,
    of_log_std: Floats,
    half: Any,
    found: Floats,
) -> None:
    """What `squash_slopes` finds."""
    batch, actions = action.shape
    one, two = np.float32(1.0), np.float32(2.0)
    for i in range(batch):
        for a in range(actions):
            said, along = action[i, a], of_log_prob[i]
            slope = of_action[i, a] * (one - said * said) + two * along * said
            spread = slope * shift[i, a] - along + of_log_std[i, a]
            found[i, a] = slope + of_mean[i, a]
            found[i, actions + a] = half * spread * (one - bend[i, a] * bend[i, a])
