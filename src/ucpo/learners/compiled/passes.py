"""Small perceptrons there and back, compiled: one call passes through all layers of all members.

Numba's cache does not see that it is stale when only `tiles`, `pairs` or `registers` has changed:
whoever edits one of them touches this one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from ucpo.learners.compiled.pairs import columns_in_pairs, rows_in_pairs
from ucpo.learners.compiled.tiles import (
    COLUMNS,
    NOTHING,
    RELU_ITSELF,
    RELU_SLOPE,
    TANH_ITSELF,
    TANH_SLOPE,
    in_panels,
    panels_of,
    product,
    turned_in_panels,
)

Floats = Any  # arrays of float32, as numba sees them
Ints = Any

RELU, TANH = 1, 2
"""What follows a layer."""

BLOCK = 256  # rows


@njit(cache=True, nogil=True)
def forward(
    flat: Floats,
    sizes: Ints,
    activated: int,
    kind: int,
    short: bool,
    inputs: Floats,
    seen: Floats,
    out: Floats,
) -> None:
    """What the perceptrons say.

    Args:
        flat: Parameters, a row for each member: by layer, weights (in, out) and biases.
        sizes: Of the input, the hidden layers and the output.
        activated: How many layers, the first ones, are followed by an activation.
        kind: RELU or TANH.
        short: Whether factors of products are rounded to bf16; sums are in f32 all the same.
        inputs: (members, batch, in), or (1, batch, in) if all see the same.
        seen: Filled with what each hidden layer says, (members, batch * sum of their sizes).
        out: Filled with what the last one says, (members, batch, out).
    """
    batch, depth = inputs.shape[1], len(sizes) - 1
    bias = np.zeros(panels_of(sizes.max()) * COLUMNS, np.float32)
    for member in range(len(flat)):
        hidden = inputs[member if len(inputs) > 1 else 0]
        at = place = 0
        for i in range(depth):
            wide, high = sizes[i], sizes[i + 1]
            weight = flat[member, at : at + wide * high].reshape(wide, high)
            at += wide * high
            bias[:high] = flat[member, at : at + high]
            at += high
            if i + 1 == depth:
                to = out[member]
            else:
                to = seen[member, place : place + batch * high].reshape(batch, high)
                place += batch * high
            if high == 1 and i >= activated:
                _dots(hidden, weight[:, 0], bias[0], to[:, 0])
                hidden = to
                continue
            follows = NOTHING
            if i < activated:
                follows = RELU_ITSELF if kind == RELU else TANH_ITSELF
            onward(hidden, weight, bias, to, follows, short)
            hidden = to


@njit(cache=True, nogil=True)
def answer(
    flat: Floats, sizes: Ints, activated: int, kind: int, short: bool, inputs: Floats, out: Floats
) -> None:
    """What `forward` says, leaving nothing else behind.

    Hidden layers of many rows would need memory that has to be fetched first; so a few rows at a
    time use the same little of it.
    """
    batch, wide = inputs.shape[1], inputs.shape[2]
    units = sizes[1:-1].sum()
    hidden = np.empty(min(batch, BLOCK) * units, np.float32)
    for member in range(len(flat)):
        shown = inputs[member if len(inputs) > 1 else 0]
        for begin in range(0, batch, BLOCK):
            rows = min(BLOCK, batch - begin)
            some = shown[begin : begin + rows].reshape(1, rows, wide)
            to = out[member, begin : begin + rows].reshape(1, rows, sizes[-1])
            seen = hidden[: rows * units].reshape(1, rows * units)
            forward(flat[member : member + 1], sizes, activated, kind, short, some, seen, to)


@njit(cache=True, nogil=True)
def backward(
    flat: Floats,
    sizes: Ints,
    activated: int,
    kind: int,
    short: bool,
    inputs: Floats,
    seen: Floats,
    upstream: Floats,
    gradient: Floats,
    first: int,
    asked: Floats,
) -> None:
    """Gradients of the perceptrons' parameters and of some of their inputs.

    Args:
        flat: As in `forward`, like all that follow.
        sizes: ...
        activated: ...
        kind: ...
        short: ...
        inputs: ...
        seen: ...
        upstream: Gradient of what the last layer says, before an activation, (members, batch, out).
        gradient: Filled with that of parameters, like `flat`; left alone if it has no rows.
        first: Where the inputs begin whose gradient is asked for.
        asked: Filled with it, (members, batch, as many inputs).
    """
    batch, depth = inputs.shape[1], len(sizes) - 1
    nothing = np.zeros(panels_of(sizes.max()) * COLUMNS, np.float32)
    follows = RELU_SLOPE if kind == RELU else TANH_SLOPE
    for member in range(len(flat)):
        place, at = seen.shape[1], flat.shape[1]
        slope = upstream[member]
        for i in range(depth - 1, -1, -1):
            wide, high = sizes[i], sizes[i + 1]
            bias, at = at - high, at - high - wide * high
            if i:
                place -= batch * wide
                hidden = seen[member, place : place + batch * wide].reshape(batch, wide)
            else:
                hidden = inputs[member if len(inputs) > 1 else 0]
            if len(gradient):
                _sum_rows(slope, gradient[member, bias : bias + high])
                to = gradient[member, at:bias].reshape(wide, high)
                if high == 1:
                    _sum_weighted(hidden, slope[:, 0], to[:, 0])
                else:
                    of_weights(hidden, slope, nothing, to, short)
            if i:
                weight = flat[member, at:bias].reshape(wide, high)
                to = np.empty((batch, wide), np.float32)
                of_inputs(slope, weight, nothing, to, follows, hidden, short)
                slope = to
            elif asked.shape[2]:
                begin = at + first * high
                rows = flat[member, begin : begin + asked.shape[2] * high]
                weight, to = rows.reshape(asked.shape[2], high), asked[member]
                of_inputs(slope, weight, nothing, to, NOTHING, to, short)


# The three products of a layer; see `product` for what they are given.


@njit(cache=True, nogil=True)
def onward(
    hidden: Floats, weight: Floats, bias: Floats, to: Floats, follows: int, short: bool
) -> None:
    """What a layer (in, out) says of what the one before said, (batch, in) -> (batch, out)."""
    if short:
        hidden, weight = rows_in_pairs(hidden), columns_in_pairs(weight)
    product(hidden, 4 * hidden.shape[1], 4, in_panels(weight), bias, to, follows, to, short)


@njit(cache=True, nogil=True)
def of_weights(hidden: Floats, slope: Floats, bias: Floats, to: Floats, short: bool) -> None:
    """The gradient of its weights, (in, out), given the slope of what it said, (batch, out)."""
    wide = hidden.shape[1]
    if short:
        hidden, slope = columns_in_pairs(hidden), columns_in_pairs(slope)
    product(hidden, 4, 4 * wide, in_panels(slope), bias, to, NOTHING, to, short)


@njit(cache=True, nogil=True)
def of_inputs(
    slope: Floats,
    weight: Floats,
    bias: Floats,
    to: Floats,
    follows: int,
    seen: Floats,
    short: bool,
) -> None:
    """That of what it saw, (batch, in), times the slope of an activation that made it."""
    if short:
        slope, weight = rows_in_pairs(slope), rows_in_pairs(weight)
    product(slope, 4 * slope.shape[1], 4, turned_in_panels(weight), bias, to, follows, seen, short)


# A tile of one column would be nothing but padding.


@njit(cache=True, nogil=True, fastmath={"contract"})
def _dots(matrix: Floats, weight: Floats, bias: Any, to: Floats) -> None:
    """One output: each row times a vector, summed in the order of inputs; eight rows at once."""
    rows, wide = matrix.shape
    i = 0
    while i + 8 <= rows:
        a = b = c = d = e = f = g = h = np.float32(0.0)
        for k in range(wide):
            w = weight[k]
            a += matrix[i, k] * w
            b += matrix[i + 1, k] * w
            c += matrix[i + 2, k] * w
            d += matrix[i + 3, k] * w
            e += matrix[i + 4, k] * w
            f += matrix[i + 5, k] * w
            g += matrix[i + 6, k] * w
            h += matrix[i + 7, k] * w
        to[i], to[i + 1], to[i + 2], to[i + 3] = a + bias, b + bias, c + bias, d + bias
        to[i + 4], to[i + 5], to[i + 6], to[i + 7] = e + bias, f + bias, g + bias, h + bias
        i += 8
    for j in range(i, rows):
        total = np.float32(0.0)
        for k in range(wide):
            total += matrix[j, k] * weight[k]
        to[j] = total + bias


# Sums go to memory and back once for four rows: waiting for them is most of what a row would take.


@njit(cache=True, nogil=True, fastmath={"contract"})
def _sum_weighted(matrix: Floats, weights: Floats, sums: Floats) -> None:
    """Its gradient: the sum of rows, each times its slope, in the order of rows."""
    sums[:] = np.float32(0.0)
    fours = len(matrix) - len(matrix) % 4
    for i in range(0, fours, 4):
        a, b, c, d = weights[i], weights[i + 1], weights[i + 2], weights[i + 3]
        for j in range(len(sums)):
            two = sums[j] + a * matrix[i, j] + b * matrix[i + 1, j]
            sums[j] = two + c * matrix[i + 2, j] + d * matrix[i + 3, j]
    for i in range(fours, len(matrix)):
        for j in range(len(sums)):
            sums[j] += weights[i] * matrix[i, j]


@njit(cache=True, nogil=True)
def _sum_rows(matrix: Floats, sums: Floats) -> None:
    sums[:] = np.float32(0.0)
    fours = len(matrix) - len(matrix) % 4
    for i in range(0, fours, 4):
        for j in range(len(sums)):
            two = sums[j] + matrix[i, j] + matrix[i + 1, j]
            sums[j] = two + matrix[i + 2, j] + matrix[i + 3, j]
    for i in range(fours, len(matrix)):
        for j in range(len(sums)):
            sums[j] += matrix[i, j]
