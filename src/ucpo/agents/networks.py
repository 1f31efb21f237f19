"""Actor and critics. Both see the observation and the stock; the critics also the action."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn

LOG_STD_RANGE = (-5.0, 2.0)


class Layers(nn.Module):
    """`members` multilayer perceptrons of one shape, evaluated as one batched product."""

    def __init__(
        self, members: int, sizes: Sequence[int], generator: torch.Generator, *, last: bool = True
    ) -> None:
        """Layers between consecutive `sizes`; ReLU between them, and after them unless `last`."""
        super().__init__()
        self.weights = nn.ParameterList()
        self.biases = nn.ParameterList()
        for inputs, outputs in pairwise(sizes):
            bound = 1.0 / math.sqrt(inputs)  # PyTorch's own default for linear layers
            weight = torch.empty(members, inputs, outputs)
            bias = torch.empty(members, 1, outputs)
            self.weights.append(nn.Parameter(weight.uniform_(-bound, bound, generator=generator)))
            self.biases.append(nn.Parameter(bias.uniform_(-bound, bound, generator=generator)))
        # The same parameters as a plain list: walking a ParameterList is slow.
        self._stack = list(zip(self.weights, self.biases, strict=True))
        self._rectified = len(self._stack) - last  # how many layers a ReLU follows

    def forward(self, inputs: Tensor) -> Tensor:
        """(members, batch, in) -> (members, batch, out)."""
        for i, (weight, bias) in enumerate(self._stack):
            inputs = torch.baddbmm(bias, inputs, weight)
            if i < self._rectified:
                inputs = torch.relu(inputs)
        return inputs


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

    def forward(self, inputs: Tensor, stock: Tensor) -> Tensor:
        """(batch, inputs), (batch, C) in cost units -> (members, batch, outputs)."""
        scaled = (stock[:, : self.stock_size] / self.stock_scale).expand(self.members, -1, -1)
        if self.embedding is not None:
            scaled = self.embedding(scaled)
        result: Tensor = self.layers(
            torch.cat([inputs.expand(self.members, -1, -1), scaled], dim=-1)
        )
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
        mean, raw = self.body(obs, stock)[0].chunk(2, dim=-1)
        low, high = LOG_STD_RANGE
        return mean, low + 0.5 * (high - low) * (torch.tanh(raw) + 1.0)

    def mode(self, obs: Tensor, stock: Tensor) -> Tensor:
        """The deterministic action used in evaluation, (batch, action)."""
        return torch.tanh(self(obs, stock)[0])

    def sample(self, obs: Tensor, stock: Tensor, generator: torch.Generator) -> Sample:
        """A reparametrised action with its log-probability."""
        mean, log_std = self(obs, stock)
        noise = torch.randn(mean.shape, generator=generator, device=mean.device)
        before_tanh = mean + log_std.exp() * noise
        gaussian = -0.5 * noise.square() - log_std - 0.5 * math.log(2.0 * math.pi)
        # log(1 - tanh(x)^2), in a form that does not underflow for large x
        squash = 2.0 * (math.log(2.0) - before_tanh - nn.functional.softplus(-2.0 * before_tanh))
        log_prob = (gaussian - squash).sum(-1)
        return Sample(torch.tanh(before_tanh), log_prob, mean, log_std)


class Critics(nn.Module):
    """Two reward critics and one critic per cost, all evaluated together."""

    REWARD = 2

    def __init__(self, body: Body) -> None:
        super().__init__()
        self.body = body

    def forward(self, obs: Tensor, stock: Tensor, action: Tensor) -> Tensor:
        """Quantiles of the discounted sums to come, (2 + C, batch, N): rewards first."""
        quantiles: Tensor = self.body(torch.cat([obs, action], dim=-1), stock)
        return quantiles
