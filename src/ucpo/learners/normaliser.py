"""Observations in units of their own spread, so that small differences that matter are seen."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from ucpo.envs.interface import Arrays
from ucpo.learners.actors import OnPolicyActor
from ucpo.learners.compiled.kernels import column_moments
from ucpo.learners.networks import Actor, Body, Critics
from ucpo.problem import Floats
from ucpo.storage import states

_SMALLEST = 1e-2  # spread; an entry that hardly changed so far must not be blown up when it does

Network = TypeVar("Network", bound=Actor | Critics | OnPolicyActor)


class Scaled(Body):
    """A body that first puts observations into units of their spread.

    Not folded into the first layer: where the mean is many spreads away from 0 that makes weights
    and biases so large that in float32 a batch and a single row differ by 1e-4.

    Args:
        body: What sees the result; its layers are used, not copied.
        shift: Subtracted from observations, (obs,).
        scale: Then they are divided by this, (obs,).
    """

    def __init__(self, body: Body, shift: Tensor, scale: Tensor) -> None:
        nn.Module.__init__(self)
        self.members, self.stock_size, self.stock_scale = (
            body.members,
            body.stock_size,
            body.stock_scale,
        )
        self.embedding, self.trunk, self.layers = body.embedding, body.trunk, body.layers
        self.stock_ceiling = body.stock_ceiling
        self.set_scales()
        self.shift: Tensor
        self.scale: Tensor
        self.register_buffer("shift", shift.clone())
        self.register_buffer("scale", scale.clone())

    def forward(self, inputs: Sequence[Tensor], stock: Tensor) -> Tensor:
        """As `Body.forward`, observations first among the parts."""
        obs, *rest = inputs
        return super().forward([(obs - self.shift) / self.scale, *rest], stock)


class Normaliser:
    """Subtracts the mean of all observations so far and divides by their standard deviation.

    The networks of a training see nothing else. What leaves the training is `plain`: the same
    functions of observations as they are, bit for bit, so that nobody who uses a policy needs to
    know.

    Args:
        size: Length of an observation.
        active: Otherwise observations stay as they are.
        device: Where the networks are.
    """

    def __init__(self, size: int, active: bool, device: torch.device) -> None:
        self.active, self._device = active, device
        self._count = np.zeros(())
        self._mean, self._squares = np.zeros(size), np.zeros(size)  # of differences from the mean
        self._refresh()

    def observe(self, obs: Floats) -> None:
        """Take observations (n, size) into account."""
        if not self.active:
            return
        before, n = self._count.copy(), len(obs)
        mean, squares = np.empty_like(self._mean), np.empty_like(self._squares)
        column_moments(obs, mean, squares)
        step = mean - self._mean
        self._count += n
        self._mean += step * n / self._count
        self._squares += squares + np.square(step) * before * n / self._count
        self._refresh()

    def __call__(self, obs: Tensor) -> Tensor:
        """Observations (batch, size) as the networks see them."""
        return (obs - self._shift) / self._scale if self.active else obs

    @torch.no_grad()
    def plain(self, network: Network) -> Network:
        """A copy of a network for observations as they are; training goes on without it."""
        copy = deepcopy(network)
        if self.active:
            copy.body = Scaled(copy.body, self._shift, self._scale)
        return copy

    def state(self) -> Arrays:
        """What `restore` needs to go on from here."""
        if not self.active:
            return {}
        kept = {"count": self._count, "mean": self._mean, "squares": self._squares}
        return {name: value.copy() for name, value in kept.items()}

    def restore(self, state: Arrays) -> None:
        """Go on from a saved state."""
        states.fit(state, self.state(), "normaliser")
        if self.active:
            self._count, self._mean, self._squares = (
                state[name].copy() for name in ("count", "mean", "squares")
            )
            self._refresh()

    def _refresh(self) -> None:
        spread = np.sqrt(self._squares / np.maximum(self._count, 1.0))
        spread = np.maximum(spread, _SMALLEST) if self._count > 1 else np.ones_like(spread)
        self._shift, self._scale = (
            torch.from_numpy(values.astype(np.float32)).to(self._device)
            for values in (self._mean, spread)
        )
