"""One pass over a rollout in minibatches, compiled: a single call makes all of its steps.

It is `ucpo.learners.minibatches.InTensors` for what is ordinary: Gaussian policies, perceptrons, a
CPU. With minibatches of 64 and layers of 64 a step is some 50 microseconds of numbers, and each of
the few dozen calls it would otherwise take is worth a few of these.

Numba's cache does not see that it is stale when only `passes` and what they are made of, `stacks`,
`ratio_slopes` or `kernels` have changed: whoever edits one of them touches this file.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from ucpo.learners.compiled.kernels import descend_rows, sum_row_squares
from ucpo.learners.compiled.ratio_slopes import divergences, surrogate_slopes
from ucpo.learners.compiled.stacks import Shape, and_back, says, there

Floats = Any  # arrays of float32, as numba sees them
Ints = Any


class Weights(NamedTuple):
    """What is moved, a row for each network, and what Adam remembers of its gradients."""

    here: Floats  # (networks, P)
    means: Floats  # (networks, P)
    squares: Floats  # (networks, P)


class Decided(NamedTuple):
    """The rollout, in no order."""

    seen: Floats  # (1, rows, in) by the actor
    sample: Floats  # (rows, action)
    log_prob: Floats  # (rows,)
    mean: Floats  # (rows, action) of the old policy
    log_std: Floats  # (action,) of the old policy
    advantage: Floats  # (rows,)
    costs: Floats  # (rows, C)
    excess: Floats  # (C,)


class Valued(NamedTuple):
    """The same for values."""

    seen: Floats  # (members or 1, rows, in)
    targets: Floats  # (members, rows)


class Rules(NamedTuple):
    """What belongs to a step beside the losses."""

    entropy: float  # weight of the policy's
    regulariser: float  # weight of the squares of the values' weights
    norm: float  # largest of a gradient
    apart: bool  # whether each network has a norm of its own


@njit(cache=True, nogil=True)
def one_pass(
    order: Ints,
    decided: Decided,
    valued: Valued,
    actor: Weights,
    actor_shape: Shape,
    log_std: Weights,
    values: Weights,
    values_shape: Shape,
    surrogate: int,
    numbers: Floats,
    rules: Rules,
    steps: Floats,
    losses: Floats,
) -> None:
    """Move policy and values along every minibatch.

    Args:
        order: Rows of the rollout as they are met, shared out as `torch.tensor_split` does it.
        decided: What the policy learns from.
        valued: What values learn from.
        actor: Layers of the policy.
        actor_shape: Of these.
        log_std: The policy's log-deviations, one row.
        values: Layers of all values.
        values_shape: Of these.
        surrogate: What a minibatch says about the policy, as `ratio_slopes` knows it.
        numbers: Of the surrogate.
        rules: What belongs to a step beside the losses.
        steps: Numbers of Adam at each step, for the policy and for values, (minibatches, 2, 6).
        losses: Filled with those of the policy and of each value, (minibatches, 1 + members).
    """
    of_actor, of_values = np.empty_like(actor.here), np.empty_like(values.here)
    of_log_std = np.empty_like(log_std.here)
    short, longer = divmod(len(order), len(steps))
    begin = 0
    for step in range(len(steps)):
        end = begin + short + (step < longer)
        rows = order[begin:end]
        begin = end
        _fit(valued, rows, values, values_shape, of_values, losses[step, 1:])
        if rules.regulariser:
            _add_squares(of_values, values.here, rules.regulariser)
        losses[step, 0] = _follow(
            decided, rows, actor, actor_shape, log_std, surrogate, numbers, of_actor, of_log_std
        )
        of_log_std -= np.float32(rules.entropy)  # a Gaussian's grows with each log-deviation
        limit = np.float32(rules.norm)
        of_policy, of_each = _limits(of_actor, of_log_std, of_values, limit, rules.apart)
        _move(log_std, of_log_std, of_policy, steps[step, 0])
        _move(actor, of_actor, of_policy, steps[step, 0])
        _move(values, of_values, of_each, steps[step, 1])


@njit(cache=True, nogil=True)
def divergence(decided: Decided, actor: Weights, shape: Shape, log_std: Weights) -> Any:
    """Mean KL from the old policy to the present one, over the whole rollout."""
    mean = says(actor.here, shape, decided.seen)
    return divergences(decided.mean, decided.log_std, mean[0], log_std.here[0]).mean()


@njit(cache=True, nogil=True)
def _fit(
    valued: Valued, rows: Ints, values: Weights, shape: Shape, gradient: Floats, errors: Floats
) -> None:
    """Mean squared errors of values, (members,), and the gradient of their sum."""
    members, batch = len(values.here), len(rows)
    inputs = _chosen(valued.seen, rows)
    said, hidden = there(values.here, shape, inputs)
    for member in range(members):
        total = np.float32(0.0)
        for i in range(batch):
            error = said[member, i, 0] - valued.targets[member, rows[i]]
            total += error * error
            said[member, i, 0] = error * np.float32(2.0 / batch)
        errors[member] = total / np.float32(batch)
    and_back(values.here, shape, inputs, hidden, said, gradient)


@njit(cache=True, nogil=True)
def _follow(
    decided: Decided,
    rows: Ints,
    actor: Weights,
    shape: Shape,
    log_std: Weights,
    surrogate: int,
    numbers: Floats,
    gradient: Floats,
    of_log_std: Floats,
) -> Any:
    """The policy's loss and its gradient."""
    inputs = _chosen(decided.seen, rows)
    mean, hidden = there(actor.here, shape, inputs)
    slope = np.empty_like(mean)
    loss = surrogate_slopes(
        surrogate,
        numbers,
        mean[0],
        log_std.here[0],
        decided.sample[rows],
        decided.log_prob[rows],
        decided.mean[rows],
        decided.log_std,
        decided.advantage[rows],
        decided.costs[rows],
        decided.excess,
        slope[0],
        of_log_std[0],
    )
    and_back(actor.here, shape, inputs, hidden, slope, gradient)
    return loss


@njit(cache=True, nogil=True)
def _chosen(seen: Floats, rows: Ints) -> Floats:
    members, _, wide = seen.shape
    found = np.empty((members, len(rows), wide), np.float32)
    for member in range(members):
        for i in range(len(rows)):
            row = rows[i]
            for j in range(wide):
                found[member, i, j] = seen[member, row, j]
    return found


@njit(cache=True, nogil=True)
def _add_squares(gradient: Floats, weight: Floats, share: float) -> None:
    factor = np.float32(2.0 * share)
    for i in range(len(weight)):
        for j in range(weight.shape[1]):
            gradient[i, j] += factor * weight[i, j]


@njit(cache=True, nogil=True)
def _limits(
    of_actor: Floats, of_log_std: Floats, of_values: Floats, limit: Any, apart: bool
) -> tuple[Floats, Floats]:
    """Factors of the policy's gradient, (1,), and of each value's, (members,)."""
    policy, each = np.empty(1, np.float32), np.empty(len(of_values), np.float32)
    beside = np.empty(1, np.float32)
    sum_row_squares(of_actor, policy)
    sum_row_squares(of_log_std, beside)
    sum_row_squares(of_values, each)
    policy += beside
    if not apart:
        policy += each.sum()
        each[:] = policy[0]
    for squares in (policy, each):
        for i in range(len(squares)):
            norm = np.sqrt(squares[i])
            squares[i] = limit / (norm + np.float32(1e-6)) if norm > limit else np.float32(1.0)
    return policy, each


@njit(cache=True, nogil=True)
def _move(weights: Weights, gradient: Floats, shrink: Floats, numbers: Floats) -> None:
    descend_rows(weights.here, gradient, weights.means, weights.squares, shrink, numbers)
