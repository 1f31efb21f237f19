"""On-policy learning under budgets: PPO and what is built on its rollouts.

One policy acts for a rollout, is judged by advantages of the reward and of every priced cost, and
is improved on all of it, several times over, before it acts again. With prices from a table and the
excess as what is priced it is on-policy UCP; with one price and the mean, PPO-Lagrangian; with
shaped rewards and no price, Saute and its kin. None of them is a branch here.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from ucpo.envs.interface import Arrays, Episodes, Ints, Step
from ucpo.envs.shaping import Shaping
from ucpo.learners.actors import OnPolicyActor
from ucpo.learners.compiled.rollout_passes import Rules
from ucpo.learners.interface import Memory, Metrics, Multiplier
from ucpo.learners.minibatches import Seen, minibatches_of
from ucpo.learners.networks import Values
from ucpo.learners.normaliser import Normaliser
from ucpo.learners.optimisation import Adam, Slope, generator_on
from ucpo.learners.recent import Recent
from ucpo.learners.rollout import Increments, Rollout, Signals, advantages
from ucpo.learners.surrogates import Decisions, Scale, Surrogate, combined
from ucpo.learners.trust_region import TrustRegion
from ucpo.policies.policy import Policy, PolicyInfo
from ucpo.problem import Floats
from ucpo.storage import states

log = logging.getLogger("ucpo")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Step sizes, limits and paces; `ucpo.config.ppo_options` says what each of them does."""

    passes: int
    minibatch: int
    stop: float  # mean divergence after a pass at which passes end
    scale: Scale
    actor: Slope
    critic: Slope
    epsilon: float  # of Adam
    clip: float  # gradient norm
    clip_each: bool  # of each network apart
    regulariser: float  # of the critics' weights
    entropy: float
    unit_share: float  # by which units of values follow those of a rollout; 0: they stay
    unit_floor: tuple[float, ...]  # smallest units, (1 + C)


class PPO:
    """The on-policy learner.

    Args:
        actor: The policy.
        values: What it expects of the reward and of each priced cost; (1 + C) or, where no cost is
            priced, 1.
        signals: How these are summed up.
        increments: What a step adds to what is priced.
        multiplier: The price of each initial budget.
        shaping: The rewards learned from.
        rollout: Where transitions are kept.
        normaliser: Of observations; moves between rollouts only.
        improvement: What a minibatch says about the policy, or a step for a rollout at once.
        settings: Step sizes, limits and paces.
        about: What its policy files say, but for how far the training is.
        seed: Of noise in actions and of the order of transitions.
    """

    metrics: tuple[str, ...] = (
        "actor_loss",
        "reward_critic_loss",
        "cost_critic_loss",
        "entropy",
        "divergence",
        "passes",
        "predicted_return",
        "predicted_cost",
        "explained_return",
        "explained_cost",
    )

    def __init__(
        self,
        *,
        actor: OnPolicyActor,
        values: Values,
        signals: Signals,
        increments: Increments,
        multiplier: Multiplier,
        shaping: Shaping,
        rollout: Rollout,
        normaliser: Normaliser,
        improvement: Surrogate | TrustRegion,
        settings: Settings,
        about: PolicyInfo,
        seed: int,
    ) -> None:
        self.actor, self.values, self.multiplier = actor, values, multiplier
        self.signals, self.rollout, self.normaliser = signals, rollout, normaliser
        self.settings = settings
        self.memory: Memory | None = None
        self.env_steps = self.updates = self.rollouts = 0
        self._increments, self._shaping, self._about = increments, shaping, about
        self._region = improvement if isinstance(improvement, TrustRegion) else None
        self._priced = len(signals.gammas) - 1  # costs that have a critic
        learned: list[Tensor] = [] if self._region else [*actor.parameters()]
        learned += values.parameters()
        self._device = learned[0].device
        self._optimiser = Adam(learned, settings.epsilon)
        rules = Rules(settings.entropy, settings.regulariser, settings.clip, settings.clip_each)
        surrogate = None if isinstance(improvement, TrustRegion) else improvement
        self._minibatches = minibatches_of(actor, values, surrogate, self._optimiser, rules)
        self._noise = generator_on(self._device).manual_seed(seed)
        self._choice = np.random.default_rng(seed)
        self._recent = Recent(len(about.cost_names))
        self.sample: Floats = np.zeros(0, np.float32)  # what the last actions were made of
        self._earned, self._doubted = 0.0, False

    # --- Collect ---

    @torch.no_grad()
    def act(self, obs: Floats, stock: Floats) -> Floats:
        """Sampled actions, (n, action), for observations (n, obs) and stocks (n, C)."""
        output = self.actor(self._shown(obs), torch.from_numpy(stock).to(self._device))
        sample = self.actor.kind.sample(output, self.actor.spread, self._noise)
        # Ratios are of what was drawn: what clipping made of it has no density.
        self.sample = sample.cpu().numpy()
        actions: Floats = self.actor.action(sample).cpu().numpy()
        return actions

    def remember(self, obs: Floats, stock: Floats, actions: Floats, step: Step) -> None:
        """Note one decision everywhere."""
        stocks = (stock, step.successor_stock, step.initial_stock)
        reward, added = self._shaping(step.reward, *stocks), self._increments(*stocks)
        self.rollout.add(obs, stock, self.sample, actions, reward, added, step)
        self.env_steps += int(step.env_steps.sum())
        self._earned += float(step.reward.sum())

    @property
    def room(self) -> int:
        """Decisions until the rollout is full."""
        return self.rollout.room

    def acting(self) -> Arrays:
        """The actor and how observations are shown to it."""
        return states.gather(self._acting())

    def act_as(self, state: Arrays, seed: int) -> None:
        """Act as another does, with noise of this seed."""
        states.scatter(self._acting(), state)
        self._noise.manual_seed(seed)

    def forget(self, rows: Ints) -> None:
        """Episodes under way in these rows are lost."""
        self.rollout.forget(rows)

    def observe(self, episodes: Episodes) -> None:
        """Learn of finished episodes; they move the prices after the rollout they finished in."""
        if len(episodes):
            self.multiplier.observe(episodes)
            self._recent.observe(episodes)

    # --- Improve ---

    def last_until(self, env_steps: int) -> None:
        """Let learning rates that fall over the whole training do so until then."""
        falls = self.settings.actor.over(env_steps), self.settings.critic.over(env_steps)
        self.settings = replace(self.settings, actor=falls[0], critic=falls[1])

    def improve(self) -> Iterator[Metrics]:
        """Nothing until the rollout is full; then everything that can be learned from it."""
        if self.rollout.full:
            yield self.update()
            self.rollout.length = 0

    def update(self) -> Metrics:
        """Prices, then advantages at these prices, then policy and values; statistics last."""
        if self._recent.news:  # without, nothing new is known of the prices
            self.multiplier.update(self.env_steps)
            self._recent.news = False
        self._doubt()
        everything, kept = self._seen(), self._kept()
        seen = everything.at(kept)
        old, values, targets = self._judge(everything, seen, kept)
        self.rollouts += 1
        self._move_units(targets)
        in_units = (targets - self.values.mean[:, None]) / self.values.std[:, None]
        metrics = {} if self._region is None else self._region.improve(self.actor, seen, old)
        metrics |= self._pass_over(seen, old, in_units)
        self.normaliser.observe(self.rollout.obs.reshape(-1, self.rollout.obs.shape[-1]))
        return metrics | self._summary(values, targets)

    @torch.no_grad()
    def _judge(
        self, everything: Seen, seen: Seen, kept: Tensor | slice
    ) -> tuple[Decisions, Tensor, Tensor]:
        """The decisions that are `kept`, with their advantages.

        Returns also values and their targets, (1 + C, batch) each.
        """
        rollout, priced = self.rollout, self._priced
        shape = (*rollout.reward.shape, 1 + priced)
        now = self.values(everything.obs, everything.stock, everything.left)
        now = now.T.reshape(shape).cpu().numpy()
        gains = np.concatenate([rollout.reward[:, :, None], rollout.increments[:, :, :priced]], 2)
        judged = advantages(gains, now, self._values_after(shape), rollout, self.signals)
        found = self._flat(judged).T[:, kept].contiguous()  # (1 + C, batch)
        values = self._flat(now).T[:, kept].contiguous()
        price = self.multiplier.value(self._flat(rollout.initial_stock)[kept])[:, :priced]
        costs = found[1:].T
        output, spread = self.actor(seen.obs, seen.stock), self.actor.spread.detach().clone()
        sample = self._flat(rollout.sample)[kept]
        old = Decisions(
            sample=sample,
            log_prob=self.actor.kind.log_probability(sample, output, spread),
            output=output,
            spread=spread,
            advantage=combined(found[0], costs, price, self.settings.scale),
            costs=costs - costs.mean(0),
            excess=self._recent.excess(self._device)[:priced],
            length=self._recent.length(),
            kind=self.actor.kind,
        )
        return old, values, found + values

    def _values_after(self, shape: tuple[int, ...]) -> Floats:
        """Values of states that decisions led to, where a time limit or the rollout's end is."""
        rollout, after = self.rollout, np.zeros(shape, np.float32)
        needed = rollout.truncated.copy()
        needed[-1] = True
        parts = rollout.successor, rollout.successor_stock, rollout.left_after()
        obs, stock, left = (part[needed] for part in parts)
        s, z, time = self._shown(obs), self._tensor(stock), self._tensor(left)
        after[needed] = self.values(s, z, time).T.cpu().numpy()
        return after

    def _move_units(self, targets: Tensor) -> None:
        """Let units of values follow the targets of this rollout, the first time at once."""
        share = max(self.settings.unit_share, 1.0 / self.rollouts)
        if self.settings.unit_share == 0.0:
            return
        floor = torch.tensor(self.settings.unit_floor, device=self._device)
        mean = torch.lerp(self.values.mean, targets.mean(1), share)
        std = torch.lerp(self.values.std, targets.std(1, correction=0), share)
        self.values.set_units(mean, torch.maximum(std, floor))

    def _pass_over(self, seen: Seen, old: Decisions, targets: Tensor) -> dict[str, Tensor]:
        """Passes over the rollout in minibatches, until the policy has moved far enough."""
        settings, rows = self.settings, len(old.advantage)
        count = max(1, round(rows / settings.minibatch))
        rates = settings.actor.at(self.env_steps), settings.critic.at(self.env_steps)
        go_over = self._minibatches.over(seen, old, targets)
        moved, passes = torch.zeros(()), 0
        while passes < settings.passes and moved <= settings.stop:
            order = torch.from_numpy(self._choice.permutation(rows)).to(self._device)
            losses, moved = go_over(order, count, rates)
            passes += 1
            self.updates += count
        loss = losses.mean(0)
        with torch.no_grad():
            entropy = self.actor.entropy(seen.obs, seen.stock).cpu()
        said = {"reward_critic_loss": loss[1], "passes": torch.tensor(float(passes))}
        if self._region is None:
            said |= {"actor_loss": loss[0]}
        if self._priced:
            said |= {"cost_critic_loss": loss[2:].mean()}
        return said | {"divergence": moved, "entropy": entropy}

    def _summary(self, values: Tensor, targets: Tensor) -> dict[str, Tensor]:
        """What was expected, and which share of what came was."""
        errors = (targets - values).var(1, correction=0)
        spread = targets.var(1, correction=0).clamp(min=1e-12)
        explained = (1.0 - errors / spread).clamp(min=-1.0)
        said = {"predicted_return": values[0].mean(), "explained_return": explained[0]}
        if self._priced:
            said |= {"predicted_cost": values[1:].mean(), "explained_cost": explained[1:].mean()}
        return said

    def _doubt(self) -> None:
        """Say once what speaks against the rewards as they are shaped."""
        doubt = self._shaping.doubt(self._earned / self.rollout.env_steps.size)
        self._earned = 0.0
        if doubt is not None and not self._doubted:
            self._doubted = True
            log.warning("%s", doubt)

    # --- Tensors of a rollout ---

    def _tensor(self, values: Floats) -> Tensor:
        return torch.from_numpy(values).to(self._device)

    def _shown(self, obs: Floats) -> Tensor:
        return self.normaliser(self._tensor(obs))

    def _flat(self, values: Floats) -> Tensor:
        """(decisions, n, k) -> (decisions * n, k)."""
        return self._tensor(values.reshape(-1, values.shape[-1]))

    def _kept(self) -> Tensor | slice:
        """Decisions of which it is known what came: nearly always all, and nothing is copied."""
        lost = self.rollout.lost.reshape(-1)
        return torch.from_numpy(~lost).to(self._device) if lost.any() else slice(None)

    def _seen(self) -> Seen:
        rollout = self.rollout
        left = self._tensor(rollout.left.reshape(-1))
        return Seen(self.normaliser(self._flat(rollout.obs)), self._flat(rollout.stock), left)

    # --- Be asked and saved ---

    def prices(self) -> list[Floats]:
        """For each cost the prices of its budgets, largest budget first."""
        return [table.numpy() for table in self.multiplier.tables()]

    def policy(self) -> Policy:
        """The actor as it stands, for observations as they are, on the CPU."""
        info = replace(self._about, env_steps=self.env_steps, updates=self.updates)
        return Policy(self.normaliser.plain(self.actor).cpu(), info)

    def cut(self) -> None:
        """Forget the rollout under way: its episodes do not go on."""
        self.rollout.cut()

    def recent_actions(self, row: int, env_steps: int) -> Floats:
        """What an environment was last made to do, (k, action)."""
        return self.rollout.recent_actions(row, env_steps)

    def state(self) -> Arrays:
        """Everything that what comes next depends on."""
        return states.gather(self._parts())

    def restore(self, state: Arrays) -> None:
        """Go on from the state of a learner of the same configuration."""
        states.scatter(self._parts(), state)

    def _acting(self) -> dict[str, states.Part]:
        return {"actor": states.Module(self.actor, "actor"), "normaliser": self.normaliser}

    def _parts(self) -> dict[str, states.Part]:
        return {
            **self._acting(),
            "values": states.Module(self.values, "values"),
            "adam": self._optimiser,
            "multipliers": self.multiplier,
            "rollout": self.rollout,
            "recent": self._recent,
            "noise": states.Noise(self._noise),
            "choice": states.Choice(self._choice),
            "counts": states.Counts(self, ("env_steps", "updates", "rollouts")),
        }
