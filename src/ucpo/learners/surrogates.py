"""What a policy is improved by: advantages at their prices, and losses of minibatches.

All are pure: tensors in, tensors out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import torch
from torch import Tensor

from ucpo.learners.compiled.ratio_slopes import CLIPPED, FOCOPS, P3O, surrogate_slopes
from ucpo.learners.distributions import Distribution, Gaussian

Scale = Literal["raw", "omnisafe", "both"]
GAUSSIAN = Gaussian()


def shares(price: Tensor) -> tuple[Tensor, Tensor]:
    """Weights of the reward (batch,) and of the costs (batch, C) at prices (batch, C).

    They are 1 and the price, at unit scale however prices grow. At an infinite price the reward
    counts nothing.
    """
    endless = torch.isinf(price)
    limited = torch.where(endless, torch.zeros_like(price), price)
    total = 1.0 + limited.sum(-1)
    only = endless.any(-1)
    reward = torch.where(only, torch.zeros_like(total), 1.0 / total)
    alone = endless / endless.sum(-1, keepdim=True).clamp(min=1)
    return reward, torch.where(only[:, None], alone.to(price.dtype), limited / total[:, None])


def combined(reward: Tensor, costs: Tensor, price: Tensor, scale: Scale) -> Tensor:
    """One advantage of the reward's (batch,) and the costs' (batch, C) at prices (batch, C).

    ``raw`` combines them as they are, so that a price is reward per unit of utility, and then
    standardises; ``omnisafe`` standardises the reward's and centres the costs'; ``both``
    standardises each.
    """
    of_reward, of_costs = shares(price)
    if scale == "raw":
        return standardised(of_reward * reward - (of_costs * costs).sum(-1))
    reward = standardised(reward)
    costs = costs - costs.mean(0) if scale == "omnisafe" else standardised(costs)
    return of_reward * reward - (of_costs * costs).sum(-1)


def standardised(values: Tensor) -> Tensor:
    """Without their mean, in units of their spread, along the first axis."""
    return (values - values.mean(0)) / (values.std(0, correction=0) + 1e-8)


@dataclass(frozen=True)
class Decisions:
    """Decisions of an old policy, and what is to be made of them."""

    sample: Tensor  # (batch, action) drawn by the old policy
    log_prob: Tensor  # (batch,) by it
    output: Tensor  # (batch, action) of its network
    spread: Tensor  # what it has beside: log-deviations (action,), or nothing
    advantage: Tensor  # (batch,) combined
    costs: Tensor  # (batch, C) advantages of the costs alone
    excess: Tensor  # (C,) mean cost of recent episodes above the budget
    length: float  # mean environment steps of these
    kind: Distribution = GAUSSIAN

    def at(self, rows: Tensor | slice) -> Decisions:
        """Some of them."""
        return Decisions(
            self.sample[rows],
            self.log_prob[rows],
            self.output[rows],
            self.spread,
            self.advantage[rows],
            self.costs[rows],
            self.excess,
            self.length,
            self.kind,
        )

    def ratio(self, output: Tensor, spread: Tensor) -> Tensor:
        """How much more probable a new policy makes each decision, (batch,)."""
        return torch.exp(self.kind.log_probability(self.sample, output, spread) - self.log_prob)


class Surrogate(Protocol):
    """What a minibatch says about a policy."""

    def __call__(self, old: Decisions, output: Tensor, spread: Tensor) -> Tensor:
        """The loss of a new policy with outputs (batch, action) and this spread."""


def slopes(
    surrogate: Surrogate, old: Decisions, entropy: float, output: Tensor, spread: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """A loss, and its gradients in outputs (batch, action) and the spread.

    Args:
        surrogate: What the loss is.
        old: The decisions it is about.
        entropy: Weight of the policy's entropy, whose gradient is among them.
        output: Of the new policy.
        spread: Of the new policy.
    """
    known = compiled(surrogate)
    if known is not None and isinstance(old.kind, Gaussian) and output.device.type == "cpu":
        loss, of_output, of_spread = _written_down(known, old, output, spread)
        return loss, of_output, of_spread - entropy  # a Gaussian's grows with each log-deviation
    output, spread = output.detach().requires_grad_(), spread.detach().requires_grad_()
    with torch.enable_grad():
        loss = surrogate(old, output, spread)
        whole = loss - entropy * old.kind.entropy(output, spread).mean() if entropy else loss
    of_output, of_spread = torch.autograd.grad(
        whole, [output, spread], allow_unused=True, materialize_grads=True
    )
    return loss.detach(), of_output, of_spread


Known = tuple[int, tuple[float, ...]]
"""Which of the losses that compiled loops know, and its numbers."""


def compiled(surrogate: Surrogate) -> Known | None:
    """What compiled loops call a loss; None: they do not know it."""
    match surrogate:
        case Clipped(clip):
            return CLIPPED, (clip,)
        case Focops(temperature, reach):
            return FOCOPS, (temperature, reach)
        case P3o(clip, penalty, gamma):
            return P3O, (clip, penalty, gamma)
    return None


def _written_down(
    known: Known, old: Decisions, output: Tensor, spread: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """A loss of a Gaussian policy and its gradients in means and log-deviations."""
    given: tuple[Tensor, ...] = (output, spread, old.sample, old.log_prob, old.output, old.spread)
    given = (*given, old.advantage, old.costs, old.excess)
    arrays: list[Any] = [part.detach().contiguous().numpy() for part in given]
    of_output, of_spread = np.empty(output.shape, np.float32), np.empty(len(spread), np.float32)
    kind, numbers = known[0], np.array(known[1])
    loss: float = surrogate_slopes(kind, numbers, *arrays, of_output, of_spread)  # type: ignore[call-arg]
    return torch.tensor(loss), torch.from_numpy(of_output), torch.from_numpy(of_spread)


@dataclass(frozen=True)
class Clipped:
    """PPO: no gain from probabilities that moved further than a share.

    Args:
        clip: That share.
    """

    clip: float

    def __call__(self, old: Decisions, output: Tensor, spread: Tensor) -> Tensor:
        """The mean of the smaller of both readings."""
        ratio = old.ratio(output, spread)
        near = ratio.clamp(1.0 - self.clip, 1.0 + self.clip)
        return -torch.minimum(ratio * old.advantage, near * old.advantage).mean()


@dataclass(frozen=True)
class Focops:
    """First-order projection of the best policy within reach (Zhang et al., 2020).

    Args:
        temperature: How far the advantage pulls against the divergence.
        reach: Divergence beyond which a sample counts no more.
    """

    temperature: float
    reach: float

    def __call__(self, old: Decisions, output: Tensor, spread: Tensor) -> Tensor:
        """Divergence against gain, where the divergence is small."""
        ratio = old.ratio(output, spread)  # (batch,)
        moved = old.kind.divergence(output, spread, old.output, old.spread)  # (batch,)
        near = (moved.detach() <= self.reach).to(moved.dtype)
        return ((moved - ratio * old.advantage / self.temperature) * near).mean()


@dataclass(frozen=True)
class P3o:
    """PPO with an exact penalty for the costs it expects above the budget (Zhang et al., 2022).

    Args:
        clip: As of PPO.
        penalty: Price of a unit of expected excess.
        gamma: Discount; an episode's excess is compared with a step's surrogate.
    """

    clip: float
    penalty: float
    gamma: float

    def __call__(self, old: Decisions, output: Tensor, spread: Tensor) -> Tensor:
        """PPO's loss of the reward, and the penalty."""
        ratio = old.ratio(output, spread)
        near = ratio.clamp(1.0 - self.clip, 1.0 + self.clip)
        reward = torch.minimum(ratio * old.advantage, near * old.advantage).mean()
        worse = torch.maximum(ratio[:, None] * old.costs, near[:, None] * old.costs).mean(0)
        expected = worse + old.excess * (1.0 - self.gamma)  # (C,)
        return self.penalty * expected.clamp(min=0.0).sum() - reward
