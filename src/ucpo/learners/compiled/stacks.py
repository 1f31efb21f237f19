"""Perceptrons side by side, there and back, for steps that are a single compiled call.

Numba's cache does not see that it is stale when only `passes` and what they are made of have
changed: whoever edits one of them touches this file and those that import it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from ucpo.learners.compiled.passes import answer, backward, forward

Floats = Any  # arrays of float32, as numba sees them
Ints = Any


class Shape(NamedTuple):
    """Of perceptrons, as `ucpo.learners.compiled.passes` wants to know it."""

    sizes: Ints
    activated: int
    kind: int
    short: bool


@njit(cache=True, nogil=True)
def says(flat: Floats, shape: Shape, inputs: Floats) -> Floats:
    """What perceptrons say, (members, batch, out), where nobody asks how they came to it.

    Args:
        flat: Parameters, a row for each member.
        shape: Of them.
        inputs: (members, batch, in), or (1, batch, in) if all see the same.
    """
    said = np.empty((len(flat), inputs.shape[1], shape.sizes[-1]), np.float32)
    answer(flat, shape.sizes, shape.activated, shape.kind, shape.short, inputs, said)
    return said


@njit(cache=True, nogil=True)
def there(flat: Floats, shape: Shape, inputs: Floats) -> tuple[Floats, Floats]:
    """The same, and what their hidden layers said, for the way back."""
    batch = inputs.shape[1]
    said = np.empty((len(flat), batch, shape.sizes[-1]), np.float32)
    hidden = np.empty((len(flat), batch * shape.sizes[1:-1].sum()), np.float32)
    forward(flat, shape.sizes, shape.activated, shape.kind, shape.short, inputs, hidden, said)
    return said, hidden


@njit(cache=True, nogil=True)
def and_back(
    flat: Floats, shape: Shape, inputs: Floats, hidden: Floats, slope: Floats, gradient: Floats
) -> None:
    """Fill in the gradient of all parameters.

    Args:
        flat: As in `says`, like the next two.
        shape: ...
        inputs: ...
        hidden: What hidden layers said.
        slope: Gradient of what the last ones said, (members, batch, out).
        gradient: Like `flat`.
    """
    nothing = np.empty((len(flat), inputs.shape[1], 0), np.float32)
    how = shape.sizes, shape.activated, shape.kind, shape.short
    backward(flat, *how, inputs, hidden, slope, gradient, 0, nothing)


@njit(cache=True, nogil=True)
def back_to_inputs(
    flat: Floats, shape: Shape, inputs: Floats, hidden: Floats, slope: Floats, first: int, many: int
) -> Floats:
    """The gradient of some inputs that all members see alike, (batch, many), summed over them.

    Args:
        flat: As in `and_back`, like the next four.
        shape: ...
        inputs: ...
        hidden: ...
        slope: ...
        first: Where these inputs begin.
        many: How many they are.
    """
    batch = inputs.shape[1]
    apart = np.empty((len(flat), batch, many), np.float32)
    how = shape.sizes, shape.activated, shape.kind, shape.short
    backward(flat, *how, inputs, hidden, slope, flat[:0], first, apart)
    found = np.empty((batch, many), np.float32)
    for i in range(batch):
        for j in range(many):
            total = np.float32(0.0)
            for member in range(len(flat)):
                total += apart[member, i, j]
            found[i, j] = total
    return found
