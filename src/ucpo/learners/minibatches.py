"""Passes over a rollout: a step of policy and values for each of its minibatches.

Two ways make the same steps, to rounding. Which of them it is, is decided once, by what policy,
values and loss are (`minibatches_of`); whoever learns asks both the same question.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from ucpo.learners.actors import GaussianActor, OnPolicyActor
from ucpo.learners.compiled.rollout_passes import (
    Decided,
    Rules,
    Valued,
    Weights,
    divergence,
    one_pass,
)
from ucpo.learners.compiled.stacks import Shape
from ucpo.learners.networks import Values
from ucpo.learners.optimisation import Adam, add_squares, limit_norms
from ucpo.learners.surrogates import Decisions, Known, Surrogate, compiled, slopes


@dataclass(frozen=True)
class Seen:
    """What networks see of decisions."""

    obs: Tensor  # (batch, obs) normalised
    stock: Tensor  # (batch, C)
    left: Tensor  # (batch,) share of time

    def at(self, rows: Tensor | slice) -> Seen:
        """Some of them."""
        return Seen(self.obs[rows], self.stock[rows], self.left[rows])


class Passed(NamedTuple):
    """What came of one pass."""

    losses: Tensor  # (minibatches, 2 + C) of the policy and of each value
    moved: Tensor  # () mean divergence of the policy from the old one, over the whole rollout


Pass = Callable[[Tensor, int, Sequence[float]], Passed]
"""Meets the rows of a rollout in an order, (rows,), in so many minibatches, with step sizes of the
policy and of values."""


class Minibatches(Protocol):
    """Makes steps of policy and values."""

    def over(self, seen: Seen, old: Decisions, targets: Tensor) -> Pass:
        """Passes over this rollout, whose values should have been `targets`, (1 + C, rows)."""


def minibatches_of(
    actor: OnPolicyActor,
    values: Values,
    surrogate: Surrogate | None,
    optimiser: Adam,
    rules: Rules,
) -> Minibatches:
    """Compiled passes where there are any for these; arguments as of `InTensors`."""
    known = None if surrogate is None else compiled(surrogate)
    straight = actor.body.by_hand and values.body.by_hand
    if known is not None and straight and isinstance(actor, GaussianActor):
        return Compiled(actor, values, known, optimiser, rules)
    return InTensors(actor, values, surrogate, optimiser, rules)


@dataclass(frozen=True)
class InTensors:
    """Whatever policy, values and loss are, on any device: one step after the other.

    Args:
        actor: The policy.
        values: What it expects.
        surrogate: What a minibatch says about the policy; None: nothing, values alone learn.
        optimiser: Of the weights that learn, the policy's first.
        rules: What belongs to a step beside the losses.
    """

    actor: OnPolicyActor
    values: Values
    surrogate: Surrogate | None
    optimiser: Adam
    rules: Rules

    def over(self, seen: Seen, old: Decisions, targets: Tensor) -> Pass:
        """Passes over this rollout."""
        return partial(self._pass, seen, old, targets)

    def _pass(
        self,
        seen: Seen,
        old: Decisions,
        targets: Tensor,
        order: Tensor,
        count: int,
        rates: Sequence[float],
    ) -> Passed:
        mixed, given, wanted = seen.at(order), old.at(order), targets[:, order]
        losses = []
        for part in torch.tensor_split(torch.arange(len(order)), count):
            of = slice(int(part[0]), int(part[-1]) + 1)
            losses.append(self._step(mixed.at(of), given.at(of), wanted[:, of], rates))
        return Passed(torch.stack(losses), self._moved(seen, old))

    @torch.no_grad()
    def _moved(self, seen: Seen, old: Decisions) -> Tensor:
        output, spread = self.actor(seen.obs, seen.stock), self.actor.spread
        return old.kind.divergence(old.output, old.spread, output, spread).mean().cpu()

    def _step(self, seen: Seen, old: Decisions, targets: Tensor, rates: Sequence[float]) -> Tensor:
        """One step along one minibatch: losses of the policy and of each value, (2 + C,)."""
        rules, surrogate = self.rules, self.surrogate
        of_actor: list[Tensor] = list(self.actor.parameters())
        of_critic: list[Tensor] = list(self.values.parameters())
        for weight in (*of_actor, *of_critic):
            weight.grad = None
        of_values = self.values.learn(seen.obs, seen.stock, seen.left, targets)
        if rules.regulariser:
            add_squares(of_critic, rules.regulariser)
        of_policy, groups = torch.zeros(()), []
        if surrogate is not None:
            towards = partial(slopes, surrogate, old, rules.entropy)
            of_policy, groups = self.actor.learn(seen.obs, seen.stock, towards), [of_actor]
        limit_norms(groups, of_critic, rules.norm, apart=rules.apart)
        learned = [rates[0]] * sum(map(len, groups)), [rates[1]] * len(of_critic)
        self.optimiser.step([*learned[0], *learned[1]])
        return torch.cat([of_policy.reshape(1).to(of_values.device), of_values])


@dataclass(frozen=True)
class Compiled:
    """The same for perceptrons on a CPU: one compiled call makes all steps of a pass.

    Args:
        actor: The policy.
        values: What it expects.
        known: The loss, as compiled code knows it.
        optimiser: As of `InTensors`.
        rules: Likewise.
    """

    actor: GaussianActor
    values: Values
    known: Known
    optimiser: Adam
    rules: Rules

    @torch.no_grad()
    def over(self, seen: Seen, old: Decisions, targets: Tensor) -> Pass:
        """Passes over this rollout; what they need is put side by side once for all of them."""
        of_actor = self.actor.body.inputs([seen.obs], seen.stock)
        given = (of_actor, old.sample, old.log_prob, old.output, old.spread)
        decided = Decided(*_arrays(*given, old.advantage, old.costs, old.excess))
        of_values = self.values.inputs(seen.obs, seen.stock, seen.left)
        actor, values = self.actor.body.layers, self.values.body.layers
        shape, spread = Shape(*actor.shape), self._weights(self.actor.log_std)
        policy = (self._weights(actor.flat), shape, spread)
        critics = (self._weights(values.flat), Shape(*values.shape))
        valued = Valued(*_arrays(of_values, targets))
        return partial(self._pass, decided, valued, policy, critics)

    def _pass(
        self,
        decided: Decided,
        valued: Valued,
        policy: Any,
        critics: Any,
        order: Tensor,
        count: int,
        rates: Sequence[float],
    ) -> Passed:
        steps = self.optimiser.numbers(rates, count)
        losses = np.empty((count, 1 + len(valued.targets)), np.float32)
        loss = (self.known[0], np.array(self.known[1]), self.rules)
        rest: Any = (*critics, *loss, steps, losses)
        one_pass(order.numpy(), decided, valued, *policy, *rest)
        for weight in self.optimiser.weights:  # so that gradients of before are refused
            torch.autograd.graph.increment_version(weight)
        moved = torch.tensor(divergence(decided, *policy), dtype=torch.float32)
        return Passed(torch.from_numpy(losses), moved)

    def _weights(self, weight: Tensor) -> Weights:
        """A row for each network, even if there is only one."""
        parts = (weight, *self.optimiser.memory(weight))
        return Weights(*_arrays(*(part.view(-1, weight.shape[-1]) for part in parts)))


def _arrays(*tensors: Tensor) -> list[Any]:
    """As compiled code wants them; those that lie in one piece are not copied."""
    return [tensor.detach().contiguous().numpy() for tensor in tensors]
