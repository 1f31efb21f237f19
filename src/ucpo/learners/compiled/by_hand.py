"""Gradients of SAC's and TD3's losses without a graph, for networks that have compiled passes.

The equations are those of `ucpo.learners.offpolicy.Graph`, which other networks and devices use:
autograd's bookkeeping of them takes as long as the products of small networks do.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numba import njit
from torch import Tensor

from ucpo.learners.behaviours import Behaviour
from ucpo.learners.compiled.kernels import ahead, back, joined
from ucpo.learners.networks import Critics
from ucpo.learners.replay import Batch

Floats = Any  # arrays of float32, as numba sees them


class ByHand:
    """Leaves gradients in the weights, where no others may be.

    Args:
        behaviour: The actor and its ways.
        critics: With one output each.
    """

    def __init__(self, behaviour: Behaviour, critics: Critics) -> None:
        self._behaviour, self._critics = behaviour, critics
        self._units = critics.units.numpy()

    @staticmethod
    def possible(behaviour: Behaviour, critics: Critics) -> bool:
        """Whether all of the networks have compiled passes."""
        return behaviour.actor.body.by_hand and critics.body.by_hand

    def targets(self, batch: Batch, future: Tensor, bonus: Tensor) -> Tensor:
        """What each critic should predict, (2 + C, batch)."""
        found = np.empty(future.shape, np.float32)
        gained: Any = [part.numpy() for part in (batch.reward, batch.costs)]
        discounts: Any = [part.numpy() for part in (batch.discount, batch.cost_discount)]
        _bellman(*gained, *discounts, future.numpy(), bonus.numpy(), found)  # type: ignore[call-arg]
        return torch.from_numpy(found)

    @torch.no_grad()
    def of_critics(self, batch: Batch, targets: Tensor) -> Tensor:
        """Of each critic the mean squared error in its own units, (2 + C,)."""
        body = self._critics.body
        inputs = joined([batch.obs, batch.action, body.scaled(batch.stock)], body.members)
        said, seen = ahead(body.layers, inputs)
        slope, losses = np.empty(said.shape, np.float32), np.empty(len(said), np.float32)
        _squared(said.numpy(), targets.numpy(), self._units, slope, losses)
        back(body.layers, inputs, seen, torch.from_numpy(slope), body.layers.gradient())
        return torch.from_numpy(losses)

    @torch.no_grad()
    def of_actor(
        self, batch: Batch, price: Tensor, noise: torch.Generator
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The loss, what the critics say of the proposed actions, (2 + C, batch), and log_prob."""
        actor, critics = self._behaviour.actor.body, self._critics.body
        seen_by_actor = joined([batch.obs, actor.scaled(batch.stock)], 1)
        said_by_actor, hidden_of_actor = ahead(actor.layers, seen_by_actor)
        draft = self._behaviour.draft(said_by_actor[0], noise)

        inputs = joined([batch.obs, draft.action, critics.scaled(batch.stock)], critics.members)
        said, seen = ahead(critics.layers, inputs)
        slope, of_penalty = np.empty(said.shape, np.float32), np.empty(len(price), np.float32)
        given: Any = (said.numpy(), self._units, price.numpy(), draft.penalty.numpy())
        loss: Any = _priced(*given, self._behaviour.believed, slope, of_penalty)  # type: ignore[call-arg]

        first = batch.obs.shape[1]
        asked = slice(first, first + draft.action.shape[1])
        of_action = back(critics.layers, inputs, seen, torch.from_numpy(slope), None, asked).sum(0)
        of_output = draft.back(of_action, torch.from_numpy(of_penalty))
        of_weights = actor.layers.gradient()
        back(actor.layers, seen_by_actor, hidden_of_actor, of_output[None], of_weights)
        return torch.tensor(loss), said[:, :, 0] * self._critics.units[:, None], draft.log_prob


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
