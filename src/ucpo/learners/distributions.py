"""What an on-policy network's outputs stand for: means of a Gaussian, or weights of choices.

Both answer the same questions, so that losses and trust regions need not know which it is. `spread`
is what a policy has beside its outputs: log-deviations of a Gaussian, nothing of choices.
"""

from __future__ import annotations

import math
from typing import Protocol

import torch
from torch import Tensor


class Distribution(Protocol):
    """From outputs (batch, action) and a spread to samples (batch, action)."""

    def sample(self, output: Tensor, spread: Tensor, generator: torch.Generator) -> Tensor:
        """What is drawn, (batch, action), before it becomes an action."""

    def log_probability(self, sample: Tensor, output: Tensor, spread: Tensor) -> Tensor:
        """Of samples (batch, action), (batch,)."""

    def divergence(
        self, output: Tensor, spread: Tensor, to_output: Tensor, to_spread: Tensor
    ) -> Tensor:
        """KL from one such policy to another, (batch,)."""

    def entropy(self, output: Tensor, spread: Tensor) -> Tensor:
        """In nats: a number, or one for each row of outputs, (batch,)."""


class Gaussian:
    """Outputs are means; deviations are the same whatever is seen."""

    def sample(self, output: Tensor, spread: Tensor, generator: torch.Generator) -> Tensor:
        """Mean and noise."""
        noise = torch.randn(output.shape, generator=generator, device=output.device)
        return torch.addcmul(output, noise, spread.exp())

    def log_probability(self, sample: Tensor, output: Tensor, spread: Tensor) -> Tensor:
        """Of samples (batch, action), (batch,)."""
        noise = (sample - output) * torch.exp(-spread)
        constant = 0.5 * math.log(2.0 * math.pi) * sample.shape[-1]
        return -0.5 * noise.square().sum(-1) - spread.sum(-1) - constant

    def divergence(
        self, output: Tensor, spread: Tensor, to_output: Tensor, to_spread: Tensor
    ) -> Tensor:
        """KL, summed over action dimensions, (batch,)."""
        ratio = torch.exp(2.0 * (spread - to_spread))
        shift = (output - to_output).square() * torch.exp(-2.0 * to_spread)
        return (0.5 * (ratio + shift - 1.0) + to_spread - spread).sum(-1)

    def entropy(self, output: Tensor, spread: Tensor) -> Tensor:
        """The same whatever is seen."""
        return (spread + 0.5 * math.log(2.0 * math.pi * math.e)).sum()


class Categorical:
    """Outputs are unnormalised log-probabilities; a sample has 1 at the choice and 0 elsewhere."""

    def sample(self, output: Tensor, spread: Tensor, generator: torch.Generator) -> Tensor:
        """One choice in each row."""
        chosen = torch.multinomial(output.softmax(-1), 1, generator=generator)
        return torch.zeros_like(output).scatter_(-1, chosen, 1.0)

    def log_probability(self, sample: Tensor, output: Tensor, spread: Tensor) -> Tensor:
        """Of choices (batch, action), (batch,)."""
        return (output.log_softmax(-1) * sample).sum(-1)

    def divergence(
        self, output: Tensor, spread: Tensor, to_output: Tensor, to_spread: Tensor
    ) -> Tensor:
        """KL over the choices, (batch,)."""
        log_p, log_q = output.log_softmax(-1), to_output.log_softmax(-1)
        return (log_p.exp() * (log_p - log_q)).sum(-1)

    def entropy(self, output: Tensor, spread: Tensor) -> Tensor:
        """Of each row, (batch,)."""
        log_p = output.log_softmax(-1)
        return -(log_p.exp() * log_p).sum(-1)
