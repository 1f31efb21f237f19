"""Utility-Constrained Policies: Algorithm 1 of the paper, in its order.

A SAC-style agent with quantile critics, stocks and a multiplier per initial budget. It is collected
with by `act` and `remember`, `observe` sees finished episodes, `improve` makes the updates. The
variants of the paper differ in the problem (utility), the budget grid (one level: a single budget
and multiplier), the stock's discount and whether the networks see the stock; none of them is a
branch here. Lines are those of Algorithm 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from ucpo.envs.interface import Arrays, Episodes, Step
from ucpo.learners.entropy import Entropy
from ucpo.learners.interface import Memory, Metrics, Multiplier
from ucpo.learners.networks import Actor, Critics, Sample
from ucpo.learners.normaliser import Normaliser
from ucpo.learners.optimisation import Decay, Descent, generator_on, polyak
from ucpo.learners.quantiles import quantile_loss
from ucpo.learners.replay import Batch, Replay
from ucpo.learners.slopes import PricedLoss, linear_costs
from ucpo.policies.policy import Policy, PolicyInfo
from ucpo.problem import BudgetGrid, Floats, Problem
from ucpo.storage import states


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Step sizes, limits and paces; `ucpo.config.options` says what each of them does."""

    batch: int
    relabelled: int  # transitions of a batch whose budget is drawn anew
    critic: Decay
    actor: Decay
    critic_clip: float
    actor_clip: float
    critic_polyak: float
    actor_polyak: float
    regulariser: float
    actor_every: int
    next_action: Literal["sampled", "mean"]
    random_steps: int  # environment steps with random actions, before learning begins
    updates: int  # per iteration of all environments


class UCP:
    """The learner of Utility-Constrained Policies.

    Args:
        problem: The constraints, one per cost.
        grid: The initial budgets episodes begin with.
        actor: The policy; sees observations through the normaliser, like the critics.
        critics: Two of the reward and one of each cost.
        multiplier: The price of each initial budget.
        replay: Where transitions are kept.
        normaliser: Of observations.
        entropy: The weight of the policy's entropy.
        settings: Step sizes, limits and paces.
        about: What its policy files say, but for how far the training is.
        seed: Of noise in actions and of the choice of transitions.
        generator: Of random actions before learning begins.
    """

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
        self,
        *,
        problem: Problem,
        grid: BudgetGrid,
        actor: Actor,
        critics: Critics,
        multiplier: Multiplier,
        replay: Replay,
        normaliser: Normaliser,
        entropy: Entropy,
        settings: Settings,
        about: PolicyInfo,
        seed: int,
        generator: np.random.Generator,
    ) -> None:
        # Lines 1 to 3.
        self.problem, self.grid, self.multiplier = problem, grid, multiplier
        self.actor, self.critics = actor, critics
        self.target_actor = deepcopy(actor).requires_grad_(False)
        self.target_critics = deepcopy(critics).requires_grad_(False)
        self.replay = replay
        self.memory: Memory | None = replay
        self.normaliser, self.entropy, self.settings = normaliser, entropy, settings
        self.env_steps = self.updates = 0
        self._about, self._generator, self._learning = about, generator, False
        self._actor_weights: list[Tensor] = list(actor.parameters())
        self._critic_weights: list[Tensor] = list(critics.parameters())
        self._target_actor_weights: list[Tensor] = list(self.target_actor.parameters())
        self._target_critic_weights: list[Tensor] = list(self.target_critics.parameters())
        self._actor_descent = Descent(self._actor_weights, settings.actor_clip)
        self._critic_descent = Descent(self._critic_weights, settings.critic_clip, Critics.REWARD)
        self._device = self._actor_weights[0].device  # of the networks; all else is on the CPU
        self._linear = linear_costs(problem, self._device)
        self._noise = generator_on(self._device).manual_seed(seed)
        self._choice = np.random.default_rng(seed)

    # --- Collect ---

    @torch.no_grad()
    def act(self, obs: Floats, stock: Floats) -> Floats:
        """Line 6: sampled actions, (n, action), for observations (n, obs) and stocks (n, C)."""
        self._learning = self.env_steps >= self.settings.random_steps
        if not self._learning:
            shape = (len(obs), len(self._about.action_low))
            return self._generator.uniform(-1.0, 1.0, shape).astype(np.float32)
        s, z = torch.from_numpy(obs).to(self._device), torch.from_numpy(stock).to(self._device)
        sample = self.actor.sample(self.normaliser(s), z, self._noise)
        actions: Floats = sample.action.cpu().numpy()
        return actions

    def remember(self, obs: Floats, stock: Floats, actions: Floats, step: Step) -> None:
        """Line 8: store what one iteration brought."""
        self.replay.add(obs, stock, actions, step)
        self.normaliser.observe(obs)
        self.env_steps += int(step.env_steps.sum())

    def observe(self, episodes: Episodes) -> None:
        """Line 10: take in the initial stocks and episodic costs of finished episodes."""
        self.multiplier.observe(episodes)

    # --- Improve ---

    def improve(self) -> Iterator[Metrics]:
        """The updates of one iteration, once there is more than random actions."""
        for _ in range(self.settings.updates if self._learning else 0):
            yield self.update()

    def update(self) -> dict[str, Tensor]:
        """Lines 13 to 37: critics, actor, multipliers and targets, once."""
        settings = self.settings
        batch = self._sample()
        metrics = self._improve_critics(batch)
        self.updates += 1
        if self.updates % settings.actor_every == 0:
            for _ in range(settings.actor_every):
                metrics |= self._improve_actor(batch)
        self.multiplier.update(self.env_steps)  # lines 30 to 36
        polyak(self._target_critic_weights, self._critic_weights, settings.critic_polyak)  # 37
        polyak(self._target_actor_weights, self._actor_weights, settings.actor_polyak)
        return metrics

    def _sample(self) -> Batch:
        """Line 13, some of it as if under other budgets, with observations as networks see them."""
        drawn = self.replay.sample(self.settings.batch, self._choice)
        if self.settings.relabelled:
            others = self.grid.draws(self.settings.relabelled, self._choice)
            drawn = drawn.under(torch.from_numpy(others))
        drawn = drawn.to(self._device)
        seen = {"obs": self.normaliser(drawn.obs), "successor": self.normaliser(drawn.successor)}
        return replace(drawn, **seen)

    def _improve_critics(self, batch: Batch) -> dict[str, Tensor]:
        """Lines 14 to 23."""
        with torch.no_grad():
            targets = self._targets(batch)
        quantiles = self.critics(batch.obs, batch.stock, batch.action)
        losses = quantile_loss(quantiles, targets)  # lines 18 and 22, (2 + C,)
        self._critic_descent.step(
            losses.sum(), self.settings.critic.at(self.env_steps)
        )  # 20 and 23
        return {
            "reward_critic_loss": losses[: Critics.REWARD].detach().mean(),
            "cost_critic_loss": losses[Critics.REWARD :].detach().mean(),
        }

    def _targets(self, batch: Batch) -> Tensor:
        """Lines 14 to 16 and 21: what each critic should predict, (2 + C, batch, N)."""
        s, z = batch.successor, batch.successor_stock
        sample = self.target_actor.sample(s, z, self._noise)
        action = torch.tanh(sample.mean) if self.settings.next_action == "mean" else sample.action
        future = self.target_critics(s, z, action)
        soft_reward = min_by_mean(future[:2]) - self.entropy.weight * sample.log_prob[:, None]
        reward = bellman_target(batch.reward, batch.discount, soft_reward)
        costs = bellman_target(batch.costs.T, batch.cost_discount, future[2:])
        return torch.cat([reward.expand(2, -1, -1), costs])

    def _improve_actor(self, batch: Batch) -> dict[str, Tensor]:
        """Lines 24 to 29."""
        sample = self.actor.sample(batch.obs, batch.stock, self._noise)
        self.critics.requires_grad_(False)  # judges here; only the way back to the action counts
        quantiles = self.critics(batch.obs, batch.stock, sample.action)
        self.critics.requires_grad_(True)
        loss = self._actor_loss(batch, sample, quantiles)
        self._actor_descent.step(loss, self.settings.actor.at(self.env_steps))
        self.entropy.update(sample.log_prob)
        return {
            "actor_loss": loss.detach(),
            "entropy": -sample.log_prob.detach().mean(),
            "entropy_weight": self.entropy.weight,
            "predicted_return": quantiles[: Critics.REWARD].detach().mean(),
            "predicted_cost": quantiles[Critics.REWARD :].detach().mean(),
        }

    def _actor_loss(self, batch: Batch, sample: Sample, quantiles: Tensor) -> Tensor:
        """Lines 25 to 28."""
        price, weight = self.multiplier.value(batch.initial_stock), self.entropy.weight
        regulariser = self.settings.regulariser
        if self._linear is not None:  # the same equation with its slopes, compiled
            constants = (batch.stock, price, self._linear, weight, regulariser)
            loss: Tensor = PricedLoss.apply(quantiles, *sample[1:], *constants)  # type: ignore[no-untyped-call]
            return loss
        size = squared_size(sample.mean, sample.log_std)
        return actor_loss(
            reward=quantiles[: Critics.REWARD].mean(-1).amin(0),
            costs=quantiles[Critics.REWARD :].transpose(0, 1),
            stock=batch.stock,
            price=price,
            problem=self.problem,
            penalty=weight * sample.log_prob + regulariser * size,
        )

    # --- Be asked and saved ---

    def prices(self) -> list[Floats]:
        """For each cost the prices of its budgets, largest budget first."""
        return [table.numpy() for table in self.multiplier.tables()]

    def policy(self) -> Policy:
        """The actor and its critics as they stand, for observations as they are, on the CPU."""
        info = replace(self._about, env_steps=self.env_steps, updates=self.updates)
        networks = (self.normaliser.plain(self.actor), self.normaliser.plain(self.critics))
        if self._device.type != "cpu":
            networks = (deepcopy(networks[0]).cpu(), deepcopy(networks[1]).cpu())
        return Policy(networks[0], info, networks[1])

    def cut(self) -> None:
        """Let the newest transitions be the last of their episodes."""
        self.replay.cut()

    def recent_actions(self, row: int, env_steps: int) -> Floats:
        """What an environment was last made to do, (k, action)."""
        return self.replay.actions(row, env_steps)

    def state(self) -> Arrays:
        """Everything that what comes next depends on, except the rows of the replay."""
        return states.gather(self._parts())

    def restore(self, state: Arrays) -> None:
        """Go on from the state of a learner of the same configuration."""
        states.scatter(self._parts(), state)

    def _parts(self) -> dict[str, states.Part]:
        names = ("actor", "critics", "target_actor", "target_critics")
        return {
            **{name: states.Module(getattr(self, name), name) for name in names},
            "actor_adam": self._actor_descent,
            "critic_adam": self._critic_descent,
            "normaliser": self.normaliser,
            "entropy": self.entropy,
            "multipliers": self.multiplier,
            "noise": states.Noise(self._noise),
            "choice": states.Choice(self._choice),
            "counts": states.Counts(self, ("env_steps", "updates")),
        }


# --- The equations ---


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
