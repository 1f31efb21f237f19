"""Gradients of SAC's and TD3's losses without a graph, for networks that have compiled passes.

The equations are those of `ucpo.learners.offpolicy.Graph`, which other networks and devices use:
autograd's bookkeeping of them takes as long as the products of small networks do.

Numba's cache does not see that it is stale when only `stacks` or `seeing` has changed: whoever
edits one of them touches this file.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numba import njit
from torch import Tensor

from ucpo.learners.behaviours import Behaviour
from ucpo.learners.compiled.seeing import Perceptrons, Seeing, shown
from ucpo.learners.compiled.slopes import arrays
from ucpo.learners.compiled.stacks import and_back, back_to_inputs, says, there
from ucpo.learners.networks import Critics
from ucpo.learners.replay import Batch

Floats = Any  # arrays of float32, as numba sees them


class ByHand:
    """Leaves gradients in the weights, where no others may be.

    Args:
        behaviour: The actor and its ways.
        critics: With one output each.
        target_critics: What follows them.
    """

    def __init__(self, behaviour: Behaviour, critics: Critics, target_critics: Critics) -> None:
        self._hand, self._believed = behaviour.hand(), behaviour.believed
        self._critics, self._target_critics = Seeing(critics.body), Seeing(target_critics.body)
        self._units = critics.units.numpy()

    @staticmethod
    def possible(behaviour: Behaviour, critics: Critics) -> bool:
        """Whether all of the networks have compiled passes."""
        return behaviour.actor.body.by_hand and critics.body.by_hand

    @torch.no_grad()
    def targets(self, batch: Batch, noise: torch.Generator) -> Tensor:
        """What each critic should predict, (2 + C, batch)."""
        ahead = self._hand.foresee(batch, noise)
        found: Any = _targets(  # type: ignore[call-arg]
            self._target_critics.now(),
            self._units,
            *arrays(batch.successor, batch.successor_stock),
            ahead.action,
            ahead.action if ahead.other is None else ahead.other,
            ahead.other is not None,
            ahead.bonus,
            *arrays(batch.reward, batch.costs, batch.discount, batch.cost_discount),
        )
        return torch.from_numpy(found)

    @torch.no_grad()
    def of_critics(self, batch: Batch, targets: Tensor) -> Tensor:
        """Of each critic the mean squared error in its own units, (2 + C,)."""
        losses: Any = _critic_slopes(  # type: ignore[call-arg]
            self._critics.now(),
            self._units,
            *arrays(batch.obs, batch.action, batch.stock, targets),
            self._critics.gradient(),
        )
        return torch.from_numpy(losses)

    @torch.no_grad()
    def of_actor(
        self, batch: Batch, price: Tensor, noise: torch.Generator
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The loss, what the critics say of the proposed actions, (2 + C, batch), and log_prob."""
        proposed = self._hand.propose(batch, noise)
        loss, values, of_action, of_penalty = _judge(  # type: ignore[call-arg]
            self._critics.now(),
            self._units,
            *arrays(batch.obs, batch.stock, price),
            proposed.action,
            proposed.penalty,
            self._believed,
        )
        self._hand.learn(proposed, of_action, of_penalty)
        return torch.tensor(loss), torch.from_numpy(values), torch.from_numpy(proposed.log_prob)


@njit(cache=True, nogil=True, error_model="numpy")
def _targets(
    critics: Perceptrons,
    units: Floats,
    obs: Floats,
    stock: Floats,
    action: Floats,
    other: Floats,
    apart: bool,
    bonus: Floats,
    reward: Floats,
    costs: Floats,
    discount: Floats,
    cost_discount: Floats,
) -> Floats:
    """The window's part and the discounted future's, (2 + C, batch)."""
    future = np.empty((len(critics.flat), len(obs)), np.float32)
    seen = shown(critics.eyes, obs, action, stock)
    of_rewards = 2 if apart else len(critics.flat)
    future[:of_rewards] = says(critics.flat[:of_rewards], critics.shape, seen)[:, :, 0]
    if apart:
        seen = shown(critics.eyes, obs, other, stock)
        future[2:] = says(critics.flat[2:], critics.shape, seen)[:, :, 0]
    for c in range(len(future)):
        future[c] *= units[c]
    found = np.empty_like(future)
    _bellman(reward, costs, discount, cost_discount, future, bonus, found)
    return found


@njit(cache=True, nogil=True, error_model="numpy")
def _critic_slopes(
    critics: Perceptrons,
    units: Floats,
    obs: Floats,
    action: Floats,
    stock: Floats,
    targets: Floats,
    gradient: Floats,
) -> Floats:
    """Losses, (2 + C,), and the gradient of their sum."""
    inputs = shown(critics.eyes, obs, action, stock)
    said, hidden = there(critics.flat, critics.shape, inputs)
    slope, losses = np.empty_like(said), np.empty(len(said), np.float32)
    _squared(said, targets, units, slope, losses)
    and_back(critics.flat, critics.shape, inputs, hidden, slope, gradient)
    return losses


@njit(cache=True, nogil=True, error_model="numpy")
def _judge(
    critics: Perceptrons,
    units: Floats,
    obs: Floats,
    stock: Floats,
    price: Floats,
    action: Floats,
    penalty: Floats,
    believed: int,
) -> tuple[Any, Floats, Floats, Floats]:
    """The loss, what critics say, (2 + C, batch), and its slopes in actions and in penalties."""
    inputs = shown(critics.eyes, obs, action, stock)
    said, inside = there(critics.flat, critics.shape, inputs)
    slope, of_penalty = np.empty_like(said), np.empty_like(penalty)
    loss = _priced(said, units, price, penalty, believed, slope, of_penalty)
    where, many = obs.shape[1], action.shape[1]
    of_action = back_to_inputs(critics.flat, critics.shape, inputs, inside, slope, where, many)
    values = np.empty((len(said), len(obs)), np.float32)
    for c in range(len(said)):
        values[c] = said[c, :, 0] * units[c]
    return loss, values, of_action, of_penalty


@njit(cache=True, nogil=True)
def _bellman(
    reward: Floats,
    costs: Floats,
    discount: Floats,
    cost_discount: Floats,
    future: Floats,
    bonus: Floats,
    found: Floats,
) -> None:
    """The window's part and the discounted future's, the smaller one of two rewards."""
    critics, batch = future.shape
    for i in range(batch):
        # What is not a number shows.
        lowest = future[0, i] if not future[0, i] > future[1, i] else future[1, i]
        lowest = future[1, i] if np.isnan(future[1, i]) else lowest
        found[0, i] = found[1, i] = reward[i] + discount[i] * (lowest + bonus[i])
        for c in range(critics - 2):
            found[2 + c, i] = costs[i, c] + cost_discount[i] * future[2 + c, i]


@njit(cache=True, nogil=True, error_model="numpy")
def _squared(said: Floats, targets: Floats, units: Floats, slope: Floats, losses: Floats) -> None:
    """Squared errors in units, and their slopes in what the critics' last layers said."""
    critics, batch, _ = said.shape
    share = np.float32(2.0) / np.float32(batch)
    for c in range(critics):
        total = 0.0
        for i in range(batch):
            error = said[c, i, 0] - targets[c, i] / units[c]
            slope[c, i, 0] = share * error
            total += error * error
        losses[c] = total / batch


@njit(cache=True, nogil=True, error_model="numpy")
def _priced(
    said: Floats,
    units: Floats,
    price: Floats,
    penalty: Floats,
    believed: int,
    slope: Floats,
    of_penalty: Floats,
) -> Any:
    """Reward against priced costs, and the slopes in what critics said and in penalties."""
    critics, batch, _ = said.shape
    one, loss = np.float32(1.0), 0.0
    for i in range(batch):
        prices = one
        for c in range(critics - 2):
            prices += price[i, c]
        scale = one / (prices * np.float32(batch))
        lowest = 0
        for k in range(1, believed):
            if said[k, i, 0] * units[k] < said[lowest, i, 0] * units[lowest]:
                lowest = k
        slope[0, i, 0] = slope[1, i, 0] = np.float32(0.0)
        slope[lowest, i, 0] = -scale * units[lowest]
        weighed = penalty[i] - said[lowest, i, 0] * units[lowest]
        for c in range(critics - 2):
            slope[2 + c, i, 0] = scale * price[i, c] * units[2 + c]
            weighed += price[i, c] * said[2 + c, i, 0] * units[2 + c]
        of_penalty[i] = scale
        loss += scale * weighed
    return loss
