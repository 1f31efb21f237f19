"""Compiled loops and hand-written backward passes, out of the reader's way.

What each computes is said, in equations, where it is used: `ucpo.learners.networks`,
`ucpo.learners.quantiles`, `ucpo.learners.replay` and `ucpo.learners.rollout`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor

_MINUS_ONE = torch.tensor(-1.0)
Floats = Any  # arrays, as numba sees them
Ints = Any


# --- Several perceptrons side by side ---


def beside(inputs: Sequence[Tensor], members: int) -> Tensor:
    """Inputs joined along their last axis, (members, batch, in), copied no more than needed."""
    if any(part.dim() == 3 for part in inputs):
        inputs = [part.expand(members, -1, -1) for part in inputs]
    return torch.cat(list(inputs), dim=-1).expand(members, -1, -1)


def _tanh_(values: Tensor) -> Tensor:
    """In place, as ``2 sigmoid(2 x) - 1``: in PyTorch a third of the time, to 1e-7."""
    return values.mul_(2.0).sigmoid_().mul_(2.0).sub_(1.0)


def one_by_one(layers: Any, inputs: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
    """What the perceptrons say, (members, batch, out), and what each of their layers saw."""
    rows = layers.rows()
    first = beside(inputs, len(rows))
    output = first.new_empty(*first.shape[:2], layers.sizes[-1])
    seen: list[Tensor] = []
    for stack, hidden, last in zip(rows, first.unbind(), output.unbind(), strict=True):
        for i, (weight, bias) in enumerate(stack):
            seen.append(hidden)
            to = last if i + 1 == len(stack) else hidden.new_empty(len(hidden), len(bias))
            hidden = torch.addmm(bias, hidden, weight, out=to)
            if i < layers.activated:
                hidden.relu_() if layers.activation == "relu" else _tanh_(hidden)
    return output, seen


class OneByOne(torch.autograd.Function):
    """The same for a CPU, one member after the other: what a layer wrote is then still in the cache
    when the next one reads it.

    It also makes the gradient of only those inputs that ask for it (the actor's step needs the
    critics' gradient with respect to the action alone), and writes the gradients of parameters
    where they belong.
    """

    @staticmethod
    def forward(ctx: Any, layers: Any, flat: Tensor, *inputs: Tensor) -> Tensor:
        """As `Layers.forward` says it, in place where possible."""
        output, seen = one_by_one(layers, inputs)
        ctx.layers, ctx.shapes = layers, [part.shape for part in inputs]
        ctx.save_for_backward(flat, output, *seen)
        return output

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of the parameters and of the inputs that ask for theirs."""
        flat, output, *seen = ctx.saved_tensors
        layers, shapes, depth = ctx.layers, ctx.shapes, len(ctx.layers.sizes) - 1
        _, learns, *asked = ctx.needs_input_grad
        gradient = torch.empty_like(flat) if learns else None
        answers = [
            flat.new_empty(len(flat), *shape[-2:]) if wanted else None
            for shape, wanted in zip(shapes, asked, strict=True)
        ]
        for member, (stack, slope) in enumerate(
            zip(layers.rows(), upstream[0].unbind(), strict=True)
        ):
            hidden = [*seen[member * depth : (member + 1) * depth], output[member]]
            slots = layers.stack(gradient[member]) if gradient is not None else []
            for i in reversed(range(depth)):
                if i < layers.activated and layers.activation == "relu":
                    slope = torch.ops.aten.threshold_backward(slope, hidden[i + 1], 0.0)
                elif i < layers.activated:
                    slope = torch.ops.aten.tanh_backward(slope, hidden[i + 1])
                if slots:
                    weight, bias = slots[i]
                    torch.mm(hidden[i].T, slope, out=weight)
                    torch.sum(slope, 0, out=bias)
                if i:
                    slope = torch.mm(slope, stack[i][0].T)
            begin = 0
            for answer, shape in zip(answers, shapes, strict=True):
                end = begin + shape[-1]
                if answer is not None:
                    torch.mm(slope, stack[0][0][begin:end].T, out=answer[member])
                begin = end
        shared = [
            answer.sum(0) if answer is not None and len(shape) == 2 else answer
            for answer, shape in zip(answers, shapes, strict=True)
        ]
        return None, gradient, *shared


# --- One perceptron, there and back, while all it wrote is in the cache ---


def ahead(layers: Any, stack: Sequence[tuple[Tensor, Tensor]], inputs: Tensor) -> list[Tensor]:
    """What each layer of a member sees, (batch, in) each, and last what the member says."""
    seen = [inputs]
    for i, (weight, bias) in enumerate(stack):
        if i < layers.activated and layers.activation == "tanh":
            twice = torch.addmm(bias, seen[-1], weight, alpha=2, beta=2).sigmoid_()
            hidden = torch.add(
                _MINUS_ONE, twice, alpha=2, out=twice
            )  # as `_tanh_`, in fewer passes
        elif _narrow(bias):  # several times as fast with the few outputs as rows
            hidden = torch.nn.functional.linear(seen[-1], weight.T.contiguous(), bias)
        else:
            hidden = torch.addmm(bias, seen[-1], weight)
        if i < layers.activated and layers.activation == "relu":
            hidden.relu_()
        seen.append(hidden)
    return seen


def back(
    layers: Any,
    stack: Sequence[tuple[Tensor, Tensor]],
    seen: Sequence[Tensor],
    slope: Tensor,
    slots: Sequence[tuple[Tensor, Tensor]],
) -> None:
    """Write the gradients of a member's parameters, from that of what it says, (batch, out)."""
    for i in reversed(range(len(stack))):
        if i < layers.activated and layers.activation == "relu":
            slope = torch.ops.aten.threshold_backward(slope, seen[i + 1], 0.0)
        elif i < layers.activated:
            slope = torch.ops.aten.tanh_backward(slope, seen[i + 1])
        weight, bias = slots[i]
        if _narrow(bias):
            weight.copy_(torch.mm(slope.T, seen[i]).T)
        else:
            torch.mm(seen[i].T, slope, out=weight)
        torch.sum(slope, 0, out=bias)
        if i:
            slope = torch.mm(slope, stack[i][0].T)


def _narrow(bias: Tensor) -> bool:
    return 1 < len(bias) < 16


def fit_members(layers: Any, inputs: Tensor, targets: Tensor) -> Tensor:
    """Mean squared errors of members with one output, (members,); their gradient is left behind.

    Args:
        layers: Of all members.
        inputs: Of all members, (batch, in), or of each, (members, batch, in).
        targets: Of each, (members, batch).
    """
    losses = []
    shared = inputs.dim() == 2
    for member, (stack, slots) in enumerate(zip(layers.rows(), layers.slots(), strict=True)):
        seen = ahead(layers, stack, inputs if shared else inputs[member])
        error = seen[-1][:, 0] - targets[member]
        losses.append(torch.dot(error, error) / len(error))
        back(layers, stack, seen, (error * (2.0 / len(error)))[:, None], slots)
    return torch.stack(losses)


# --- The quantile loss ---


def levels(count: int) -> Tensor:
    """The cumulative probabilities ``(2i - 1) / 2N`` the quantiles stand for, shape (N,)."""
    return (torch.arange(count, dtype=torch.float32) + 0.5) / count


class QuantileLoss(torch.autograd.Function):
    """Of each critic, the mean over pairs and batch; the gradient is counted on the way."""

    @staticmethod
    def forward(ctx: Any, quantiles: Tensor, targets: Tensor) -> Tensor:
        """Loss of each critic, (critics,)."""
        on_cpu = quantiles.device.type == "cpu" and quantiles.dtype == torch.float32
        loss, gradient = (_compiled if on_cpu else _in_tensors)(quantiles, targets)
        pairs = quantiles.shape[1] * quantiles.shape[2] * targets.shape[2]
        ctx.save_for_backward(gradient)
        ctx.pairs = pairs
        return loss.sum(-1) / pairs

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, None]:
        """Gradient with respect to the predictions; targets are constants."""
        (gradient,) = ctx.saved_tensors
        return (upstream[0] / ctx.pairs)[:, None, None] * gradient, None


def _compiled(quantiles: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Loss summed over pairs, (critics, batch), and its gradient, on the CPU."""
    gradient = np.empty(quantiles.shape, np.float32)
    loss = np.empty(quantiles.shape[:2], np.float32)
    taus = levels(quantiles.shape[2]).numpy()
    # NumPy's sort uses SIMD; a comparison sort in the loop below would cost several times as much.
    ordered = np.sort(targets.numpy(), axis=-1)
    _search(quantiles.detach().contiguous().numpy(), ordered, taus, gradient, loss)
    return torch.from_numpy(loss), torch.from_numpy(gradient)


@numba.njit(cache=True, nogil=True)
def _search(
    quantiles: Floats, ordered: Floats, taus: Floats, gradient: Floats, loss: Floats
) -> None:
    critics, batch, count = quantiles.shape
    samples = ordered.shape[2]
    stride = 1  # the largest power of two within `samples`
    while 2 * stride <= samples:
        stride *= 2
    row = np.full(2 * stride, np.inf, np.float32)  # the targets, then infinities
    sums = np.zeros(samples + 1, np.float64)  # sums[k]: of the k smallest targets
    below = np.empty(count, np.int32)
    one = np.float32(1.0)
    for critic in range(critics):
        for sample in range(batch):
            for j in range(samples):
                row[j] = ordered[critic, sample, j]
                sums[j + 1] = sums[j] + row[j]
            # Binary searches side by side: no branch depends on the data, so none is mispredicted.
            below[:] = 0
            step = stride
            while step:
                for i in range(count):
                    start = below[i]
                    further = row[start + step - 1] < quantiles[critic, sample, i]
                    below[i] = start + step if further else start
                step //= 2
            total = 0.0
            for i in range(count):
                quantile, tau, k = quantiles[critic, sample, i], taus[i], below[i]
                up_to = k
                while up_to < samples and row[up_to] == quantile:
                    up_to += 1
                above = np.float32(samples - up_to)
                gradient[critic, sample, i] = np.float32(k) * (one - tau) - above * tau
                rest = sums[samples] - sums[k] - (samples - k) * np.float64(quantile)
                total += (one - tau) * (k * np.float64(quantile) - sums[k]) + tau * rest
            loss[critic, sample] = total


def _in_tensors(quantiles: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """The same in tensor operations, for other devices and precisions."""
    taus = levels(quantiles.shape[2]).to(quantiles)
    ordered = targets.sort(-1).values
    below = torch.searchsorted(ordered, quantiles.detach())
    above = ordered.shape[-1] - torch.searchsorted(ordered, quantiles.detach(), right=True)
    gradient = below * (1.0 - taus) - above * taus
    sums = torch.nn.functional.pad(ordered.cumsum(-1), (1, 0))
    sum_below = sums.gather(-1, below)
    shortfall = below * quantiles - sum_below
    overshoot = sums[..., -1:] - sum_below - (ordered.shape[-1] - below) * quantiles
    return ((1.0 - taus) * shortfall + taus * overshoot).sum(-1), gradient


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


# --- Minibatches of a rollout ---


def clipped_loss(
    mean: Tensor,
    log_std: Tensor,
    sample: Tensor,
    log_prob: Tensor,
    advantage: Tensor,
    clip: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """PPO's loss of a Gaussian policy, and its gradients in means and log-deviations.

    As `ucpo.learners.surrogates.Clipped` says it, in one pass.
    """
    given: list[Any] = [
        part.detach().numpy() for part in (mean, log_std, sample, log_prob, advantage)
    ]
    of_mean, of_log_std = np.empty(mean.shape, np.float32), np.zeros(len(log_std), np.float32)
    loss: float = _clipped(*given, clip, of_mean, of_log_std)  # type: ignore[call-arg]
    return torch.tensor(loss), torch.from_numpy(of_mean), torch.from_numpy(of_log_std)


@numba.njit(cache=True, nogil=True)
def _clipped(
    mean: Floats,
    log_std: Floats,
    sample: Floats,
    log_prob: Floats,
    advantage: Floats,
    clip: float,
    of_mean: Floats,
    of_log_std: Floats,
) -> Any:
    batch, actions = mean.shape
    inverse = np.exp(-log_std)
    constant = 0.0
    for a in range(actions):
        constant += log_std[a] + 0.5 * np.log(2.0 * np.pi)
    loss = 0.0
    for i in range(batch):
        chance = -constant
        for a in range(actions):
            noise = (sample[i, a] - mean[i, a]) * inverse[a]
            chance -= 0.5 * noise * noise
        ratio = np.exp(chance - log_prob[i])
        near = min(max(ratio, 1.0 - clip), 1.0 + clip)
        gain = ratio * advantage[i]
        # Where the clipped reading is the smaller one, nothing is to be gained by moving on.
        moves = gain <= near * advantage[i]
        loss -= gain if moves else near * advantage[i]
        slope = -gain / batch if moves else 0.0
        for a in range(actions):
            noise = (sample[i, a] - mean[i, a]) * inverse[a]
            of_mean[i, a] = slope * noise * inverse[a]
            of_log_std[a] += slope * (noise * noise - 1.0)
    return loss / batch


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
