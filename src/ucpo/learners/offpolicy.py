"""SAC and TD3 with prices: scalar critics, two of the reward and one of each cost, on a replay.

What tells the two apart is a `Behaviour`, what a cost is worth a `Multiplier`, when that moves a
`Pace`, and what a method makes of rewards a `Shaping`. A price of 0 is the plain learner.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from ucpo.envs.interface import Arrays, Episodes, Step
from ucpo.envs.shaping import Shaping
from ucpo.learners.behaviours import Behaviour
from ucpo.learners.by_hand import ByHand
from ucpo.learners.interface import Memory, Metrics, Multiplier
from ucpo.learners.networks import Critics
from ucpo.learners.normaliser import Normaliser
from ucpo.learners.optimisation import Decay, Descent, generator_on, polyak
from ucpo.learners.pace import Pace
from ucpo.learners.replay import Batch, Replay
from ucpo.policies.policy import Policy, PolicyInfo
from ucpo.problem import BudgetGrid, Floats
from ucpo.storage import states

log = logging.getLogger("ucpo")


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
    delay: int  # updates of the critics for each of the actor and of all targets
    actor_every: int  # of these, in bursts of as many
    random_steps: int  # environment steps with random actions, before learning begins
    updates: int  # per iteration of all environments


class OffPolicy:
    """The learner behind SAC, TD3 and the methods made of them.

    Args:
        grid: The initial budgets episodes begin with.
        behaviour: The actor and its ways.
        critics: Two of the reward and one of each cost, with one output each.
        multiplier: The price of each initial budget.
        pace: When prices move.
        shaping: What is made of rewards.
        replay: Where transitions are kept, with their own rewards.
        normaliser: Of observations.
        settings: Step sizes, limits and paces.
        about: What its policy files say, but for how far the training is.
        seed: Of noise in actions and of the choice of transitions.
        generator: Of random actions before learning begins.
    """

    def __init__(
        self,
        *,
        grid: BudgetGrid,
        behaviour: Behaviour,
        critics: Critics,
        multiplier: Multiplier,
        pace: Pace,
        shaping: Shaping,
        replay: Replay,
        normaliser: Normaliser,
        settings: Settings,
        about: PolicyInfo,
        seed: int,
        generator: np.random.Generator,
    ) -> None:
        self.grid, self.multiplier, self.pace, self.shaping = grid, multiplier, pace, shaping
        self.behaviour, self.actor, self.critics = behaviour, behaviour.actor, critics
        self.target_critics = deepcopy(critics).requires_grad_(False)
        self.replay = replay
        self.memory: Memory | None = replay
        self.normaliser, self.settings = normaliser, settings
        self.env_steps = self.updates = 0
        self.metrics: tuple[str, ...] = (*_METRICS, *behaviour.metrics)
        self._about, self._generator, self._learning = about, generator, False
        self._actor_weights: list[Tensor] = list(self.actor.parameters())
        self._critic_weights: list[Tensor] = list(critics.parameters())
        self._target_weights: list[Tensor] = list(self.target_critics.parameters())
        self._actor_descent = Descent(self._actor_weights, settings.actor_clip)
        self._critic_descent = Descent(self._critic_weights, settings.critic_clip, Critics.REWARD)
        possible = ByHand.possible(behaviour, critics)
        self._gradients = (ByHand if possible else Graph)(behaviour, critics)
        self._device = self._actor_weights[0].device  # of the networks; all else is on the CPU
        self._noise = generator_on(self._device).manual_seed(seed)
        self._choice = np.random.default_rng(seed)

    # --- Collect ---

    @torch.no_grad()
    def act(self, obs: Floats, stock: Floats) -> Floats:
        """Actions to collect with, (n, action), for observations (n, obs) and stocks (n, C)."""
        self._learning = self.env_steps >= self.settings.random_steps
        if not self._learning:
            shape = (len(obs), len(self._about.action_low))
            return self._generator.uniform(-1.0, 1.0, shape).astype(np.float32)
        s, z = torch.from_numpy(obs).to(self._device), torch.from_numpy(stock).to(self._device)
        actions: Floats = self.behaviour.explore(self.normaliser(s), z, self._noise).cpu().numpy()
        return actions

    def remember(self, obs: Floats, stock: Floats, actions: Floats, step: Step) -> None:
        """Store what one iteration brought, with the task's own rewards."""
        self.replay.add(obs, stock, actions, step)
        self.normaliser.observe(obs)
        self.env_steps += int(step.env_steps.sum())

    def observe(self, episodes: Episodes) -> None:
        """Finished episodes move the prices, now or later."""
        self.pace.observed(self.multiplier, episodes, self.env_steps)

    # --- Improve ---

    def improve(self) -> Iterator[Metrics]:
        """The updates of one iteration, once there is more than random actions."""
        if self._learning and self.updates == 0:
            self._voice_doubts()
        for _ in range(self.settings.updates if self._learning else 0):
            yield self.update()

    def update(self) -> dict[str, Tensor]:
        """Critics; now and then the actor and the targets."""
        settings = self.settings
        batch = self._sample()
        metrics = self._improve_critics(batch)
        self.updates += 1
        if self.updates % (settings.delay * settings.actor_every) == 0:
            for _ in range(settings.actor_every):
                metrics |= self._improve_actor(batch)
        if self.updates % settings.delay == 0:
            polyak(self._target_weights, self._critic_weights, settings.critic_polyak)
            self.behaviour.follow()
        self.pace.updated(self.multiplier, self.env_steps)
        return metrics

    def _sample(self) -> Batch:
        """Some of the past as networks see it, part of it as if under other budgets.

        Rewards are shaped here, by the stocks of the budget they are seen under.
        """
        drawn = self.replay.sample(self.settings.batch, self._choice)
        if self.settings.relabelled:
            others = self.grid.draws(self.settings.relabelled, self._choice)
            drawn = drawn.under(torch.from_numpy(others))
        reward = shaped(drawn, self.shaping).to(self._device)
        drawn = drawn.to(self._device)
        obs, successor = self.normaliser(drawn.obs), self.normaliser(drawn.successor)
        return replace(drawn, reward=reward, obs=obs, successor=successor)

    def _improve_critics(self, batch: Batch) -> dict[str, Tensor]:
        losses = self._gradients.of_critics(batch, self._targets(batch))
        self._critic_descent.follow(self.settings.critic.at(self.env_steps))
        return {
            "reward_critic_loss": losses[: Critics.REWARD].mean(),
            "cost_critic_loss": losses[Critics.REWARD :].mean(),
        }

    @torch.no_grad()
    def _targets(self, batch: Batch) -> Tensor:
        """What each critic should predict, (2 + C, batch)."""
        s, z = batch.successor, batch.successor_stock
        ahead = self.behaviour.foresee(s, z, self._noise)
        future = self.target_critics(s, z, ahead.actions)[..., 0]
        soft_reward = torch.minimum(future[0], future[1]) + ahead.bonus
        reward = bellman_target(batch.reward, batch.discount, soft_reward)
        costs = bellman_target(batch.costs.T, batch.cost_discount, future[Critics.REWARD :])
        return torch.cat([reward.expand(Critics.REWARD, -1), costs])

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

    def prices(self) -> list[Floats]:
        """For each cost the prices of its budgets, largest budget first."""
        return [table.numpy() for table in self.multiplier.tables()]

    def policy(self) -> Policy:
        """The actor as it stands, for observations as they are, on the CPU.

        Its critics are no distributions that could be calibrated, so they are not kept beside it.
        """
        info = replace(self._about, env_steps=self.env_steps, updates=self.updates)
        actor = self.normaliser.plain(self.actor)
        return Policy(actor if self._device.type == "cpu" else deepcopy(actor).cpu(), info)

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
        names = ("actor", "critics", "target_critics")
        return {
            **{name: states.Module(getattr(self, name), name) for name in names},
            "actor_adam": self._actor_descent,
            "critic_adam": self._critic_descent,
            **self.behaviour.parts(),
            "normaliser": self.normaliser,
            "multipliers": self.multiplier,
            "noise": states.Noise(self._noise),
            "choice": states.Choice(self._choice),
            "counts": states.Counts(self, ("env_steps", "updates")),
        }


_METRICS = (
    "reward_critic_loss",
    "cost_critic_loss",
    "actor_loss",
    "predicted_return",
    "predicted_cost",
)


# --- The equations ---


class Graph:
    """Leaves the gradients of the losses in the weights.

    `ucpo.learners.by_hand.ByHand` does the same where networks have compiled passes.

    Args:
        behaviour: The actor and its ways.
        critics: With one output each.
    """

    def __init__(self, behaviour: Behaviour, critics: Critics) -> None:
        self._behaviour, self._critics = behaviour, critics

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
