"""Utility-Constrained Policies: Algorithm 1 of the paper, in its order.

A SAC-style agent with quantile critics, stocks and a multiplier per initial budget. It is collected
with by `act` and `remember`, `observe` sees finished episodes, `improve` makes the updates. The
variants of the paper differ in the problem (utility), the budget grid (one level: a single budget
and multiplier), the stock's discount and whether the networks see the stock; none of them is a
branch here. Lines are those of Algorithm 1.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from ucpo.envs.interface import Episodes
from ucpo.learners.compiled.ucp_by_hand import ByHand, Judged
from ucpo.learners.entropy import Entropy
from ucpo.learners.from_replay import Equipment, FromReplay
from ucpo.learners.from_replay import Settings as SharedSettings
from ucpo.learners.networks import Actor, Critics
from ucpo.learners.optimisation import Decay, polyak
from ucpo.learners.quantiles import quantile_loss
from ucpo.learners.replay import Batch
from ucpo.policies.policy import Policy
from ucpo.problem import Problem
from ucpo.storage import states


@dataclass(frozen=True, kw_only=True)
class Settings(SharedSettings):
    """What UCP has beside what all learners with a replay have."""

    actor_polyak: float
    regulariser: Decay
    next_action: Literal["sampled", "mean"]


class UCP(FromReplay):
    """The learner of Utility-Constrained Policies.

    It remembers (line 8), draws from its replay and is saved as `FromReplay` says.

    Args:
        equipment: Networks, budgets and their prices, the replay.
        problem: The constraints, one per cost.
        entropy: The weight of the policy's entropy.
        settings: Step sizes, limits and paces.
    """

    settings: Settings

    metrics: tuple[str, ...] = (
        "reward_critic_loss",
        "cost_critic_loss",
        "actor_loss",
        "entropy",
        "entropy_weight",
        "predicted_return",
        "predicted_cost",
    )

    def __init__(
        self, equipment: Equipment, *, problem: Problem, entropy: Entropy, settings: Settings
    ) -> None:
        # Lines 1 to 3.
        super().__init__(equipment, settings)
        self.problem, self.entropy = problem, entropy
        self.target_actor = deepcopy(self.actor).requires_grad_(False)
        self._target_actor_weights: list[Tensor] = list(self.target_actor.parameters())
        by_hand = ByHand.possible(self.actor, self.critics, problem)
        self._gradients = (ByHand if by_hand else Graph)(
            self.actor,
            self.critics,
            self.target_actor,
            self.target_critics,
            problem=problem,
            entropy=entropy,
            expect_mean=settings.next_action == "mean",
        )

    # --- Collect ---

    def explore(self, obs: Tensor, stock: Tensor) -> Tensor:
        """Line 6: sampled actions, (n, action), for observations (n, obs) and stocks (n, C)."""
        return self.actor.sample(obs, stock, self._noise).action

    def observe(self, episodes: Episodes) -> None:
        """Line 10: take in the initial stocks and episodic costs of finished episodes."""
        self.multiplier.observe(episodes)

    # --- Improve ---

    def update(self) -> dict[str, Tensor]:
        """Lines 13 to 37: critics, actor, multipliers and targets, once."""
        settings = self.settings
        batch = self.seen(self.draw())  # line 13
        metrics = self._improve_critics(batch)
        self.updates += 1
        if self.updates % settings.actor_every == 0:
            for _ in range(settings.actor_every):
                metrics |= self._improve_actor(batch)
        self.multiplier.update(self.env_steps)  # lines 30 to 36
        polyak(self._target_critic_weights, self._critic_weights, settings.critic_polyak)  # 37
        polyak(self._target_actor_weights, self._actor_weights, settings.actor_polyak)
        return metrics

    def _improve_critics(self, batch: Batch) -> dict[str, Tensor]:
        """Lines 14 to 23."""
        losses = self._gradients.of_critics(batch, self._targets(batch))
        self._critic_descent.follow(self.settings.critic.at(self.env_steps))  # lines 20 and 23
        return {
            "reward_critic_loss": losses[: Critics.REWARD].mean(),
            "cost_critic_loss": losses[Critics.REWARD :].mean(),
        }

    def _targets(self, batch: Batch) -> Tensor:
        """Lines 14 to 16 and 21: what each critic should predict, (2 + C, batch, N)."""
        return self._gradients.targets(batch, self._noise)

    def _improve_actor(self, batch: Batch) -> dict[str, Tensor]:
        """Lines 24 to 29."""
        price = self.multiplier.value(batch.initial_stock)
        settings, now = self.settings, self.env_steps
        judged = self._gradients.of_actor(batch, price, settings.regulariser.at(now), self._noise)
        self._actor_descent.follow(settings.actor.at(now))
        self.entropy.update(judged.log_prob)
        return {
            "actor_loss": judged.loss,
            "entropy": -judged.log_prob.mean(),
            "entropy_weight": self.entropy.weight,
            "predicted_return": judged.predicted_return,
            "predicted_cost": judged.predicted_cost,
        }

    # --- Be asked and saved ---

    def policy(self) -> Policy:
        """The actor and its critics as they stand."""
        return Policy(self.plain(self.actor), self.info(), self.plain(self.critics))

    def parts(self) -> dict[str, states.Part]:
        """The target actor and the weight of the entropy."""
        target = states.Module(self.target_actor, "target_actor")
        return {"target_actor": target, "entropy": self.entropy}


# --- The equations ---


class Graph:
    """What critics should predict, and the gradients of the losses, left in the weights.

    `ucpo.learners.compiled.ucp_by_hand.ByHand` does the same where networks have compiled passes.

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
        self._actor, self._critics = actor, critics
        self._target_actor, self._target_critics = target_actor, target_critics
        self._problem, self._entropy = problem, entropy
        self._expect_mean = expect_mean

    @torch.no_grad()
    def targets(self, batch: Batch, noise: torch.Generator) -> Tensor:
        """Lines 14 to 16 and 21: what each critic should predict, (2 + C, batch, N)."""
        s, z = batch.successor, batch.successor_stock
        sample = self._target_actor.sample(s, z, noise)
        action = torch.tanh(sample.mean) if self._expect_mean else sample.action
        future = self._target_critics(s, z, action)
        soft_reward = min_by_mean(future[:2]) - self._entropy.weight * sample.log_prob[:, None]
        reward = bellman_target(batch.reward, batch.discount, soft_reward)
        costs = bellman_target(batch.costs.T, batch.cost_discount, future[2:])
        return torch.cat([reward.expand(2, -1, -1), costs])

    def of_critics(self, batch: Batch, targets: Tensor) -> Tensor:
        """Lines 18 and 22: of each critic the loss whose gradient it is, (2 + C,)."""
        quantiles = self._critics(batch.obs, batch.stock, batch.action)
        losses = quantile_loss(quantiles, targets)
        self._critics.zero_grad()
        losses.sum().backward()  # type: ignore[no-untyped-call]
        return losses.detach()

    def of_actor(
        self, batch: Batch, price: Tensor, regulariser: float, noise: torch.Generator
    ) -> Judged:
        """Lines 24 to 28: the loss whose gradient it is, and what critics say of its actions.

        Args:
            batch: Of what was seen.
            price: Multipliers of each episode's *initial* budget, (batch, C).
            regulariser: Weight of the policy's squared size.
            noise: Of the actions.
        """
        sample = self._actor.sample(batch.obs, batch.stock, noise)
        self._critics.requires_grad_(False)  # judges here; only the way back to the action counts
        quantiles = self._critics(batch.obs, batch.stock, sample.action)
        self._critics.requires_grad_(True)
        reward, costs = quantiles[: Critics.REWARD], quantiles[Critics.REWARD :]
        size = squared_size(sample.mean, sample.log_std)
        loss = actor_loss(
            reward=reward.mean(-1).amin(0),
            costs=costs.transpose(0, 1),
            stock=batch.stock,
            price=price,
            problem=self._problem,
            penalty=self._entropy.weight * sample.log_prob + regulariser * size,
        )
        self._actor.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        means = reward.detach().mean(), costs.detach().mean()
        return Judged(loss.detach(), sample.log_prob.detach(), *means)


def min_by_mean(twins: Tensor) -> Tensor:
    """Line 15: for each sample all quantiles of the reward critic with the smaller mean.

    (2, batch, N) -> (batch, N). The reward's utility is linear, so its mean is what is compared.
    """
    first, second = twins
    return torch.where((first.mean(-1) <= second.mean(-1))[:, None], first, second)


def bellman_target(gained: Tensor, discount: Tensor, future: Tensor) -> Tensor:
    """Lines 16 and 21: samples of the discounted sum, the window's part and the future's.

    Args:
        gained: Discounted sum over the window, (..., batch).
        discount: gamma^k after k environment steps, 0 where the episode terminated, (batch,).
        future: Quantiles at the end of the window, (..., batch, N).
    """
    return gained[..., None] + discount[:, None] * future


def actor_loss(
    reward: Tensor,
    costs: Tensor,
    stock: Tensor,
    price: Tensor,
    problem: Problem,
    penalty: Tensor,
) -> Tensor:
    """Lines 25 to 28: reward against priced utility, at unit scale however prices grow.

    Args:
        reward: Expected by the more pessimistic reward critic, (batch,).
        costs: Quantiles of the future costs, (batch, C, N).
        stock: Costs so far minus the budget, in cost units, (batch, C).
        price: Multipliers of each episode's *initial* budget, (batch, C); constants here.
        problem: Says which utility each cost has.
        penalty: Entropy term and regulariser, (batch,).
    """
    final = stock[:, :, None] + costs
    limits = enumerate(problem.constraints)
    expected = torch.stack([limit.utility.expected(final[:, cost]) for cost, limit in limits], 1)
    loss = penalty - reward + (price * expected).sum(-1)
    return (loss / (1.0 + price.sum(-1))).mean()


def squared_size(mean: Tensor, log_std: Tensor) -> Tensor:
    """Line 27: of the policy's parameters, which the regulariser keeps small, (batch,)."""
    return mean.square().sum(-1) + log_std.square().sum(-1)
