"""What networks see and how they stand, for steps that are a single compiled call.

Numba's cache does not see that it is stale when only this has changed: whoever edits it touches the
files that import it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numba import njit
from torch import Tensor

from ucpo.learners.compiled.stacks import Shape
from ucpo.learners.networks import LOG_STD_RANGE, Body

Floats = Any  # arrays of float32, as numba sees them

LOW: Any = np.float32(LOG_STD_RANGE[0])
HALF: Any = np.float32(0.5 * (LOG_STD_RANGE[1] - LOG_STD_RANGE[0]))
"""Of log-deviations: the lowest one, and half their range."""


class Eyes(NamedTuple):
    """What networks are shown of the stock."""

    costs: int  # of how many costs
    ceiling: Any  # stocks above look like this one
    scales: Floats  # (costs,) what counts as one unit


class Perceptrons(NamedTuple):
    """Networks of one shape."""

    flat: Floats  # (members, P)
    shape: Shape
    eyes: Eyes


class Seeing:
    """The networks of a body that is nothing else."""

    def __init__(self, body: Body) -> None:
        self._layers = body.layers
        ceiling = np.inf if body.stock_ceiling is None else body.stock_ceiling
        scales = np.empty(body.stock_size, np.float32)
        if body.stock_size:
            scales[:] = body.stock_scale
        self._eyes = Eyes(body.stock_size, np.float32(ceiling), scales)

    def now(self) -> Perceptrons:
        """As they stand; products may be told to be shorter at any time."""
        return Perceptrons(
            self._layers.flat.detach().numpy(), Shape(*self._layers.shape), self._eyes
        )

    def gradient(self) -> Floats:
        """Where it goes, (members, P)."""
        return self._layers.gradient().numpy()


def normal(like: Tensor, noise: torch.Generator) -> Floats:
    """Standard normal numbers, as many."""
    return torch.randn(like.shape, generator=noise).numpy()


@njit(cache=True, nogil=True, error_model="numpy")
def shown(eyes: Eyes, obs: Floats, action: Floats, stock: Floats) -> Floats:
    """Observations, actions and as much of the stock as is shown, side by side, (1, batch, in)."""
    batch, wide, actions = len(obs), obs.shape[1], action.shape[1]
    found = np.empty((1, batch, wide + actions + eyes.costs), np.float32)
    for i in range(batch):
        for j in range(wide):
            found[0, i, j] = obs[i, j]
        for j in range(actions):
            found[0, i, wide + j] = action[i, j]
        for j in range(eyes.costs):
            seen = stock[i, j]
            if seen > eyes.ceiling:
                seen = eyes.ceiling
            found[0, i, wide + actions + j] = seen / eyes.scales[j]
    return found


@njit(cache=True, nogil=True)
def in_units(said: Floats, units: Floats) -> None:
    """What critics say times what one unit of it stands for, in place."""
    critics, batch, count = said.shape
    for c in range(critics):
        for i in range(batch):
            for k in range(count):
                said[c, i, k] *= units[c]
