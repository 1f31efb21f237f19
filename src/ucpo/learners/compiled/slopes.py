"""Equations of UCP's update with their slopes written down, in one compiled pass each on a CPU.

What they compute is said in tensor operations beside each, which other devices use; autograd's
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

from ucpo.problem import EXCESS, MEAN, Problem

Floats = Any  # arrays, as numba sees them


def _arrays(*tensors: Tensor) -> Any:
    return [tensor.detach().contiguous().numpy() for tensor in tensors]


def _compiles(tensor: Tensor) -> bool:
    return tensor.device.type == "cpu" and tensor.dtype == torch.float32


# --- The squashed Gaussian ---


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
    _squash(*_arrays(said, noise), *bounds, found, log_prob)  # type: ignore[call-arg]
    bend, shift, action, mean, log_std = torch.from_numpy(found)
    return bend, shift, action, torch.from_numpy(log_prob), mean, log_std


@njit(cache=True, nogil=True, error_model="numpy")
def _squash(
    said: Floats, noise: Floats, low: float, half: float, found: Floats, log_prob: Floats
) -> None:
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
    _squash_slopes(*_arrays(*kept), np.float32(half), found)  # type: ignore[call-arg]
    return torch.from_numpy(found)


@njit(cache=True, nogil=True)
def _squash_slopes(
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
    batch, actions = action.shape
    one, two = np.float32(1.0), np.float32(2.0)
    for i in range(batch):
        for a in range(actions):
            said, along = action[i, a], of_log_prob[i]
            slope = of_action[i, a] * (one - said * said) + two * along * said
            spread = slope * shift[i, a] - along + of_log_std[i, a]
            found[i, a] = slope + of_mean[i, a]
            found[i, actions + a] = half * spread * (one - bend[i, a] * bend[i, a])


# --- The actor's loss ---


def linear_costs(problem: Problem, device: torch.device) -> Tensor | None:
    """For each cost whether its utility is the cost itself, if not its excess, (C,).

    None where there are other utilities, or no compiled loss.
    """
    utilities = [constraint.utility for constraint in problem.constraints]
    if device.type != "cpu" or any(utility not in (MEAN, EXCESS) for utility in utilities):
        return None
    return torch.tensor([utility is MEAN for utility in utilities])


class PricedLoss(torch.autograd.Function):
    """`ucpo.learners.ucp.actor_loss` of linear utilities and excesses, with its penalties."""

    @staticmethod
    def forward(
        ctx: Any,
        quantiles: Tensor,
        log_prob: Tensor,
        mean: Tensor,
        log_std: Tensor,
        stock: Tensor,
        price: Tensor,
        linear: Tensor,
        weight: Tensor,
        regulariser: float,
    ) -> Tensor:
        """The loss.

        Args:
            ctx: Of autograd.
            quantiles: Of the critics, (2 + C, batch, N).
            log_prob: Of the policy's sample, (batch,), like what follows.
            mean: (batch, action).
            log_std: (batch, action).
            stock: (batch, C).
            price: (batch, C).
            linear: Whether each cost counts as it is, (C,), or only what is beyond its budget.
            weight: Of the entropy.
            regulariser: Weight of the policy's squared size.
        """
        slopes = [torch.empty_like(part) for part in (quantiles, log_prob, mean, log_std)]
        given = _arrays(quantiles, log_prob, mean, log_std, stock, price, linear)
        weights = np.array([float(weight), regulariser], np.float32)
        loss: float = _priced(*given, weights, *_arrays(*slopes))  # type: ignore[call-arg]
        ctx.save_for_backward(*slopes)
        return torch.tensor(loss)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of the first four."""
        found = ctx.saved_tensors
        factor = float(upstream[0])
        if factor != 1.0:
            found = [slope * factor for slope in found]
        return *found, None, None, None, None, None


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def _priced(
    quantiles: Floats,
    log_prob: Floats,
    mean: Floats,
    log_std: Floats,
    stock: Floats,
    price: Floats,
    linear: Any,
    weights: Floats,
    of_quantiles: Floats,
    of_log_prob: Floats,
    of_mean: Floats,
    of_log_std: Floats,
) -> Any:
    critics, batch, count = quantiles.shape
    weight, regulariser = weights
    zero, one, two = np.float32(0.0), np.float32(1.0), np.float32(2.0)
    share, loss = one / np.float32(count), 0.0
    for i in range(batch):
        prices = one
        for c in range(critics - 2):
            prices += price[i, c]
        scale = one / (prices * np.float32(batch))
        first = second = zero
        for k in range(count):
            first += quantiles[0, i, k]
        for k in range(count):
            second += quantiles[1, i, k]
        chosen = 0 if first <= second else 1
        expected = -(first if chosen == 0 else second) * share
        for k in range(count):
            of_quantiles[chosen, i, k] = -scale * share
        for k in range(count):
            of_quantiles[1 - chosen, i, k] = zero
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
        size = zero
        for a in range(mean.shape[1]):
            size += mean[i, a] * mean[i, a] + log_std[i, a] * log_std[i, a]
            of_mean[i, a] = two * regulariser * mean[i, a] * scale
            of_log_std[i, a] = two * regulariser * log_std[i, a] * scale
        of_log_prob[i] = weight * scale
        loss += scale * (expected + weight * log_prob[i] + regulariser * size)
    return loss
