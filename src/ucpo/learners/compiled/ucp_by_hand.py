"""Gradients of UCP's losses without a graph, one compiled call each, for ordinary networks.

The equations are those of `ucpo.learners.ucp.Graph`, which other networks, utilities and devices
use: autograd's bookkeeping of them takes longer than the products of small networks do.

Numba's cache does not see that it is stale when only `stacks`, `seeing`, `counting`, `priced` or
`slopes` has changed: whoever edits one of them touches this file.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numba import njit
from torch import Tensor

from ucpo.learners.compiled.counting import FEW, compare, levels
from ucpo.learners.compiled.priced import lesser, priced
from ucpo.learners.compiled.seeing import (
    HALF,
    LOW,
    Perceptrons,
    Seeing,
    in_units,
    normal,
    shown,
)
from ucpo.learners.compiled.slopes import arrays, squash_rows, squash_slopes_of_rows
from ucpo.learners.compiled.stacks import and_back, back_to_inputs, says, there
from ucpo.learners.entropy import Entropy
from ucpo.learners.networks import Actor, Critics
from ucpo.learners.replay import Batch
from ucpo.problem import EXCESS, MEAN, Problem

Floats = Any  # arrays of float32, as numba sees them


class Judged(NamedTuple):
    """What the actor's gradient is of."""

    loss: Tensor  # ()
    log_prob: Tensor  # (batch,) of the actions
    predicted_return: Tensor  # () mean of what the reward critics say of them
    predicted_cost: Tensor  # () of what the others say


class Window(NamedTuple):
    """What a target is made of, beside what networks say."""

    obs: Floats  # (batch, obs) at its end
    stock: Floats  # (batch, C) at its end
    reward: Floats  # (batch,)
    costs: Floats  # (batch, C)
    discount: Floats  # (batch,)
    cost_discount: Floats  # (batch,)


class ByHand:
    """Leaves gradients in the weights, where no others may be.

    Args:
        actor: The policy.
        critics: Of quantiles.
        target_actor: What follows the actor.
        target_critics: What follows the critics.
        problem: The constraints, one per cost.
        entropy: The weight of the policy's entropy.
        expect_mean: Whether targets count on the mean action, not on a sampled one.
    """

    def __init__(
        self,
        actor: Actor,
        critics: Critics,
        target_actor: Actor,
        target_critics: Critics,
        *,
        problem: Problem,
        entropy: Entropy,
        expect_mean: bool,
    ) -> None:
        self._actor, self._critics = Seeing(actor.body), Seeing(critics.body)
        self._target_actor = Seeing(target_actor.body)
        self._target_critics = Seeing(target_critics.body)
        self._entropy, self._expect_mean = entropy, expect_mean
        self._linear = np.array([limit.utility is MEAN for limit in problem.constraints])
        self._units: Any = critics.units.numpy()
        self._taus: Any = levels(critics.body.layers.sizes[-1]).numpy()

    @staticmethod
    def possible(actor: Actor, critics: Critics, problem: Problem) -> bool:
        """Whether there are compiled passes for the networks, and slopes for the utilities."""
        straight = actor.body.by_hand and critics.body.by_hand
        few = critics.body.layers.sizes[-1] <= FEW
        return straight and few and all(c.utility in (MEAN, EXCESS) for c in problem.constraints)

    @torch.no_grad()
    def targets(self, batch: Batch, noise: torch.Generator) -> Tensor:
        """What each critic should predict, (2 + C, batch, N)."""
        window = Window(
            *arrays(batch.successor, batch.successor_stock, batch.reward, batch.costs),
            *arrays(batch.discount, batch.cost_discount),
        )
        found: Any = _targets(
            self._target_actor.now(),
            self._target_critics.now(),
            self._units,
            window,
            normal(batch.action, noise),
            self._expect_mean,
            np.float32(self._entropy.weight),
        )
        return torch.from_numpy(found)

    @torch.no_grad()
    def of_critics(self, batch: Batch, targets: Tensor) -> Tensor:
        """Of each critic the loss, (2 + C,)."""
        losses: Any = _critic_slopes(  # type: ignore[call-arg]
            self._critics.now(),
            self._units,
            *arrays(batch.obs, batch.action, batch.stock, targets),
            self._taus,
            self._critics.gradient(),
        )
        return torch.from_numpy(losses)

    @torch.no_grad()
    def of_actor(
        self, batch: Batch, price: Tensor, regulariser: float, noise: torch.Generator
    ) -> Judged:
        """The loss, and what else is to be said of the actions it is of."""
        said, log_prob = _actor_slopes(  # type: ignore[call-arg]
            self._actor.now(),
            self._critics.now(),
            self._units,
            *arrays(batch.obs, batch.stock, price),
            normal(batch.action, noise),
            self._linear,
            np.float32(self._entropy.weight),
            np.float32(regulariser),
            self._actor.gradient(),
        )
        loss, reward, cost = torch.from_numpy(said)
        return Judged(loss, torch.from_numpy(log_prob), reward, cost)


@njit(cache=True, nogil=True, error_model="numpy")
def _targets(
    actor: Perceptrons,
    critics: Perceptrons,
    units: Floats,
    window: Window,
    noise: Floats,
    expect_mean: bool,
    weight: Any,
) -> Floats:
    """Lines 14 to 16 and 21 of Algorithm 1."""
    batch, actions = noise.shape
    sample = np.empty((5, batch, actions), np.float32)
    log_prob = np.empty(batch, np.float32)
    seen = shown(actor.eyes, window.obs, noise[:, :0], window.stock)
    said = says(actor.flat, actor.shape, seen)
    squash_rows(said[0], noise, LOW, HALF, sample, log_prob)
    action = np.tanh(sample[3]) if expect_mean else sample[2]
    judged = shown(critics.eyes, window.obs, action, window.stock)
    future = says(critics.flat, critics.shape, judged)
    in_units(future, units)
    count = future.shape[2]
    for i in range(batch):
        chosen, _ = lesser(future, i)
        bonus = -weight * log_prob[i]
        for k in range(count):
            reward = window.reward[i] + window.discount[i] * (future[chosen, i, k] + bonus)
            future[0, i, k] = future[1, i, k] = reward
        for c in range(2, len(future)):
            for k in range(count):
                later = window.cost_discount[i] * future[c, i, k]
                future[c, i, k] = window.costs[i, c - 2] + later
    return future


@njit(cache=True, nogil=True, error_model="numpy")
def _critic_slopes(
    critics: Perceptrons,
    units: Floats,
    obs: Floats,
    action: Floats,
    stock: Floats,
    targets: Floats,
    taus: Floats,
    gradient: Floats,
) -> Floats:
    """Lines 18 and 22, and the gradient of their sum."""
    inputs = shown(critics.eyes, obs, action, stock)
    quantiles, hidden = there(critics.flat, critics.shape, inputs)
    in_units(quantiles, units)
    members, batch, count = quantiles.shape
    slope, apart = np.empty_like(quantiles), np.empty((members, batch), np.float32)
    compare(quantiles, targets, taus, slope, apart)
    pairs = np.float32(batch * count * targets.shape[2])
    in_units(slope, units / pairs)
    and_back(critics.flat, critics.shape, inputs, hidden, slope, gradient)
    losses = np.empty(members, np.float32)
    for c in range(members):
        losses[c] = apart[c].sum() / pairs
    return losses


@njit(cache=True, nogil=True, error_model="numpy")
def _actor_slopes(
    actor: Perceptrons,
    critics: Perceptrons,
    units: Floats,
    obs: Floats,
    stock: Floats,
    price: Floats,
    noise: Floats,
    linear: Any,
    weight: Any,
    regulariser: Any,
    gradient: Floats,
) -> tuple[Floats, Floats]:
    """Lines 24 to 28: the loss with what critics predict, (3,), and log-probabilities, (batch,)."""
    batch, actions = noise.shape
    seen = shown(actor.eyes, obs, noise[:, :0], stock)
    said, hidden = there(actor.flat, actor.shape, seen)
    sample, log_prob = np.empty((5, batch, actions), np.float32), np.empty(batch, np.float32)
    squash_rows(said[0], noise, LOW, HALF, sample, log_prob)
    bend, shift, action, mean, log_std = sample

    inputs = shown(critics.eyes, obs, action, stock)
    quantiles, inside = there(critics.flat, critics.shape, inputs)
    in_units(quantiles, units)
    slope, of_log_prob = np.empty_like(quantiles), np.empty_like(log_prob)
    of_mean, of_log_std = np.empty_like(mean), np.empty_like(mean)
    found = np.empty(3, np.float32)
    found[0] = priced(
        quantiles,
        log_prob,
        mean,
        log_std,
        stock,
        price,
        linear,
        (weight, regulariser),
        slope,
        of_log_prob,
        of_mean,
        of_log_std,
    )
    found[1], found[2] = quantiles[:2].mean(), quantiles[2:].mean()
    in_units(slope, units)
    where = obs.shape[1]
    of_action = back_to_inputs(critics.flat, critics.shape, inputs, inside, slope, where, actions)
    of_said = np.empty((1, batch, 2 * actions), np.float32)
    squash_slopes_of_rows(
        bend, shift, action, of_action, of_log_prob, of_mean, of_log_std, HALF, of_said[0]
    )
    and_back(actor.flat, actor.shape, seen, hidden, of_said, gradient)
    return found, log_prob
