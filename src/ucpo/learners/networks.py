"""Actor and critics. Both see the observation and the stock; the critics also the action."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ucpo.learners.kernels import OneByOne, beside

LOG_STD_RANGE = (-5.0, 2.0)


class Layers(nn.Module):
    """`members` multilayer perceptrons of one shape.

    All parameters lie in one matrix with a row for each member: layer after layer, the weights
    (in, out) and then the biases. One pass over it clips, one optimises, one follows.
    """

    def __init__(
        self, members: int, sizes: Sequence[int], generator: torch.Generator, *, last: bool = True
    ) -> None:
        """Layers between consecutive `sizes`; ReLU between them, and after them unless `last`."""
        super().__init__()
        self.sizes = tuple(sizes)
        self.rectified = len(sizes) - 1 - last  # how many layers a ReLU follows
        self._lengths = [n for i, o in pairwise(sizes) for n in (i * o, o)]
        self.flat = nn.Parameter(torch.empty(members, sum(self._lengths)))
        self._rows: tuple[int, list[list[tuple[Tensor, Tensor]]]] = (0, [])
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

    def rows(self) -> list[list[tuple[Tensor, Tensor]]]:
        """The layers of each member as views without history, kept because making them is slow."""
        address = self.flat.data_ptr()
        if self._rows[0] != address:
            self._rows = address, [self.stack(row) for row in self.flat.detach().unbind()]
        return self._rows[1]

    def forward(self, *inputs: Tensor) -> Tensor:
        """Inputs side by side, (batch, k) or (members, batch, k) -> (members, batch, out)."""
        if self.flat.device.type == "cpu" and not torch.compiler.is_compiling():
            hidden: Tensor = OneByOne.apply(self, self.flat, *inputs)  # type: ignore[no-untyped-call]
            return hidden
        hidden = beside(inputs, len(self.flat))
        for i, (weight, bias) in enumerate(self.stack()):
            hidden = torch.baddbmm(bias[:, None], hidden, weight)
            hidden = hidden.relu() if i < self.rectified else hidden
        return hidden


class Body(nn.Module):
    """From observation, stock and (for critics) action to `outputs` numbers, for each member.

    Args:
        stock_size: Costs whose stock is shown; 0 hides the stock (UCP-NA).
        stock_scale: Cost units that count as one for the networks. Utilities never see this.
        stock_features: If above 0, the stock first passes a ReLU layer of this width.
    """

    def __init__(
        self,
        members: int,
        inputs: int,
        stock_size: int,
        hidden: Sequence[int],
        outputs: int,
        stock_scale: float,
        stock_features: int,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.members, self.stock_size, self.stock_scale = members, stock_size, stock_scale
        wide = stock_size
        self.embedding: Layers | None = None
        if stock_size and stock_features:
            wide = stock_features
            sizes = [stock_size, stock_features]
            self.embedding = Layers(members, sizes, generator, last=False)
        self.layers = Layers(members, [inputs + wide, *hidden, outputs], generator)

    def forward(self, inputs: Sequence[Tensor], stock: Tensor) -> Tensor:
        """Parts of (batch, k), stock (batch, C) in cost units -> (members, batch, outputs)."""
        scaled = stock[:, : self.stock_size] / self.stock_scale
        if self.embedding is not None:
            scaled = self.embedding(scaled)
        result: Tensor = self.layers(*inputs, scaled)
        return result


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
        mean, log_std = self(obs, stock)
        noise = torch.randn(mean.shape, generator=generator, device=generator.device).to(
            mean.device
        )
        before_tanh = mean + log_std.exp() * noise
        gaussian = -0.5 * noise.square() - log_std - 0.5 * math.log(2.0 * math.pi)
        # log(1 - tanh(x)^2), in a form that does not underflow for large x
        squash = 2.0 * (math.log(2.0) - before_tanh - nn.functional.softplus(-2.0 * before_tanh))
        log_prob = (gaussian - squash).sum(-1)
        return Sample(torch.tanh(before_tanh), log_prob, mean, log_std)


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
