"""Policies of on-policy learners: a network, and what its outputs stand for."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from ucpo.learners.compiled.kernels import ahead, back
from ucpo.learners.distributions import Categorical, Gaussian
from ucpo.learners.networks import Body

Slopes = Callable[[Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]
"""The loss of outputs (batch, action) and a spread, with its gradients in both."""


class GaussianActor(nn.Module):
    """A Gaussian whose deviations do not depend on what is seen, and then an action in [-1, 1].

    Ratios and divergences of such policies are those of the Gaussians: what follows a sample is
    the same function whatever the policy.

    Args:
        body: Of one member; its outputs are the means.
        squashed: Whether tanh makes the action of a sample, or clipping.
        wild: Whether samples are not even clipped while training, so that the task does it and may
            charge for it. The deterministic action always is.
        log_std: First value of the logarithm of every deviation.
    """

    kind = Gaussian()

    def __init__(
        self, body: Body, squashed: bool, log_std: float = 0.0, wild: bool = False
    ) -> None:
        super().__init__()
        self.body, self.squashed, self.wild = body, squashed, wild
        self.log_std = nn.Parameter(torch.full((body.layers.sizes[-1],), log_std))

    @property
    def spread(self) -> Tensor:
        """Logarithms of the deviations, (action,)."""
        return self.log_std

    def forward(self, obs: Tensor, stock: Tensor) -> Tensor:
        """The mean, (batch, action), before it becomes an action."""
        mean: Tensor = self.body([obs], stock)[0]
        return mean

    def learn(self, obs: Tensor, stock: Tensor, slopes: Slopes) -> Tensor:
        """A loss; its gradient is left in the weights, where no other may be."""
        loss, self.log_std.grad = learn(self.body, self.log_std, obs, stock, slopes)
        return loss

    def action(self, sample: Tensor) -> Tensor:
        """What is done about a sample."""
        return sample if self.wild else self._within(sample)

    def entropy(self, _obs: Tensor, _stock: Tensor) -> Tensor:
        """Before samples become actions, (): the same whatever is seen."""
        return self.kind.entropy(self.log_std, self.log_std)

    def mode(self, obs: Tensor, stock: Tensor) -> Tensor:
        """The deterministic action used in evaluation, (batch, action)."""
        return self._within(self(obs, stock))

    def _within(self, sample: Tensor) -> Tensor:
        return torch.tanh(sample) if self.squashed else sample.clamp(-1.0, 1.0)


class ChoiceActor(nn.Module):
    """A policy that chooses one of several actions.

    An action has a number for each choice: 1 for the one that is made, 0 for the others.

    Args:
        body: Of one member; its outputs are unnormalised log-probabilities of the choices.
    """

    kind = Categorical()

    def __init__(self, body: Body) -> None:
        super().__init__()
        self.body = body
        self.spread: Tensor
        self.register_buffer("spread", torch.zeros(0), persistent=False)

    def forward(self, obs: Tensor, stock: Tensor) -> Tensor:
        """Unnormalised log-probabilities, (batch, choices)."""
        output: Tensor = self.body([obs], stock)[0]
        return output

    def learn(self, obs: Tensor, stock: Tensor, slopes: Slopes) -> Tensor:
        """A loss; its gradient is left in the weights, where no other may be."""
        return learn(self.body, self.spread, obs, stock, slopes)[0]

    def action(self, sample: Tensor) -> Tensor:
        """The choice itself."""
        return sample

    def entropy(self, obs: Tensor, stock: Tensor) -> Tensor:
        """Mean over what is seen, ()."""
        return self.kind.entropy(self(obs, stock), self.spread).mean()

    def mode(self, obs: Tensor, stock: Tensor) -> Tensor:
        """The most probable choice, used in evaluation, (batch, choices)."""
        output = self(obs, stock)
        return torch.zeros_like(output).scatter_(-1, output.argmax(-1, keepdim=True), 1.0)


OnPolicyActor = GaussianActor | ChoiceActor


def learn(
    body: Body, spread: Tensor, obs: Tensor, stock: Tensor, slopes: Slopes
) -> tuple[Tensor, Tensor]:
    """A loss and its gradient in the spread; that in the weights is left in them.

    Args:
        body: Of one member; no other gradient may be in its weights.
        spread: What the policy has beside its outputs.
        obs: Observations, (batch, obs).
        stock: Stocks, (batch, C).
        slopes: What the loss is.
    """
    if not body.by_hand:
        output = body([obs], stock)[0]
        loss, of_output, of_spread = slopes(output.detach(), spread.detach())
        output.backward(of_output)
        return loss, of_spread
    layers = body.layers
    with torch.no_grad():
        inputs = body.inputs([obs], stock)
        said, seen = ahead(layers, inputs)
        loss, of_output, of_spread = slopes(said[0], spread.detach())
        back(layers, inputs, seen, of_output[None], layers.gradient())
    return loss, of_spread
