"""What a run asks of learners with a replay, all but learning: UCP, SAC and TD3 fill that in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from ucpo.envs.interface import Arrays, Episodes, Step
from ucpo.learners.interface import Memory, Metrics, Multiplier
from ucpo.learners.networks import Actor, Critics
from ucpo.learners.normaliser import Network, Normaliser
from ucpo.learners.optimisation import Decay, Descent, generator_on
from ucpo.learners.replay import Batch, Replay
from ucpo.policies.policy import Policy, PolicyInfo
from ucpo.problem import BudgetGrid, Floats
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
    actor_every: int  # updates of the critics for each of the actor's, in bursts of as many
    random_steps: int  # environment steps with random actions, before learning begins
    updates: int  # per iteration of all environments


@dataclass(frozen=True, kw_only=True)
class Equipment:
    """What all of them are made of."""

    grid: BudgetGrid
    """The initial budgets episodes begin with."""
    actor: Actor
    """The policy; sees observations through the normaliser, like the critics."""
    critics: Critics
    """Two of the reward and one of each cost."""
    multiplier: Multiplier
    """The price of each initial budget."""
    replay: Replay
    """Where transitions are kept, with their own rewards."""
    normaliser: Normaliser
    """Of observations."""
    about: PolicyInfo
    """What policy files say, but for how far the training is."""
    seed: int
    """Of noise in actions and of the choice of transitions."""
    generator: np.random.Generator
    """Of random actions before learning begins."""


class FromReplay(ABC):
    """Acts at random until there is something to learn from, remembers, draws from the past.

    No algorithm by itself: what to do, what to learn and what of it to keep is left open.
    """

    metrics: tuple[str, ...]
    """Names of everything its updates may say."""
    settings: Settings

    def __init__(self, equipment: Equipment, settings: Settings) -> None:
        self.grid, self.multiplier = equipment.grid, equipment.multiplier
        self.actor, self.critics = equipment.actor, equipment.critics
        self.target_critics = deepcopy(equipment.critics).requires_grad_(False)
        self.replay, self.normaliser = equipment.replay, equipment.normaliser
        self.memory: Memory | None = equipment.replay
        self.settings, self.env_steps, self.updates = settings, 0, 0
        self._about, self._generator, self._learning = equipment.about, equipment.generator, False
        self._actor_weights: list[Tensor] = list(self.actor.parameters())
        self._critic_weights: list[Tensor] = list(self.critics.parameters())
        self._target_critic_weights: list[Tensor] = list(self.target_critics.parameters())
        self._actor_descent = Descent(self._actor_weights, settings.actor_clip)
        self._critic_descent = Descent(self._critic_weights, settings.critic_clip, Critics.REWARD)
        self._device = self._actor_weights[0].device  # of the networks; all else is on the CPU
        self._noise = generator_on(self._device).manual_seed(equipment.seed)
        self._choice = np.random.default_rng(equipment.seed)

    # --- To be filled in ---

    @abstractmethod
    def explore(self, obs: Tensor, stock: Tensor) -> Tensor:
        """Actions to collect with, (n, action), for observations as networks see them."""

    @abstractmethod
    def observe(self, episodes: Episodes) -> None:
        """Learn of finished episodes; they move the prices."""

    @abstractmethod
    def update(self) -> dict[str, Tensor]:
        """Learn once."""

    @abstractmethod
    def policy(self) -> Policy:
        """What has been learned so far."""

    @abstractmethod
    def parts(self) -> dict[str, states.Part]:
        """What has a state of its own, beside what all these learners have."""

    # --- Collect ---

    @torch.no_grad()
    def act(self, obs: Floats, stock: Floats) -> Floats:
        """Actions to collect with, (n, action), for observations (n, obs) and stocks (n, C)."""
        self._learning = self.env_steps >= self.settings.random_steps
        if not self._learning:
            shape = (len(obs), len(self._about.action_low))
            return self._generator.uniform(-1.0, 1.0, shape).astype(np.float32)
        s, z = torch.from_numpy(obs).to(self._device), torch.from_numpy(stock).to(self._device)
        actions: Floats = self.explore(self.normaliser(s), z).cpu().numpy()
        return actions

    def remember(self, obs: Floats, stock: Floats, actions: Floats, step: Step) -> None:
        """Store what one iteration brought."""
        self.replay.add(obs, stock, actions, step)
        self.normaliser.observe(obs)
        self.env_steps += int(step.env_steps.sum())

    # --- Improve ---

    def improve(self) -> Iterator[Metrics]:
        """The updates of one iteration, once there is more than random actions."""
        for _ in range(self.settings.updates if self._learning else 0):
            yield self.update()

    def draw(self) -> Batch:
        """Some of the past, part of it as if under other budgets, on the CPU."""
        drawn = self.replay.sample(self.settings.batch, self._choice)
        if self.settings.relabelled:
            others = self.grid.draws(self.settings.relabelled, self._choice)
            drawn = drawn.under(torch.from_numpy(others))
        return drawn

    def seen(self, drawn: Batch) -> Batch:
        """The same as networks see it, where they are."""
        drawn = drawn.to(self._device)
        obs, successor = self.normaliser(drawn.obs), self.normaliser(drawn.successor)
        return replace(drawn, obs=obs, successor=successor)

    # --- Be asked and saved ---

    def prices(self) -> list[Floats]:
        """For each cost the prices of its budgets, largest budget first."""
        return [table.numpy() for table in self.multiplier.tables()]

    def info(self) -> PolicyInfo:
        """What its policy files say."""
        return replace(self._about, env_steps=self.env_steps, updates=self.updates)

    def plain(self, network: Network) -> Network:
        """A copy of a network as it stands, for observations as they are, on the CPU."""
        made = self.normaliser.plain(network)
        made.cpu()
        return made

    def cut(self) -> None:
        """Let the newest transitions be the last of their episodes."""
        self.replay.cut()

    def recent_actions(self, row: int, env_steps: int) -> Floats:
        """What an environment was last made to do, (k, action)."""
        return self.replay.actions(row, env_steps)

    def state(self) -> Arrays:
        """Everything that what comes next depends on, except the rows of the replay."""
        return states.gather(self._all_parts())

    def restore(self, state: Arrays) -> None:
        """Go on from the state of a learner of the same configuration."""
        states.scatter(self._all_parts(), state)

    def _all_parts(self) -> dict[str, states.Part]:
        names = ("actor", "critics", "target_critics")
        return {
            **{name: states.Module(getattr(self, name), name) for name in names},
            "actor_adam": self._actor_descent,
            "critic_adam": self._critic_descent,
            **self.parts(),
            "normaliser": self.normaliser,
            "multipliers": self.multiplier,
            "noise": states.Noise(self._noise),
            "choice": states.Choice(self._choice),
            "counts": states.Counts(self, ("env_steps", "updates")),
        }
