"""Layers, optimisers, windows of a replay and sums along a rollout, as compiled loops.

What each computes is said, in equations, where it is used: `ucpo.learners.networks`,
`ucpo.learners.optimisation`, `ucpo.learners.replay` and `ucpo.learners.rollout`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor

from ucpo.learners.compiled.passes import answer, backward, forward

Floats = Any  # arrays, as numba sees them
Ints = Any


# --- Several perceptrons side by side ---


def beside(inputs: Sequence[Tensor], members: int) -> Tensor:
    """Inputs joined along their last axis, (members, batch, in), copied no more than needed."""
    if any(part.dim() == 3 for part in inputs):
        inputs = [part.expand(members, -1, -1) for part in inputs]
    return torch.cat(list(inputs), dim=-1).expand(members, -1, -1)


def joined(inputs: Sequence[Tensor], members: int) -> Tensor:
    """The same, (members, batch, in), or (1, batch, in) if all members see the same.

    Where there is nothing to join, nothing is copied.
    """
    if any(part.dim() == 3 for part in inputs):
        inputs = [part.expand(members, -1, -1) for part in inputs]
    filled = [part for part in inputs if part.shape[-1]]  # a stock that is hidden has no width
    both = filled[0] if len(filled) == 1 else torch.cat(list(inputs), dim=-1)
    return both if both.dim() == 3 else both[None]


def ahead(layers: Any, inputs: Tensor) -> tuple[Tensor, Tensor]:
    """What the perceptrons say, (members, batch, out), and what their hidden layers said.

    Args:
        layers: `ucpo.learners.networks.Layers`.
        inputs: As `joined` has them.
    """
    given, said = _given(layers, inputs)
    members, batch, _ = said.shape
    seen = np.empty((members, batch * sum(layers.sizes[1:-1])), np.float32)
    forward(*given, seen, said)  # type: ignore[call-arg]
    return torch.from_numpy(said), torch.from_numpy(seen)


def answers(layers: Any, inputs: Tensor) -> Tensor:
    """What the perceptrons say, (members, batch, out), where nobody asks how they came to it.

    Args:
        layers: As in `ahead`.
        inputs: ...
    """
    given, said = _given(layers, inputs)
    answer(*given, said)  # type: ignore[call-arg]
    return torch.from_numpy(said)


def _given(layers: Any, inputs: Tensor) -> tuple[Any, Floats]:
    """What compiled passes need to know, and where their answer goes, (members, batch, out)."""
    flat, sizes = layers.flat.detach(), layers.sizes
    seen_by, batch, wide = inputs.shape
    if seen_by not in (1, len(flat)) or wide != sizes[0] or inputs.dtype != torch.float32:
        raise ValueError(
            f"{len(flat)} networks need inputs of {sizes[0]} numbers in float32, "
            f"got {tuple(inputs.shape)} in {inputs.dtype}"
        )
    said = np.empty((len(flat), batch, sizes[-1]), np.float32)
    return (flat.numpy(), *layers.shape, inputs.detach().contiguous().numpy()), said


def back(
    layers: Any,
    inputs: Tensor,
    seen: Tensor,
    slope: Tensor,
    gradient: Tensor | None,
    asked: slice = slice(0, 0),
) -> Tensor:
    """Fill in the gradient of all parameters; return that of some inputs, (members, batch, k).

    Args:
        layers: As in `ahead`, like what follows.
        inputs: ...
        seen: ...
        slope: Gradient of what the last layer says, (members, batch, out).
        gradient: Where that of the parameters goes, or None.
        asked: Of which inputs.
    """
    flat = layers.flat.detach().numpy()
    weights = flat[:0] if gradient is None else gradient.numpy()
    answer = np.empty((len(flat), inputs.shape[1], asked.stop - asked.start), np.float32)
    given = (inputs.detach().contiguous().numpy(), seen.numpy(), slope.contiguous().numpy())
    rest: Any = (*layers.shape, *given, weights, asked.start, answer)
    backward(flat, *rest)
    return torch.from_numpy(answer)


class Passes(torch.autograd.Function):
    """The perceptrons' answers with a way back.

    It makes the gradient of only those inputs that ask for it: the actor's step needs the critics'
    gradient with respect to the action alone.
    """

    @staticmethod
    def forward(ctx: Any, layers: Any, flat: Tensor, *inputs: Tensor) -> Tensor:
        """As `Layers.forward` says it."""
        both = joined(inputs, len(flat))
        said, seen = ahead(layers, both)
        ctx.layers, ctx.shapes = layers, [part.shape for part in inputs]
        ctx.save_for_backward(flat, both, seen, said)
        return said

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of the parameters and of the inputs that ask for theirs."""
        flat, both, seen, said = ctx.saved_tensors
        layers, shapes, slope = ctx.layers, ctx.shapes, upstream[0]
        _, learns, *asked = ctx.needs_input_grad
        if layers.activated == len(layers.sizes) - 1:
            slope = torch.ops.aten.threshold_backward(slope, said, 0.0)
        gradient = torch.empty_like(flat) if learns else None
        ends = np.cumsum([shape[-1] for shape in shapes])
        wanted = [place for place, wish in enumerate(asked) if wish]
        span = slice(0, 0)
        if wanted:
            span = slice(int(ends[wanted[0]] - shapes[wanted[0]][-1]), int(ends[wanted[-1]]))
        found = back(layers, both, seen, slope, gradient, span)
        answers: list[Tensor | None] = [None] * len(shapes)
        for place in wanted:
            end = int(ends[place]) - span.start
            answer = found[:, :, end - shapes[place][-1] : end]
            answers[place] = answer.sum(0) if len(shapes[place]) == 2 else answer
        return None, gradient, *answers


def fit_members(layers: Any, inputs: Tensor, targets: Tensor) -> Tensor:
    """Mean squared errors of members with one output, (members,); their gradient is left behind.

    Args:
        layers: Of all members.
        inputs: As `joined` has them.
        targets: Of each, (members, batch).
    """
    said, seen = ahead(layers, inputs)
    errors = said[:, :, 0] - targets
    back(layers, inputs, seen, (errors * (2.0 / errors.shape[1]))[:, :, None], layers.gradient())
    squares: Tensor = torch.linalg.vecdot(errors, errors)
    return squares / errors.shape[1]


# --- Steps of Adam ---


def row_squares(gradient: Tensor) -> Tensor:
    """The sum of squares of each row, (rows,)."""
    found = np.empty(len(gradient), np.float32)
    sum_row_squares(gradient.numpy(), found)
    return torch.from_numpy(found)


def row_factors(gradient: Tensor, limit: float, together: int) -> Tensor:
    """By which factor each row is made smaller, (rows,), so that no norm is above a limit.

    Args:
        gradient: (rows, P).
        limit: Largest norm.
        together: How many rows, the first ones, count as one.
    """
    found = np.empty(len(gradient), np.float32)
    _row_factors(gradient.numpy(), np.float32(limit), together, found)
    return torch.from_numpy(found)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _row_factors(rows: Floats, limit: Any, together: int, found: Floats) -> None:
    sum_row_squares(rows, found)
    joint = np.float32(0.0)
    for i in range(together):
        joint += found[i]
    for i in range(len(rows)):
        size = np.sqrt(joint if i < together else found[i]) + np.float32(1e-6)
        # What is not a number stays none.
        found[i] = np.float32(1.0) if limit > size else limit / size


@numba.njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def sum_row_squares(rows: Floats, found: Floats) -> None:
    """The sum of squares of each row of (rows, P), (rows,)."""
    for i in range(len(rows)):
        total = np.float32(0.0)
        for j in range(rows.shape[1]):
            total += rows[i, j] * rows[i, j]
        found[i] = total


def descend(
    weight: Tensor,
    gradient: Tensor,
    mean: Tensor,
    square: Tensor,
    shrink: Tensor,
    memory: tuple[float, float],
    size: float,
    root: float,
    epsilon: float,
) -> None:
    """A step of Adam, as `ucpo.learners.optimisation` has it in tensor operations."""
    given: Any = [part.numpy() for part in (weight, gradient, mean, square, shrink)]
    numbers: Any = np.array(
        [1.0 - memory[0], memory[1], 1.0 - memory[1], size, root, epsilon], np.float32
    )
    descend_rows(*given, numbers)  # type: ignore[call-arg]
    torch.autograd.graph.increment_version(weight)  # so that gradients of before are refused


@numba.njit(cache=True, nogil=True, error_model="numpy")
def descend_rows(
    weight: Floats, gradient: Floats, mean: Floats, square: Floats, shrink: Floats, numbers: Floats
) -> None:
    """A step of Adam for each row, its gradient times a factor, (rows,)."""
    new, kept, added, size, root, epsilon = numbers  # one minus 0.999 is no 0.001 in float32
    for i in range(len(weight)):
        factor = shrink[i]
        for j in range(weight.shape[1]):
            slope = gradient[i, j] * factor
            first = mean[i, j] + new * (slope - mean[i, j])
            second = kept * square[i, j] + added * (slope * slope)
            mean[i, j] = first
            square[i, j] = second
            weight[i, j] -= size * first / (np.sqrt(second) / root + epsilon)


# --- Statistics of observations ---


@numba.njit(cache=True, nogil=True)
def column_moments(rows: Floats, mean: Floats, squares: Floats) -> None:
    """Means of columns, (k,), and sums of squared differences from them, in double precision."""
    mean[:] = squares[:] = 0.0
    for i in range(len(rows)):
        for j in range(len(mean)):
            mean[j] += rows[i, j]
    mean /= len(rows)
    for i in range(len(rows)):
        for j in range(len(mean)):
            difference = rows[i, j] - mean[j]
            squares[j] += difference * difference


# --- Windows of the replay ---


@numba.njit(cache=True, nogil=True)
def assemble_windows(
    gains: Any,
    env_steps: Any,
    ended: Any,
    terminated: Any,
    newest: int,
    n_step: int,
    rows: Ints,
    envs: Ints,
    decay: Floats,
    sums: Floats,
    last: Ints,
    discount: Floats,
) -> None:
    """Walk every window: discounted sums of its gains, its last row, the discounts after it."""
    for i in range(len(rows)):
        row, env = rows[i], envs[i]
        age = 0  # environment steps since the window's beginning
        for k in range(n_step):
            for j in range(sums.shape[1]):
                sums[i, j] += decay[age, j] * gains[row, env, j]
            age += int(env_steps[row, env])
            if ended[row, env] or row == newest or k + 1 == n_step:
                last[i] = row
                for j in range(sums.shape[1]):
                    discount[i, j] = np.float32(0.0) if terminated[row, env] else decay[age, j]
                break
            row = (row + 1) % len(ended)


# --- Advantages of a rollout ---


@numba.njit(cache=True, nogil=True)
def walk_back(
    gains: Floats,
    values: Floats,
    after: Floats,
    discount: Floats,
    lam: Floats,
    bootstraps: Any,
    terminated: Any,
    ended: Any,
    lost: Any,
    advantages: Floats,
) -> None:
    """From the end of each row to its beginning: what every decision was worth, by signal."""
    steps, envs, signals = gains.shape
    for env in range(envs):
        for signal in range(signals):
            carry = 0.0
            for t in range(steps - 1, -1, -1):
                if lost[t, env]:  # what came of it is not known, so nothing is said of it
                    carry = 0.0
                    advantages[t, env, signal] = 0.0
                    continue
                if terminated[t, env] or (ended[t, env] and not bootstraps[signal]):
                    carry = future = 0.0
                elif ended[t, env] or t + 1 == steps:
                    carry = 0.0
                    future = after[t, env, signal]
                else:
                    future = values[t + 1, env, signal]
                fades = discount[t, env, signal]
                delta = gains[t, env, signal] + fades * future - values[t, env, signal]
                carry = delta + fades * lam[signal] * carry
                advantages[t, env, signal] = carry
