"""What SAC's and TD3's actors foresee and propose without a graph, in a compiled call or two.

The equations are those of `ucpo.learners.behaviours`, whose actors use these where their networks
have compiled passes.

Numba's cache does not see that it is stale when only `stacks`, `seeing` or `slopes` has changed:
whoever edits one of them touches this file.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numba import njit

from ucpo.learners.compiled.seeing import HALF, LOW, Perceptrons, Seeing, normal, shown
from ucpo.learners.compiled.slopes import arrays, squash_rows, squash_slopes_of_rows
from ucpo.learners.compiled.stacks import and_back, says, there
from ucpo.learners.entropy import Entropy
from ucpo.learners.networks import Actor
from ucpo.learners.replay import Batch

Floats = Any  # arrays of float32, as numba sees them


class Ahead(NamedTuple):
    """What will be done at the end of each window, and what that brings beside rewards."""

    action: Floats  # (batch, action)
    other: Floats | None  # (batch, action) what critics of costs judge, if not the same
    bonus: Floats  # (batch,) for the entropy; rewards have it, costs never


class Proposed(NamedTuple):
    """What the actor would do."""

    action: Floats  # (batch, action)
    penalty: Floats  # (batch,) what the actor loses whatever the critics say
    log_prob: Floats  # (batch,)
    kept: tuple[Floats, ...]  # for the way back


class Hand(Protocol):
    """An actor's targets and proposals, and the way back into its weights."""

    def foresee(self, batch: Batch, noise: torch.Generator) -> Ahead:
        """What the targets of the critics count on."""

    def propose(self, batch: Batch, noise: torch.Generator) -> Proposed:
        """What the critics are to judge."""

    def learn(self, proposed: Proposed, of_action: Floats, of_penalty: Floats) -> None:
        """Leave the gradient in the actor's weights.

        Args:
            proposed: What was judged.
            of_action: Slopes of the loss in its actions, (batch, action).
            of_penalty: In its penalties, (batch,).
        """


class StochasticHand:
    """Of `ucpo.learners.behaviours.Stochastic`."""

    def __init__(
        self, actor: Actor, entropy: Entropy, *, regulariser: float, expect_mean: bool
    ) -> None:
        self._actor, self._entropy = Seeing(actor.body), entropy
        self._regulariser, self._expect_mean = np.float32(regulariser), expect_mean

    def foresee(self, batch: Batch, noise: torch.Generator) -> Ahead:
        """Sampled from the actor as it is now."""
        given = arrays(batch.successor, batch.successor_stock)
        sample, log_prob = _sample(self._actor.now(), *given, normal(batch.action, noise))  # type: ignore[call-arg]
        mean = np.tanh(sample[3]) if self._expect_mean else None
        return Ahead(sample[2], mean, -self._weight() * log_prob)

    def propose(self, batch: Batch, noise: torch.Generator) -> Proposed:
        """A sample, and what its certainty and size cost."""
        seen, hidden, sample, log_prob, penalty = _propose_sample(  # type: ignore[call-arg]
            self._actor.now(),
            *arrays(batch.obs, batch.stock),
            normal(batch.action, noise),
            self._weight(),
            self._regulariser,
        )
        return Proposed(sample[2], penalty, log_prob, (seen, hidden, sample))

    def learn(self, proposed: Proposed, of_action: Floats, of_penalty: Floats) -> None:
        """Leave the gradient in the actor's weights."""
        slopes = (of_action, of_penalty, self._weight(), self._regulariser)
        _learn_sample(self._actor.now(), *proposed.kept, *slopes, self._actor.gradient())  # type: ignore[call-arg]

    def _weight(self) -> Any:
        return np.float32(self._entropy.weight)


class DeterministicHand:
    """Of `ucpo.learners.behaviours.Deterministic`."""

    def __init__(
        self,
        actor: Actor,
        target_actor: Actor,
        *,
        smoothing: float,
        smoothing_limit: float,
        regulariser: float,
        expect_mean: bool,
    ) -> None:
        self._actor, self._target_actor = Seeing(actor.body), Seeing(target_actor.body)
        self._smoothing, self._limit = np.float32(smoothing), np.float32(smoothing_limit)
        self._regulariser, self._expect_mean = np.float32(regulariser), expect_mean

    def foresee(self, batch: Batch, noise: torch.Generator) -> Ahead:
        """The target actor's actions, smoothed by clipped noise; no entropy."""
        given = arrays(batch.successor, batch.successor_stock)
        drawn = normal(batch.action, noise)
        wide = drawn.shape[1]
        blur = np.clip(self._smoothing * drawn, -self._limit, self._limit)
        action = np.clip(_aim(self._target_actor.now(), *given, wide) + blur, -1.0, 1.0)  # type: ignore[call-arg]
        mean = _aim(self._actor.now(), *given, wide) if self._expect_mean else None  # type: ignore[call-arg]
        return Ahead(action, mean, np.zeros(len(action), np.float32))

    def propose(self, batch: Batch, noise: torch.Generator) -> Proposed:
        """The one thing it would do."""
        seen, hidden, mean, action, penalty = _propose_aim(  # type: ignore[call-arg]
            self._actor.now(),
            *arrays(batch.obs, batch.stock),
            batch.action.shape[1],
            self._regulariser,
        )
        certain = np.zeros(len(action), np.float32)
        return Proposed(action, penalty, certain, (seen, hidden, mean, action))

    def learn(self, proposed: Proposed, of_action: Floats, of_penalty: Floats) -> None:
        """Leave the gradient in the actor's weights."""
        slopes = (of_action, of_penalty, self._regulariser)
        _learn_aim(self._actor.now(), *proposed.kept, *slopes, self._actor.gradient())  # type: ignore[call-arg]


# --- Samples ---


@njit(cache=True, nogil=True, error_model="numpy")
def _sample(actor: Perceptrons, obs: Floats, stock: Floats, noise: Floats) -> tuple[Floats, Floats]:
    """As `squash_rows` finds them: (5, batch, action), and log-probabilities, (batch,)."""
    batch, actions = noise.shape
    seen = shown(actor.eyes, obs, noise[:, :0], stock)
    said = says(actor.flat, actor.shape, seen)
    sample, log_prob = np.empty((5, batch, actions), np.float32), np.empty(batch, np.float32)
    squash_rows(said[0], noise, LOW, HALF, sample, log_prob)
    return sample, log_prob


@njit(cache=True, nogil=True, error_model="numpy")
def _propose_sample(
    actor: Perceptrons, obs: Floats, stock: Floats, noise: Floats, weight: Any, regulariser: Any
) -> tuple[Floats, ...]:
    """The same with what the way back needs, and what certainty and size cost, (batch,)."""
    batch, actions = noise.shape
    seen = shown(actor.eyes, obs, noise[:, :0], stock)
    said, hidden = there(actor.flat, actor.shape, seen)
    sample, log_prob = np.empty((5, batch, actions), np.float32), np.empty(batch, np.float32)
    squash_rows(said[0], noise, LOW, HALF, sample, log_prob)
    penalty = np.empty(batch, np.float32)
    for i in range(batch):
        size = np.float32(0.0)
        for a in range(actions):
            size += sample[3, i, a] ** 2 + sample[4, i, a] ** 2
        penalty[i] = weight * log_prob[i] + regulariser * size
    return seen, hidden, sample, log_prob, penalty


@njit(cache=True, nogil=True, error_model="numpy")
def _learn_sample(
    actor: Perceptrons,
    seen: Floats,
    hidden: Floats,
    sample: Floats,
    of_action: Floats,
    of_penalty: Floats,
    weight: Any,
    regulariser: Any,
    gradient: Floats,
) -> None:
    bend, shift, action, mean, log_std = sample
    batch, actions = action.shape
    of_mean, of_log_std = np.empty_like(of_action), np.empty_like(of_action)
    for i in range(batch):
        along = np.float32(2.0) * regulariser * of_penalty[i]
        for a in range(actions):
            of_mean[i, a], of_log_std[i, a] = along * mean[i, a], along * log_std[i, a]
    of_said = np.empty((1, batch, 2 * actions), np.float32)
    squash_slopes_of_rows(
        bend, shift, action, of_action, weight * of_penalty, of_mean, of_log_std, HALF, of_said[0]
    )
    and_back(actor.flat, actor.shape, seen, hidden, of_said, gradient)


# --- Aims ---


@njit(cache=True, nogil=True, error_model="numpy")
def _aim(actor: Perceptrons, obs: Floats, stock: Floats, wide: int) -> Floats:
    """Actions without noise, (batch, wide)."""
    seen = shown(actor.eyes, obs, obs[:, :0], stock)
    return np.tanh(says(actor.flat, actor.shape, seen)[0, :, :wide])


@njit(cache=True, nogil=True, error_model="numpy")
def _propose_aim(
    actor: Perceptrons, obs: Floats, stock: Floats, wide: int, regulariser: Any
) -> tuple[Floats, ...]:
    """The same with what the way back needs, and what size costs, (batch,)."""
    seen = shown(actor.eyes, obs, obs[:, :0], stock)
    said, hidden = there(actor.flat, actor.shape, seen)
    mean = said[0, :, :wide].copy()
    penalty = np.empty(len(mean), np.float32)
    for i in range(len(mean)):
        size = np.float32(0.0)
        for a in range(wide):
            size += mean[i, a] ** 2
        penalty[i] = regulariser * size
    return seen, hidden, mean, np.tanh(mean), penalty


@njit(cache=True, nogil=True, error_model="numpy")
def _learn_aim(
    actor: Perceptrons,
    seen: Floats,
    hidden: Floats,
    mean: Floats,
    action: Floats,
    of_action: Floats,
    of_penalty: Floats,
    regulariser: Any,
    gradient: Floats,
) -> None:
    batch, actions = action.shape
    of_said = np.zeros((1, batch, 2 * actions), np.float32)  # deviations are not used
    for i in range(batch):
        along = np.float32(2.0) * regulariser * of_penalty[i]
        for a in range(actions):
            bend = np.float32(1.0) - action[i, a] * action[i, a]
            of_said[0, i, a] = of_action[i, a] * bend + along * mean[i, a]
    and_back(actor.flat, actor.shape, seen, hidden, of_said, gradient)
