"""SAC and TD3 with prices: scalar critics, two of the reward and one of each cost, on a replay.

What tells the two apart is a `Behaviour`, what a cost is worth a `Multiplier`, when that moves a
`Pace`, and what a method makes of rewards a `Shaping`. A price of 0 is the plain learner.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ucpo.envs.interface import Episodes
from ucpo.envs.shaping import Shaping
from ucpo.learners.behaviours import Behaviour
from ucpo.learners.compiled.by_hand import ByHand
from ucpo.learners.from_replay import Equipment, FromReplay
from ucpo.learners.from_replay import Settings as SharedSettings
from ucpo.learners.networks import Critics
from ucpo.learners.optimisation import polyak
from ucpo.learners.pace import Pace
from ucpo.learners.replay import Batch
from ucpo.policies.policy import Policy
from ucpo.storage import states

log = logging.getLogger("ucpo")


@dataclass(frozen=True, kw_only=True)
class Settings(SharedSettings):
    """What SAC and TD3 have beside what all learners with a replay have."""

    delay: int  # updates of the critics for each of the actor and of all targets


class OffPolicy(FromReplay):
    """The learner behind SAC, TD3 and the methods made of them.

    Args:
        equipment: Networks, budgets and their prices, the replay; critics have one output each.
        behaviour: The ways of its actor.
        pace: When prices move.
        shaping: What is made of rewards.
        settings: Step sizes, limits and paces.
    """

    settings: Settings

    def __init__(
        self,
        equipment: Equipment,
        *,
        behaviour: Behaviour,
        pace: Pace,
        shaping: Shaping,
        settings: Settings,
    ) -> None:
        super().__init__(equipment, settings)
        self.behaviour, self.pace, self.shaping = behaviour, pace, shaping
        self.metrics = (*_METRICS, *behaviour.metrics)
        possible = ByHand.possible(behaviour, self.critics)
        self._gradients = (ByHand if possible else Graph)(
            behaviour, self.critics, self.target_critics
        )

    # --- Collect ---

    def explore(self, obs: Tensor, stock: Tensor) -> Tensor:
        """As the behaviour does."""
        return self.behaviour.explore(obs, stock, self._noise, self.env_steps)

    def observe(self, episodes: Episodes) -> None:
        """Finished episodes move the prices, now or later."""
        self.pace.observed(self.multiplier, episodes, self.env_steps)

    # --- Improve ---

    def update(self) -> dict[str, Tensor]:
        """Critics; now and then the actor and the targets."""
        settings = self.settings
        if self.updates == 0:
            self._voice_doubts()
        batch = self._sample()
        metrics = self._improve_critics(batch)
        self.updates += 1
        if self.updates % (settings.delay * settings.actor_every) == 0:
            for _ in range(settings.actor_every):
                metrics |= self._improve_actor(batch)
        if self.updates % settings.delay == 0:
            polyak(self._target_critic_weights, self._critic_weights, settings.critic_polyak)
            self.behaviour.follow()
        self.pace.updated(self.multiplier, self.env_steps)
        return metrics

    def _sample(self) -> Batch:
        """Some of the past, with rewards shaped by the stocks of the budget they are seen under."""
        drawn = self.draw()
        return self.seen(replace(drawn, reward=shaped(drawn, self.shaping)))

    def _improve_critics(self, batch: Batch) -> dict[str, Tensor]:
        losses = self._gradients.of_critics(batch, self._targets(batch))
        self._critic_descent.follow(self.settings.critic.at(self.env_steps))
        return {
            "reward_critic_loss": losses[: Critics.REWARD].mean(),
            "cost_critic_loss": losses[Critics.REWARD :].mean(),
        }

    def _targets(self, batch: Batch) -> Tensor:
        """What each critic should predict, (2 + C, batch)."""
        return self._gradients.targets(batch, self._noise)

    def _improve_actor(self, batch: Batch) -> dict[str, Tensor]:
        price = self.multiplier.value(batch.initial_stock)
        loss, values, log_prob = self._gradients.of_actor(batch, price, self._noise)
        self._actor_descent.follow(self.settings.actor.at(self.env_steps))
        return {
            "actor_loss": loss,
            "predicted_return": values[: Critics.REWARD].mean(),
            "predicted_cost": values[Critics.REWARD :].mean(),
            **self.behaviour.learned(log_prob),
        }

    def _voice_doubts(self) -> None:
        """Say what speaks against the shaping, by the rewards of random actions."""
        doubt = self.shaping.doubt(self.replay.mean_reward())
        if doubt is not None:
            log.warning("%s", doubt)

    # --- Be asked and saved ---

    def policy(self) -> Policy:
        """The actor as it stands.

        Its critics are no distributions that could be calibrated, so they are not kept beside it.
        """
        return Policy(self.plain(self.actor), self.info())

    def parts(self) -> dict[str, states.Part]:
        """Those of the behaviour."""
        return self.behaviour.parts()


_METRICS = (
    "reward_critic_loss",
    "cost_critic_loss",
    "actor_loss",
    "predicted_return",
    "predicted_cost",
)


# --- The equations ---


class Graph:
    """What critics should predict, and the gradients of the losses, left in the weights.

    `ucpo.learners.compiled.by_hand.ByHand` does the same where networks have compiled passes.

    Args:
        behaviour: The actor and its ways.
        critics: With one output each.
        target_critics: What follows them.
    """

    def __init__(self, behaviour: Behaviour, critics: Critics, target_critics: Critics) -> None:
        self._behaviour, self._critics, self._target_critics = behaviour, critics, target_critics

    @torch.no_grad()
    def targets(self, batch: Batch, noise: torch.Generator) -> Tensor:
        """What each critic should predict, (2 + C, batch)."""
        s, z = batch.successor, batch.successor_stock
        ahead = self._behaviour.foresee(s, z, noise)
        future = self._target_critics(s, z, ahead.actions)[..., 0]
        # Rewards have a bonus for the entropy, costs never.
        soft_reward = torch.minimum(future[0], future[1]) + ahead.bonus
        reward = bellman_target(batch.reward, batch.discount, soft_reward)
        costs = bellman_target(batch.costs.T, batch.cost_discount, future[Critics.REWARD :])
        return torch.cat([reward.expand(Critics.REWARD, -1), costs])

    def of_critics(self, batch: Batch, targets: Tensor) -> Tensor:
        """Of each critic the loss whose gradient it is, (2 + C,)."""
        values = self._critics(batch.obs, batch.stock, batch.action)[..., 0]  # (2 + C, batch)
        losses = squared_loss(values, targets, self._critics.units)
        self._critics.zero_grad()
        losses.sum().backward()  # type: ignore[no-untyped-call]
        return losses.detach()

    def of_actor(
        self, batch: Batch, price: Tensor, noise: torch.Generator
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The loss whose gradient it is.

        Also what the critics say of the proposed actions, (2 + C, batch), and the logarithms of
        their probabilities, (batch,).

        Args:
            batch: Of what was seen.
            price: Multipliers of each episode's *initial* budget, (batch, C).
            noise: Of the proposal.
        """
        proposal = self._behaviour.propose(batch.obs, batch.stock, noise)
        self._critics.requires_grad_(False)  # judges here; only the way back to the action counts
        values = self._critics(batch.obs, batch.stock, proposal.action)[..., 0]
        self._critics.requires_grad_(True)
        loss = actor_loss(
            reward=values[: self._behaviour.believed].amin(0),
            costs=values[Critics.REWARD :].T,
            price=price,
            penalty=proposal.penalty,
        )
        self._behaviour.actor.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach(), values.detach(), proposal.log_prob


def shaped(batch: Batch, shaping: Shaping) -> Tensor:
    """What a method makes of the rewards of single steps, (batch,), by the stocks around them."""
    stocks = (batch.stock, batch.successor_stock, batch.initial_stock)
    return torch.from_numpy(shaping(batch.reward.numpy(), *(stock.numpy() for stock in stocks)))


def bellman_target(gained: Tensor, discount: Tensor, future: Tensor) -> Tensor:
    """The discounted sum to come: the window's part and the future's, (..., batch).

    Args:
        gained: Discounted sum over the window, (..., batch).
        discount: gamma^k after k environment steps, 0 where the episode terminated, (batch,).
        future: Expected at the end of the window, (..., batch).
    """
    return gained + discount * future


def squared_loss(values: Tensor, targets: Tensor, units: Tensor) -> Tensor:
    """Of each critic the mean squared error in its own units, (critics,): a mean, no median.

    Args:
        values: Predictions, (critics, batch).
        targets: Constants, of the same shape.
        units: What one unit of each critic's outputs stands for, (critics,).
    """
    return ((values - targets) / units[:, None]).square().mean(-1)


def actor_loss(reward: Tensor, costs: Tensor, price: Tensor, penalty: Tensor) -> Tensor:
    """Reward against priced costs, at unit scale however prices grow.

    Args:
        reward: Expected, (batch,).
        costs: Expected, (batch, C).
        price: Multipliers of each episode's *initial* budget, (batch, C); constants here.
        penalty: Entropy term and regulariser, (batch,).
    """
    loss = penalty - reward + (price * costs).sum(-1)
    return (loss / (1.0 + price.sum(-1))).mean()
