"""The update of Algorithm 1 the way one writes it first: what `learner.py` compares with.

Separate networks of `torch.nn`, every pair of quantile and target in memory, autograd for all
gradients, one optimiser for each network. It starts from an agent's weights, draws the same noise
and must arrive at the same weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import deepcopy

import torch
from torch import Tensor, nn

from ucpo.learners.networks import Body
from ucpo.learners.replay import Batch
from ucpo.learners.ucp import UCP


class Straightforward:
    def __init__(self, agent: UCP, *, compiled: bool = False) -> None:
        self.rates, self.scale = agent.settings, agent.critics.body.stock_scale
        self.prices = agent.multiplier
        self.actor = plain(agent.actor.body)[0]
        self.critics = plain(agent.critics.body)
        self.target_actor, self.target_critics = deepcopy(self.actor), deepcopy(self.critics)
        self.optimisers = [
            torch.optim.Adam(c.parameters(), self.rates.critic.first) for c in self.critics
        ]
        self.actor_optimiser = torch.optim.Adam(self.actor.parameters(), self.rates.actor.first)
        count = self.critics[0][-1].out_features
        self.taus = (torch.arange(count) + 0.5) / count
        wrap: Callable = torch.compile if compiled else (lambda function: function)
        self.critic_loss, self.actor_loss = wrap(self._critic_loss), wrap(self._actor_loss)

    def update(self, batch: Batch, noise: tuple[Tensor, Tensor]) -> None:
        """One update; `noise` (batch, action) is that of the next actions and of the actions."""
        for optimiser in self.optimisers:
            optimiser.zero_grad()
        self.critic_loss(batch, noise[0]).backward()
        reward = [*self.critics[0].parameters(), *self.critics[1].parameters()]
        for group in (reward, *(list(critic.parameters()) for critic in self.critics[2:])):
            nn.utils.clip_grad_norm_(group, self.rates.critic_clip)
        for optimiser in self.optimisers:
            optimiser.step()

        self.actor_optimiser.zero_grad()
        self.actor_loss(batch, noise[1], self.prices.value(batch.initial_stock)).backward()
        nn.utils.clip_grad_norm_(self.actor.parameters(), self.rates.actor_clip)
        self.actor_optimiser.step()

        follow(self.target_critics, self.critics, self.rates.critic_polyak)
        follow(self.target_actor, self.actor, self.rates.actor_polyak)

    def _critic_loss(self, batch: Batch, noise: Tensor) -> Tensor:
        with torch.no_grad():
            s, z = batch.successor, batch.successor_stock / self.scale
            action, _, _ = sample(self.target_actor, s, z, noise)
            future = [critic(torch.cat([s, action, z], -1)) for critic in self.target_critics]
            smaller = (future[0].mean(-1) <= future[1].mean(-1))[:, None]
            smaller_future = torch.where(smaller, future[0], future[1])
            reward = batch.reward[:, None] + batch.discount[:, None] * smaller_future
            costs = [
                batch.costs[:, i : i + 1] + batch.cost_discount[:, None] * one
                for i, one in enumerate(future[2:])
            ]
        inputs = torch.cat([batch.obs, batch.action, batch.stock / self.scale], -1)
        targets = [reward, reward, *costs]
        return sum(
            self.pairs(critic(inputs), target)
            for critic, target in zip(self.critics, targets, strict=True)
        )

    def pairs(self, quantiles: Tensor, target: Tensor) -> Tensor:
        difference = target[:, None, :] - quantiles[:, :, None]  # (batch, N, N)
        return (difference.abs() * (self.taus[:, None] - (difference < 0).float()).abs()).mean()

    def _actor_loss(self, batch: Batch, noise: Tensor, price: Tensor) -> Tensor:
        z = batch.stock / self.scale
        action, mean, log_std = sample(self.actor, batch.obs, z, noise)
        inputs = torch.cat([batch.obs, action, z], -1)
        first, second, *costs = [critic(inputs) for critic in self.critics]
        smaller = (first.mean(-1) <= second.mean(-1))[:, None]
        reward = torch.where(smaller, first, second).mean(-1)
        excess = torch.stack(
            [
                (batch.stock[:, i : i + 1] + one).clamp(min=0).mean(-1)
                for i, one in enumerate(costs)
            ],
            -1,
        )
        size = mean.square().sum(-1) + log_std.square().sum(-1)
        loss = self.rates.regulariser.first * size - reward + (price * excess).sum(-1)
        return (loss / (1.0 + price.sum(-1))).mean()


def plain(body: Body) -> nn.ModuleList:
    """Ordinary networks with the weights of a body's members."""
    networks = nn.ModuleList()
    for member in range(len(body.layers.flat)):
        layers: list[nn.Module] = []
        for weight, bias in body.layers.stack():
            linear = nn.Linear(*weight.shape[1:])
            with torch.no_grad():
                linear.weight.copy_(weight[member].T)
                linear.bias.copy_(bias[member])
            layers += [linear, nn.ReLU()]
        networks.append(nn.Sequential(*layers[:-1]))
    return networks


def sample(
    actor: nn.Module, obs: Tensor, stock: Tensor, noise: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Action, mean and log deviation; the log-probability is not needed without entropy bonus."""
    mean, raw = actor(torch.cat([obs, stock], -1)).chunk(2, -1)
    log_std = -5.0 + 3.5 * (torch.tanh(raw) + 1.0)
    return torch.tanh(mean + log_std.exp() * noise), mean, log_std


@torch.no_grad()
def follow(target: nn.Module, source: nn.Module, share: float) -> None:
    for one, other in zip(target.parameters(), source.parameters(), strict=True):
        one.lerp_(other, share)


def distance(agent: UCP, baseline: Straightforward) -> float:
    """Largest difference between the weights of the two after the same updates."""
    pairs = [
        (ours.body.layers.stack(), theirs)
        for ours, theirs in (
            (agent.critics, baseline.critics),
            (agent.actor, nn.ModuleList([baseline.actor])),
            (agent.target_critics, baseline.target_critics),
            (agent.target_actor, nn.ModuleList([baseline.target_actor])),
        )
    ]
    largest = 0.0
    for stack, networks in pairs:
        for member, network in enumerate(networks):
            for (weight, bias), linear in zip(stack, list(network)[::2], strict=True):
                gap = max(
                    (weight[member].T - linear.weight).abs().max().item(),
                    (bias[member] - linear.bias).abs().max().item(),
                )
                largest = gap if math.isnan(gap) else max(largest, gap)
    return largest
