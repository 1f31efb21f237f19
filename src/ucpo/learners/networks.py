"""Actor and critics. Both see the observation and the stock; the critics also the action."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ucpo.learners.compiled.kernels import (
    Passes,
    answers,
    beside,
    fit_members,
    joined,
)
from ucpo.learners.compiled.passes import RELU, TANH
from ucpo.learners.compiled.registers import PAIRED
from ucpo.learners.compiled.slopes import SquashedGaussian, squash
from ucpo.learners.trunk import MakeTrunk, Trunk

LOG_STD_RANGE = (-5.0, 2.0)
Activation = Literal["relu", "tanh"]
StockScale = float | tuple[float, ...]
Hidden = Sequence[int] | MakeTrunk
"""Widths of hidden layers, or a function of the user's own that makes what stands for them."""


class Layers(nn.Module):
    """`members` multilayer perceptrons of one shape.

    All parameters lie in one matrix with a row for each member: layer after layer, the weights
    (in, out) and then the biases. One pass over it clips, one optimises, one follows.
    """

    def __init__(
        self,
        members: int,
        sizes: Sequence[int],
        generator: torch.Generator,
        *,
        last: bool = True,
        activation: Activation = "relu",
    ) -> None:
        """Layers between consecutive `sizes`; activated between them, and after unless `last`."""
        super().__init__()
        self.sizes, self.activation = tuple(sizes), activation
        self.activated = len(sizes) - 1 - last  # how many layers are followed by an activation
        self._lengths = [n for i, o in pairwise(sizes) for n in (i * o, o)]
        self.flat = nn.Parameter(torch.empty(members, sum(self._lengths)))
        self._sizes, self._kind = np.array(sizes), RELU if activation == "relu" else TANH
        self._gradient: Tensor | None = None
        with torch.no_grad():
            for weight, bias in self.stack():
                bound = 1.0 / math.sqrt(weight.shape[1])  # PyTorch's own default for linear layers
                for part in (weight, bias):
                    part.copy_(torch.empty(part.shape).uniform_(-bound, bound, generator=generator))

    def stack(self, row: Tensor | None = None) -> list[tuple[Tensor, Tensor]]:
        """Weights (..., in, out) and biases (..., out) of each layer, as views.

        Args:
            row: Parameters of one member, (P,), or by default of all, (members, P).
        """
        row = self.flat if row is None else row
        parts, lead = torch.split(row, self._lengths, dim=-1), row.shape[:-1]
        return [
            (weight.view(*lead, inputs, outputs), bias)
            for weight, bias, (inputs, outputs) in zip(
                parts[::2], parts[1::2], pairwise(self.sizes), strict=True
            )
        ]

    def gradient(self) -> Tensor:
        """Where the gradient of the parameters belongs; what is there now counts as theirs."""
        if self._gradient is None or self._gradient.shape != self.flat.shape:
            self._gradient = torch.zeros_like(self.flat)
        self.flat.grad = self._gradient
        return self._gradient

    @property
    def shape(self) -> tuple[NDArray[np.int64], int, int, bool]:
        """What the compiled passes want to know; see `ucpo.learners.compiled.passes.forward`.

        Products are as short as PyTorch was told that its own may be, where that is faster.
        """
        short = PAIRED and torch.get_float32_matmul_precision() == "medium"
        return self._sizes, self.activated, self._kind, short

    @property
    def compiled(self) -> bool:
        """Whether there are compiled passes for where and what the parameters are."""
        return self.flat.device.type == "cpu" and self.flat.dtype == torch.float32

    def forward(self, *inputs: Tensor) -> Tensor:
        """Inputs side by side, (batch, k) or (members, batch, k) -> (members, batch, out)."""
        if self.compiled and not torch.compiler.is_compiling():
            if not torch.is_grad_enabled():
                return answers(self, joined(inputs, len(self.flat)))
            hidden: Tensor = Passes.apply(self, self.flat, *inputs)  # type: ignore[no-untyped-call]
            return hidden
        hidden = beside(inputs, len(self.flat))
        for i, (weight, bias) in enumerate(self.stack()):
            hidden = torch.baddbmm(bias[:, None], hidden, weight)
            if i < self.activated:
                hidden = hidden.relu() if self.activation == "relu" else hidden.tanh()
        return hidden


class Body(nn.Module):
    """From observation, stock and (for critics) action to `outputs` numbers, for each member.

    Args:
        stock_size: Costs whose stock is shown; 0 hides the stock (UCP-NA).
        hidden: What is between the inputs and the last layer.
        stock_scale: Cost units that count as one for the networks, for all costs or for each.
            Utilities never see this.
        stock_features: If above 0, the stock first passes a ReLU layer of this width.
        activation: Between the layers.
        stock_ceiling: Stocks above look like this one; all the same to a utility that is linear
            from there on.
    """

    def __init__(
        self,
        members: int,
        inputs: int,
        stock_size: int,
        hidden: Hidden,
        outputs: int,
        stock_scale: StockScale,
        stock_features: int,
        generator: torch.Generator,
        activation: Activation = "relu",
        stock_ceiling: float | None = None,
    ) -> None:
        super().__init__()
        self.members, self.stock_size, self.stock_scale = members, stock_size, stock_scale
        self.stock_ceiling = stock_ceiling
        self.set_scales()
        wide = stock_size
        self.embedding: Layers | None = None
        if stock_size and stock_features:
            wide = stock_features
            sizes = [stock_size, stock_features]
            self.embedding = Layers(members, sizes, generator, last=False)
        self.trunk: Trunk | None = None
        if callable(hidden):
            self.trunk = Trunk(hidden, members, inputs + wide, generator)
            sizes = [self.trunk.features, outputs]
        else:
            sizes = [inputs + wide, *hidden, outputs]
        self.layers = Layers(members, sizes, generator, activation=activation)

    def forward(self, inputs: Sequence[Tensor], stock: Tensor) -> Tensor:
        """Parts of (batch, k) or (members, batch, k), stock (batch, C) in cost units -> (members,
        batch, outputs).
        """
        scaled = self.scaled(stock)
        if self.embedding is not None:
            scaled = self.embedding(scaled)
        seen = [*inputs, scaled] if self.trunk is None else [self.trunk(*inputs, scaled)]
        result: Tensor = self.layers(*seen)
        return result

    def inputs(self, parts: Sequence[Tensor], stock: Tensor) -> Tensor:
        """What the first layer sees if nothing is before it, as `joined` has it."""
        return joined([*parts, self.scaled(stock)], self.members)

    def scaled(self, stock: Tensor) -> Tensor:
        """As much of the stock as is shown, (batch, C or 0)."""
        seen = stock[:, : self.stock_size]
        if not self.stock_size:
            return seen
        if self.stock_ceiling is not None:
            seen = seen.clamp(max=self.stock_ceiling)
        return seen / (self.scales if isinstance(self.stock_scale, tuple) else self.stock_scale)

    def set_scales(self) -> None:
        """Have the scales of several costs where the weights are; one for all stays a number."""
        self.scales: Tensor
        self.register_buffer("scales", torch.tensor(self.stock_scale), persistent=False)

    @property
    def by_hand(self) -> bool:
        """Whether gradients can be written without a graph: on a CPU, and straight through."""
        return self.embedding is None and self.trunk is None and self.layers.compiled


class Sample(NamedTuple):
    """A sampled action and what the losses need of its distribution."""

    action: Tensor  # (batch, action) in (-1, 1)
    log_prob: Tensor  # (batch,)
    mean: Tensor  # (batch, action) before tanh
    log_std: Tensor  # (batch, action)


class Actor(nn.Module):
    """A tanh-squashed Gaussian policy."""

    def __init__(self, body: Body) -> None:
        super().__init__()
        self.body = body

    def forward(self, obs: Tensor, stock: Tensor) -> tuple[Tensor, Tensor]:
        """Mean before tanh and logarithm of the standard deviation, (batch, action) each."""
        mean, raw = self.body([obs], stock)[0].chunk(2, dim=-1)
        low, high = LOG_STD_RANGE
        return mean, low + 0.5 * (high - low) * (torch.tanh(raw) + 1.0)

    def mode(self, obs: Tensor, stock: Tensor) -> Tensor:
        """The deterministic action used in evaluation, (batch, action)."""
        return torch.tanh(self(obs, stock)[0])

    def sample(self, obs: Tensor, stock: Tensor, generator: torch.Generator) -> Sample:
        """A reparametrised action with its log-probability."""
        said = self.body([obs], stock)[0]
        shape = (len(said), said.shape[1] // 2)
        noise = torch.randn(shape, generator=generator, device=generator.device).to(said.device)
        if self.body.by_hand and not torch.is_grad_enabled():
            return Sample(*squash(said, noise, *LOG_STD_RANGE)[2:])
        return Sample(*SquashedGaussian.apply(said, noise, *LOG_STD_RANGE))  # type: ignore[no-untyped-call]


class Values(nn.Module):
    """What a policy may expect from a state: of the reward and of each priced cost.

    Each signal has a network of its own, in units of its own. When units change, the last layers
    are rescaled, so that nothing else does.

    Args:
        bodies: One for each signal, with one member each and one output: first the reward's.
        timed: Whether those of costs see the time that is left.
    """

    def __init__(self, bodies: Sequence[Body], timed: bool) -> None:
        super().__init__()
        self.body, self.timed = bodies[0], timed
        layers = self.body.layers
        layers.flat = nn.Parameter(torch.cat([body.layers.flat.detach() for body in bodies]))
        if self.body.embedding is not None:
            features = [b.embedding.flat.detach() for b in bodies if b.embedding is not None]
            self.body.embedding.flat = nn.Parameter(torch.cat(features))
        if self.body.trunk is not None:
            own = [b.trunk.flat.detach() for b in bodies if b.trunk is not None]
            self.body.trunk.flat = nn.Parameter(torch.cat(own))
        self.body.members = len(bodies)
        self.mean: Tensor
        self.std: Tensor
        self.register_buffer("mean", torch.zeros(len(bodies)))
        self.register_buffer("std", torch.ones(len(bodies)))

    def in_units(self, obs: Tensor, stock: Tensor, left: Tensor) -> Tensor:
        """What each network says, (1 + C, batch); `left` (batch,) is the share of time left."""
        said: Tensor = self.body(self._shown(obs, left), stock)[:, :, 0]
        return said

    def inputs(self, obs: Tensor, stock: Tensor, left: Tensor) -> Tensor:
        """What the first layer sees if nothing is before it, as `joined` has it."""
        return self.body.inputs(self._shown(obs, left), stock)

    def learn(self, obs: Tensor, stock: Tensor, left: Tensor, targets: Tensor) -> Tensor:
        """Mean squared errors in units, (1 + C,); the gradient of their sum is left in the weights.

        Gradients of other losses must not be there.
        """
        if not self.body.by_hand:
            errors = (self.in_units(obs, stock, left) - targets).square().mean(1)
            errors.sum().backward()  # type: ignore[no-untyped-call]
            return errors.detach()
        with torch.no_grad():
            return fit_members(self.body.layers, self.inputs(obs, stock, left), targets)

    def _shown(self, obs: Tensor, left: Tensor) -> list[Tensor]:
        """Observations, and the time that is left as each network sees it, (1 + C, batch, 1)."""
        if not self.timed:
            return [obs]
        time = left.expand(self.body.members, 1, -1).transpose(1, 2).clone()
        time[0] = 0.0  # rewards are bootstrapped at a time limit, so it is no end to them
        return [obs, time]

    def forward(self, obs: Tensor, stock: Tensor, left: Tensor) -> Tensor:
        """Expected sums to come, (1 + C, batch)."""
        return self.in_units(obs, stock, left) * self.std[:, None] + self.mean[:, None]

    @torch.no_grad()
    def set_units(self, mean: Tensor, std: Tensor) -> None:
        """Other units, (1 + C,) each, and the same predictions."""
        weight, bias = self.body.layers.stack()[-1]  # (1 + C, in, 1), (1 + C, 1)
        ratio = self.std / std
        weight.mul_(ratio[:, None, None])
        bias.mul_(ratio[:, None]).add_(((self.mean - mean) / std)[:, None])
        self.mean.copy_(mean)
        self.std.copy_(std)


class Critics(nn.Module):
    """Two reward critics and one critic per cost, all evaluated together.

    Args:
        body: With a member for each critic.
        units: What one unit of each critic's outputs stands for; by default 1. The quantile loss
            moves outputs at a bounded rate, so large sums are learned faster in large units.
    """

    REWARD = 2

    def __init__(self, body: Body, units: Sequence[float] | None = None) -> None:
        super().__init__()
        self.body = body
        self.units: Tensor
        self.register_buffer("units", torch.tensor(units or [1.0] * body.members))

    def forward(self, obs: Tensor, stock: Tensor, action: Tensor) -> Tensor:
        """Quantiles of the discounted sums to come, (2 + C, batch, N): rewards first."""
        quantiles: Tensor = self.body([obs, action], stock) * self.units[:, None, None]
        return quantiles
