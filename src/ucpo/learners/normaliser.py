"""Observations in units of their own spread, so that small differences that matter are seen."""

from __future__ import annotations

from copy import deepcopy
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from ucpo.envs.interface import Arrays
from ucpo.learners.networks import Actor, Critics
from ucpo.problem import Floats
from ucpo.storage import states

_SMALLEST = 1e-2  # spread; an entry that hardly changed so far must not be blown up when it does

Network = TypeVar("Network", Actor, Critics)


class Normaliser:
    """Subtracts the mean of all observations so far and divides by their standard deviation.

    The networks of a training see nothing else. What leaves the training is `plain`: the same
    functions of observations as they are, so that nobody who uses a policy needs to know.

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
        new = obs.astype(np.float64)
        mean = new.mean(0)
        step = mean - self._mean
        self._count += n
        self._mean += step * n / self._count
        self._squares += np.square(new - mean).sum(0) + np.square(step) * before * n / self._count
        self._refresh()

    def __call__(self, obs: Tensor) -> Tensor:
        """Observations (batch, size) as the networks see them."""
        return (obs - self._shift) / self._scale if self.active else obs

    @torch.no_grad()
    def plain(self, network: Network) -> Network:
        """The same network for observations as they are: its first layer takes over the rest."""
        if not self.active:
            return network
        copy = deepcopy(network)
        weight, bias = copy.body.layers.stack()[0]  # (members, in, out), (members, out)
        seen = weight[:, : len(self._mean)]  # observations come first
        seen /= self._scale[:, None]
        bias -= self._shift @ seen
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
