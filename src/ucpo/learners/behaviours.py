"""How an off-policy actor explores, foresees and proposes: SAC's way and TD3's.

SAC samples from a tanh-squashed Gaussian and is paid for its entropy (Haarnoja et al., 2018). TD3
acts deterministically, explores by noise, and smooths what it foresees (Fujimoto et al., 2018).
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Literal, NamedTuple, Protocol

import torch
from torch import Tensor

from ucpo.learners.compiled.hands import DeterministicHand, Hand, StochasticHand
from ucpo.learners.entropy import Entropy
from ucpo.learners.networks import Actor, Critics
from ucpo.learners.optimisation import Decay, polyak
from ucpo.storage import states

NextAction = Literal["sampled", "mean"]


class Foresight(NamedTuple):
    """What will be done at the end of each window, and what that brings beside rewards."""

    actions: Tensor  # (batch, action), or (2 + C, batch, action) if critics judge different ones
    bonus: Tensor  # (batch,) for the entropy; rewards have it, costs never


class Proposal(NamedTuple):
    """What the actor would do, with a way back to its weights."""

    action: Tensor  # (batch, action)
    penalty: Tensor  # (batch,) what the actor loses whatever the critics say
    log_prob: Tensor  # (batch,) constants; 0 where there is no density


class Behaviour(Protocol):
    """What tells SAC from TD3."""

    actor: Actor
    metrics: tuple[str, ...]
    """Names of what it has to say beside the learner."""
    believed: int
    """Of the two reward critics, how many the actor listens to: to the lowest of them."""

    def explore(self, obs: Tensor, stock: Tensor, noise: torch.Generator, env_steps: int) -> Tensor:
        """Actions to collect with, (n, action)."""

    def foresee(self, obs: Tensor, stock: Tensor, noise: torch.Generator) -> Foresight:
        """What the targets of the critics count on."""

    def propose(self, obs: Tensor, stock: Tensor, noise: torch.Generator) -> Proposal:
        """What the critics are to judge."""

    def hand(self) -> Hand:
        """The same without a graph, for networks that have compiled passes."""

    def learned(self, log_prob: Tensor) -> dict[str, Tensor]:
        """Go on after a step of the actor that had proposed with these, and say how it stands."""

    def follow(self) -> None:
        """Let targets follow."""

    def parts(self) -> dict[str, states.Part]:
        """Everything with a state, but for the actor."""


class Stochastic:
    """SAC: a tanh-Gaussian policy with a bonus for its entropy.

    Args:
        actor: The policy.
        entropy: The weight of its entropy.
        regulariser: Weight of the squared means and log deviations.
        next_action: In the targets of costs; those of rewards count on a sampled one.
        costs: How many there are.
    """

    metrics: tuple[str, ...] = ("entropy", "entropy_weight")
    believed = 2

    def __init__(
        self,
        actor: Actor,
        entropy: Entropy,
        *,
        regulariser: float,
        next_action: NextAction,
        costs: int,
    ) -> None:
        self.actor, self.entropy, self._regulariser = actor, entropy, regulariser
        self._expect_mean = next_action == "mean"
        self._choose = _choice(next_action, costs)

    def explore(self, obs: Tensor, stock: Tensor, noise: torch.Generator, env_steps: int) -> Tensor:
        """Sampled actions."""
        return self.actor.sample(obs, stock, noise).action

    def foresee(self, obs: Tensor, stock: Tensor, noise: torch.Generator) -> Foresight:
        """Sampled from the actor as it is now; it has no target of its own."""
        sample = self.actor.sample(obs, stock, noise)
        actions = self._choose(sample.action, lambda: torch.tanh(sample.mean))
        return Foresight(actions, -self.entropy.weight * sample.log_prob)

    def propose(self, obs: Tensor, stock: Tensor, noise: torch.Generator) -> Proposal:
        """A reparametrised sample; being certain costs something."""
        sample = self.actor.sample(obs, stock, noise)
        size = sample.mean.square().sum(-1) + sample.log_std.square().sum(-1)
        penalty = self.entropy.weight * sample.log_prob + self._regulariser * size
        return Proposal(sample.action, penalty, sample.log_prob.detach())

    def hand(self) -> Hand:
        """The same without a graph."""
        return StochasticHand(
            self.actor,
            self.entropy,
            regulariser=self._regulariser,
            expect_mean=self._expect_mean,
        )

    def learned(self, log_prob: Tensor) -> dict[str, Tensor]:
        """Tune the weight of the entropy."""
        self.entropy.update(log_prob)
        return {"entropy": -log_prob.mean(), "entropy_weight": self.entropy.weight}

    def follow(self) -> None:
        """There is no target actor."""

    def parts(self) -> dict[str, states.Part]:
        """The weight of the entropy."""
        return {"entropy": self.entropy}


class Deterministic:
    """TD3: a deterministic policy that explores by noise, with a target that is smoothed.

    Args:
        actor: The policy; of its outputs only the means are used.
        exploration: Standard deviation of the noise of collected actions, which lie in [-1, 1].
        smoothing: The same of actions in targets.
        smoothing_limit: Largest such noise.
        polyak: Share by which the target actor follows.
        regulariser: Weight of the squared means before tanh.
        next_action: In the targets of costs: the smoothed one, or that of the actor as it is now,
            as OmniSafe has it.
        costs: How many there are.
    """

    metrics: tuple[str, ...] = ()
    believed = 1  # the other one keeps targets down

    def __init__(
        self,
        actor: Actor,
        *,
        exploration: Decay,
        smoothing: float,
        smoothing_limit: float,
        polyak: float,
        regulariser: float,
        next_action: NextAction,
        costs: int,
    ) -> None:
        self.actor, self.target_actor = actor, deepcopy(actor).requires_grad_(False)
        self._exploration, self._regulariser, self._polyak = exploration, regulariser, polyak
        self._smoothing, self._limit = smoothing, smoothing_limit
        self._weights: list[Tensor] = list(actor.parameters())
        self._target_weights: list[Tensor] = list(self.target_actor.parameters())
        self._expect_mean = next_action == "mean"
        self._choose = _choice(next_action, costs)

    def explore(self, obs: Tensor, stock: Tensor, noise: torch.Generator, env_steps: int) -> Tensor:
        """The actor's actions with noise, within their bounds."""
        action = self.actor.mode(obs, stock)
        deviation = self._exploration.at(env_steps)
        return (action + deviation * _normal(action, noise)).clamp(-1.0, 1.0)

    def foresee(self, obs: Tensor, stock: Tensor, noise: torch.Generator) -> Foresight:
        """The target actor's, smoothed by clipped noise; no entropy."""
        action = self.target_actor.mode(obs, stock)
        limit = self._limit
        blur = (self._smoothing * _normal(action, noise)).clamp(-limit, limit)
        smoothed = (action + blur).clamp(-1.0, 1.0)
        actions = self._choose(smoothed, lambda: self.actor.mode(obs, stock))
        return Foresight(actions, action.new_zeros(len(action)))

    def propose(self, obs: Tensor, stock: Tensor, noise: torch.Generator) -> Proposal:
        """The one thing it would do."""
        mean, _ = self.actor(obs, stock)
        penalty = self._regulariser * mean.square().sum(-1)
        return Proposal(torch.tanh(mean), penalty, mean.new_zeros(len(mean)))

    def hand(self) -> Hand:
        """The same without a graph."""
        return DeterministicHand(
            self.actor,
            self.target_actor,
            smoothing=self._smoothing,
            smoothing_limit=self._limit,
            regulariser=self._regulariser,
            expect_mean=self._expect_mean,
        )

    def learned(self, log_prob: Tensor) -> dict[str, Tensor]:
        """Nothing beside."""
        return {}

    def follow(self) -> None:
        """Let the target actor follow."""
        polyak(self._target_weights, self._weights, self._polyak)

    def parts(self) -> dict[str, states.Part]:
        """The target actor."""
        return {"target_actor": states.Module(self.target_actor, "target_actor")}


def _choice(
    next_action: NextAction, costs: int
) -> Callable[[Tensor, Callable[[], Tensor]], Tensor]:
    """Which actions the target critics judge: one for all, or another for those of costs."""

    def apart(sampled: Tensor, mean: Callable[[], Tensor]) -> Tensor:
        return torch.stack([sampled] * Critics.REWARD + [mean()] * costs)

    return apart if next_action == "mean" else lambda sampled, mean: sampled


def _normal(like: Tensor, noise: torch.Generator) -> Tensor:
    return torch.randn(like.shape, generator=noise, device=noise.device).to(like.device)
