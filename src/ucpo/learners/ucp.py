"""Utility-Constrained Policies: Algorithm 1 of the paper, in its order.

Collect with `act` and `remember`, improve with `update`, and let `observe` see finished episodes,
which move the multipliers. The variants of the paper differ in the problem (utility), the budget
grid (one level: a single budget and multiplier), the stock's discount and whether the networks see
the stock; none of them is a branch here.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from ucpo.envs.interface import Arrays, Episodes, Step
from ucpo.learners.multipliers import Multipliers
from ucpo.learners.networks import Actor, Critics
from ucpo.learners.normaliser import Normaliser
from ucpo.learners.quantiles import quantile_loss
from ucpo.learners.replay import Batch, Replay
from ucpo.problem import Floats, Problem
from ucpo.storage import states


@dataclass(frozen=True)
class Decay:
    """A step size that stays at first, falls geometrically to last, then stays there."""

    first: float
    last: float
    start: int  # environment steps before it falls
    env_steps: int  # it takes to fall

    def at(self, env_steps: int) -> float:
        """The step size after so many environment steps."""
        share = min(max(env_steps - self.start, 0) / self.env_steps, 1.0)
        return float(self.first * (self.last / self.first) ** share)


@dataclass(frozen=True, kw_only=True)
class Rates:
    """Step sizes and limits of the updates; `ucpo.config.options` says what each of them does."""

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
    multiplier_start: int  # environment steps before the multipliers begin to move


class Entropy:
    """The weight alpha of the entropy, fixed or tuned towards a target."""

    def __init__(self, weight: float, *, rate: float = 0.0, target: float = 0.0) -> None:
        self.weight = torch.tensor(weight)
        self._target = target
        self._log = self.weight.log().requires_grad_(rate > 0.0)
        self._optimiser = torch.optim.Adam([self._log], lr=rate) if rate > 0.0 else None

    def update(self, log_prob: Tensor) -> None:
        """Raise the weight while the policy's entropy is below the target."""
        if self._optimiser is None:
            return
        loss = -self._log.exp() * (log_prob.detach().mean().to(self._log.device) + self._target)
        self._optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self._optimiser.step()
        self.weight = self._log.detach().exp()

    def state(self) -> Arrays:
        """What `restore` needs to go on from here."""
        now = {"weight": self.weight.numpy().copy(), "log": self._log.detach().numpy().copy()}
        if self._optimiser is not None:
            now |= states.within("adam", states.of_optimiser(self._optimiser, [self._log]))
        return now

    def restore(self, state: Arrays) -> None:
        """Go on from a saved state."""
        adam, values = states.part(state, "adam"), {k: state[k] for k in state if "/" not in k}
        number = np.zeros((), np.float32)
        states.fit(values, {"weight": number, "log": number}, "entropy weight")
        if self._optimiser is not None:
            states.set_optimiser(self._optimiser, [self._log], adam, "entropy weight")
        self.weight = torch.from_numpy(values["weight"].copy())
        with torch.no_grad():
            self._log.copy_(torch.from_numpy(values["log"]))


class UCPAgent:
    """A SAC-style agent with quantile critics, stocks and a multiplier per initial budget."""

    METRICS = (
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
        actor: Actor,
        critics: Critics,
        multipliers: Multipliers,
        replay: Replay,
        normaliser: Normaliser,
        entropy: Entropy,
        rates: Rates,
        seed: int,
    ) -> None:
        self.problem, self.multipliers, self.replay = problem, multipliers, replay
        self.actor, self.critics = actor, critics
        self.target_actor = deepcopy(actor).requires_grad_(False)
        self.target_critics = deepcopy(critics).requires_grad_(False)
        self.normaliser, self.entropy, self.rates = normaliser, entropy, rates
        self.env_steps = 0
        self.updates = 0
        self._actor_weights: list[Tensor] = list(actor.parameters())
        self._critic_weights: list[Tensor] = list(critics.parameters())
        self._target_actor_weights: list[Tensor] = list(self.target_actor.parameters())
        self._target_critic_weights: list[Tensor] = list(self.target_critics.parameters())
        self._actor_optimiser = _adam(self._actor_weights, rates.actor.first)
        self._critic_optimiser = _adam(self._critic_weights, rates.critic.first)
        self._device = self._actor_weights[0].device  # of the networks; all else is on the CPU
        self._noise = _generator(self._device).manual_seed(seed)
        self._choice = np.random.default_rng(seed)

    # --- Collect ---

    @torch.no_grad()
    def act(self, obs: Floats, stock: Floats) -> Floats:
        """Sampled actions in [-1, 1], (n, action), for observations (n, obs) and stocks (n, C)."""
        s, z = torch.from_numpy(obs).to(self._device), torch.from_numpy(stock).to(self._device)
        sample = self.actor.sample(self.normaliser(s), z, self._noise)
        actions: Floats = sample.action.cpu().numpy()
        return actions

    def remember(self, obs: Floats, stock: Floats, actions: Floats, step: Step) -> None:
        """Store what one iteration brought."""
        self.replay.add(obs, stock, actions, step)
        self.normaliser.observe(obs)
        self.env_steps += int(step.env_steps.sum())

    def observe(self, episodes: Episodes) -> None:
        """Learn of finished episodes: initial stock and episodic cost."""
        self.multipliers.observe(episodes)

    # --- Improve ---

    def update(self) -> dict[str, Tensor]:
        """One update of critics, actor, multipliers and targets; returns some of `METRICS`."""
        rates = self.rates
        batch = self._batch()
        critic_losses = self._improve_critics(batch)
        metrics = {
            "reward_critic_loss": critic_losses[: Critics.REWARD].mean(),
            "cost_critic_loss": critic_losses[Critics.REWARD :].mean(),
        }

        self.updates += 1
        if self.updates % rates.actor_every == 0:
            for _ in range(rates.actor_every):
                metrics |= self._improve_actor(batch)

        if self.env_steps >= rates.multiplier_start:
            self.multipliers.update()

        polyak(self._target_critic_weights, self._critic_weights, rates.critic_polyak)
        polyak(self._target_actor_weights, self._actor_weights, rates.actor_polyak)
        return metrics

    def _batch(self) -> Batch:
        drawn = self.replay.sample(self.rates.batch, self._choice)
        if self.rates.relabelled:
            others = self.multipliers.grid.draws(self.rates.relabelled, self._choice)
            drawn = drawn.under(torch.from_numpy(others))
        drawn = drawn.to(self._device)
        seen = {"obs": self.normaliser(drawn.obs), "successor": self.normaliser(drawn.successor)}
        return replace(drawn, **seen)

    def _improve_critics(self, batch: Batch) -> Tensor:
        with torch.no_grad():
            targets = self._targets(batch)
        quantiles = self.critics(batch.obs, batch.stock, batch.action)
        losses = quantile_loss(quantiles, targets)  # (2 + C,)
        self._critic_optimiser.zero_grad()
        losses.sum().backward()  # type: ignore[no-untyped-call]
        clip_critics(self._critic_weights, self.rates.critic_clip)
        _step(self._critic_optimiser, self.rates.critic.at(self.env_steps))
        return losses.detach()

    def _targets(self, batch: Batch) -> Tensor:
        """What each critic should predict, (2 + C, batch, N)."""
        s, z = batch.successor, batch.successor_stock
        sample = self.target_actor.sample(s, z, self._noise)
        action = torch.tanh(sample.mean) if self.rates.next_action == "mean" else sample.action
        future = self.target_critics(s, z, action)
        soft_reward = pessimist(future[:2]) - self.entropy.weight * sample.log_prob[:, None]
        reward = bellman(batch.reward, batch.discount, soft_reward)
        costs = bellman(batch.costs.T, batch.cost_discount, future[2:])
        return torch.cat([reward.expand(2, -1, -1), costs])

    def _improve_actor(self, batch: Batch) -> dict[str, Tensor]:
        sample = self.actor.sample(batch.obs, batch.stock, self._noise)
        self.critics.requires_grad_(False)  # judges here; only the way back to the action counts
        quantiles = self.critics(batch.obs, batch.stock, sample.action)
        self.critics.requires_grad_(True)
        loss = actor_loss(
            reward=pessimist(quantiles[:2]),
            costs=quantiles[2:].transpose(0, 1),
            stock=batch.stock,
            price=self.multipliers.value(batch.initial_stock),
            problem=self.problem,
            penalty=self.entropy.weight * sample.log_prob
            + self.rates.regulariser * size(sample.mean, sample.log_std),
        )
        self._actor_optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self._actor_weights, self.rates.actor_clip)
        _step(self._actor_optimiser, self.rates.actor.at(self.env_steps))
        self.entropy.update(sample.log_prob)
        return {
            "actor_loss": loss.detach(),
            "entropy": -sample.log_prob.detach().mean(),
            "entropy_weight": self.entropy.weight,
            "predicted_return": quantiles[:2].detach().mean(),
            "predicted_cost": quantiles[2:].detach().mean(),
        }

    # --- Be saved ---

    def state(self) -> Arrays:
        """Everything that what comes next depends on, except the rows of the replay."""
        parts = {
            **{name: states.of_module(network) for name, network in self._networks().items()},
            "actor_adam": states.of_optimiser(self._actor_optimiser, self._actor_weights),
            "critic_adam": states.of_optimiser(self._critic_optimiser, self._critic_weights),
            "normaliser": self.normaliser.state(),
            "entropy": self.entropy.state(),
            "multipliers": self.multipliers.state(),
            "noise": states.of_noise(self._noise),
            "choice": states.of_generator(self._choice),
            "counts": {"env_steps": np.array(self.env_steps), "updates": np.array(self.updates)},
        }
        return {k: v for name, kept in parts.items() for k, v in states.within(name, kept).items()}

    def restore(self, state: Arrays) -> None:
        """Go on from the state of an agent of the same configuration."""
        for name, network in self._networks().items():
            states.set_module(network, states.part(state, name), name)
        for name, optimiser, weights in (
            ("actor_adam", self._actor_optimiser, self._actor_weights),
            ("critic_adam", self._critic_optimiser, self._critic_weights),
        ):
            states.set_optimiser(optimiser, weights, states.part(state, name), name)
        self.normaliser.restore(states.part(state, "normaliser"))
        self.entropy.restore(states.part(state, "entropy"))
        self.multipliers.restore(states.part(state, "multipliers"))
        states.set_noise(self._noise, states.part(state, "noise"), "noise")
        states.set_generator(self._choice, states.part(state, "choice"), "choice of transitions")
        counts, count = states.part(state, "counts"), np.array(0)
        states.fit(counts, {"env_steps": count, "updates": count}, "agent")
        self.env_steps, self.updates = int(counts["env_steps"]), int(counts["updates"])

    def _networks(self) -> dict[str, nn.Module]:
        return {
            "actor": self.actor,
            "critics": self.critics,
            "target_actor": self.target_actor,
            "target_critics": self.target_critics,
        }


# --- The equations ---


def pessimist(twins: Tensor) -> Tensor:
    """Of two reward critics, for each sample all quantiles of the one with the smaller mean.

    (2, batch, N) -> (batch, N)
    """
    first, second = twins
    return torch.where((first.mean(-1) <= second.mean(-1))[:, None], first, second)


def bellman(gained: Tensor, discount: Tensor, future: Tensor) -> Tensor:
    """Samples of the discounted sum: what the window brought, plus the discounted future.

    Args:
        gained: Discounted sum over the window, (..., batch).
        discount: gamma^k after k steps, 0 where the episode terminated, (batch,).
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
    """Reward against priced utility of the final stock, kept at unit scale however prices grow.

    Args:
        reward: Quantiles of the more pessimistic reward critic, (batch, N).
        costs: Quantiles of the future costs, (batch, C, N).
        stock: Costs so far minus the budget, in cost units, (batch, C).
        price: Multipliers of each episode's *initial* budget, (batch, C); constants here.
        problem: Says which utility each cost has.
        penalty: Entropy term and regulariser, (batch,).
    """
    final = stock[:, :, None] + costs
    utilities = [limit.utility(final[:, cost]) for cost, limit in enumerate(problem.constraints)]
    expected = torch.stack(utilities, dim=1).mean(-1)  # (batch, C)
    loss = penalty - reward.mean(-1) + (price * expected).sum(-1)
    return (loss / (1.0 + price.sum(-1))).mean()


def size(mean: Tensor, log_std: Tensor) -> Tensor:
    """Squared size of the policy's parameters, which the regulariser keeps small, (batch,)."""
    return mean.square().sum(-1) + log_std.square().sum(-1)


# --- Optimisation ---


def clip_critics(weights: list[Tensor], limit: float) -> None:
    """Limit the gradient norm of the reward critics together and of each cost critic apart.

    Each of the weights is a matrix with a row for each critic.
    """
    gradients = [weight.grad for weight in weights if weight.grad is not None]
    squares = torch.stack([torch.linalg.vecdot(g, g) for g in gradients]).sum(0)  # (2 + C,)
    squares[: Critics.REWARD] = squares[: Critics.REWARD].sum()
    shrink = (limit / (squares.sqrt() + 1e-6)).clamp(max=1.0)
    for gradient in gradients:
        gradient.mul_(shrink[:, None])


@torch.no_grad()
def polyak(targets: list[Tensor], sources: list[Tensor], share: float) -> None:
    """Move every target by a share of the way to its source."""
    torch._foreach_lerp_(targets, sources, share)


def _adam(weights: list[Tensor], rate: float) -> torch.optim.Adam:
    return torch.optim.Adam(weights, lr=rate, fused=weights[0].device.type in ("cpu", "cuda"))


def _step(optimiser: torch.optim.Optimizer, rate: float) -> None:
    for group in optimiser.param_groups:
        group["lr"] = rate
    optimiser.step()


def _generator(device: torch.device) -> torch.Generator:
    """Meta tensors hold no numbers, and need none; all else draws where it computes."""
    return torch.Generator("cpu" if device.type == "meta" else device)
