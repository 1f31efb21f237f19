"""Step sizes, gradient norms and targets that follow."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ucpo.envs.interface import Arrays
from ucpo.learners.compiled.kernels import descend, row_factors, row_squares
from ucpo.problem import Floats
from ucpo.storage import states


@dataclass(frozen=True)
class Decay:
    """A step size that stays at first, falls geometrically to last, then stays there."""

    first: float
    last: float
    start: int  # environment steps before it falls
    env_steps: int  # it takes to fall

    def at(self, env_steps: int) -> float:
        """The step size after so many environment steps."""
        if self.first == self.last:
            return self.first
        share = min(max(env_steps - self.start, 0) / self.env_steps, 1.0)
        return float(self.first * (self.last / self.first) ** share)


@dataclass(frozen=True)
class Slope:
    """A step size that falls linearly, over a whole run, to nothing; or stays."""

    first: float
    env_steps: int | None  # of the run; None: it stays

    def over(self, env_steps: int) -> Slope:
        """The same over a run of this many environment steps."""
        return self if self.env_steps is None else Slope(self.first, env_steps)

    def at(self, env_steps: int) -> float:
        """The step size after so many environment steps."""
        if self.env_steps is None:
            return self.first
        return self.first * max(1.0 - env_steps / self.env_steps, 0.0)


def add_squares(weights: list[Tensor], share: float) -> None:
    """Add the gradient of a share of the sum of squares to those that are there."""
    for weight in weights:
        if weight.grad is not None:
            weight.grad.add_(weight.detach(), alpha=2.0 * share)


class Adam:
    """Adam, in one compiled pass over each tensor on the CPU.

    Args:
        weights: What is moved, along the gradients that are left in it.
        epsilon: Keeps steps along small gradients small.
    """

    MEMORY = (0.9, 0.999)

    def __init__(self, weights: list[Tensor], epsilon: float = 1e-8) -> None:
        self.weights, self._epsilon, self._steps = weights, epsilon, 0
        self._means = [torch.zeros_like(weight) for weight in weights]  # of gradients
        self._squares = [torch.zeros_like(weight) for weight in weights]  # likewise
        self.compiled = all(w.device.type == "cpu" and w.dtype == torch.float32 for w in weights)
        self._move = descend if self.compiled else _descend
        self._plain = torch.ones(1, device=weights[0].device)

    def gradients(self) -> list[Tensor]:
        """Of all weights; what has none has 0."""
        return [
            torch.zeros_like(weight) if weight.grad is None else weight.grad
            for weight in self.weights
        ]

    @torch.no_grad()
    def step(self, rates: Sequence[float], shrink: Tensor | None = None) -> None:
        """One step along the gradients there are.

        Args:
            rates: Step size of each of the weights.
            shrink: A factor for the gradient of each row, (rows,), if weights are matrices.
        """
        self._steps += 1
        first, second = (1.0 - memory**self._steps for memory in self.MEMORY)
        for rate, *parts in zip(
            rates, self.weights, self.gradients(), self._means, self._squares, strict=True
        ):
            if shrink is None:
                parts = [part.view(1, -1) for part in parts]
            weight, gradient, mean, square = parts
            factor = self._plain if shrink is None else shrink
            kept = (weight.detach(), gradient, mean, square, factor)
            self._move(*kept, self.MEMORY, rate / first, second**0.5, self._epsilon)

    def numbers(self, rates: Sequence[float], steps: int) -> Floats:
        """Count steps that are made elsewhere, by `descend_rows`.

        Returns what that needs to know of each, at each of these rates, (steps, rates, 6).
        """
        taken = self._steps + np.arange(1, steps + 1)[:, None]
        self._steps += steps
        first, second = (1.0 - memory**taken for memory in self.MEMORY)
        found = np.empty((steps, len(rates), 6), np.float32)
        found[:, :, :3] = 1.0 - self.MEMORY[0], self.MEMORY[1], 1.0 - self.MEMORY[1]
        found[:, :, 3], found[:, :, 4] = np.array(rates) / first, np.sqrt(second)
        found[:, :, 5] = self._epsilon
        return found

    def memory(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """What is kept of a weight's gradients and of their squares, for steps made elsewhere."""
        place = [other is weight for other in self.weights].index(True)
        return self._means[place], self._squares[place]

    def state(self) -> Arrays:
        """What `restore` needs to go on from here; nothing before the first step."""
        if not self._steps:
            return {}
        return {key: value.copy() for key, value in self._memories().items()}

    def restore(self, state: Arrays) -> None:
        """Go on from a saved state."""
        self._steps = 0
        for memory in (*self._means, *self._squares):
            memory.zero_()
        if not state:  # saved before the first step
            return
        states.fit(state, self._memories(), "optimiser")
        for index, (mean, square) in enumerate(zip(self._means, self._squares, strict=True)):
            mean.copy_(torch.from_numpy(state[f"{index}/exp_avg"]))
            square.copy_(torch.from_numpy(state[f"{index}/exp_avg_sq"]))
            self._steps = int(state[f"{index}/step"])

    def _memories(self) -> Arrays:
        """By the names PyTorch's Adam has for them."""
        found: Arrays = {}
        for index, (mean, square) in enumerate(zip(self._means, self._squares, strict=True)):
            found[f"{index}/step"] = np.array(self._steps, np.float32)
            found[f"{index}/exp_avg"] = mean.cpu().numpy()
            found[f"{index}/exp_avg_sq"] = square.cpu().numpy()
        return found


class Descent:
    """Adam on networks side by side, each with a limited gradient norm.

    Args:
        weights: Matrices with a row for each network.
        limit: Largest norm of a network's gradient.
        together: How many networks, the first ones, count as one there.
    """

    def __init__(self, weights: list[Tensor], limit: float, together: int = 1) -> None:
        self._adam, self._limit, self._together = Adam(weights), limit, together
        self._sizes = row_squares if self._adam.compiled else _row_squares

    def step(self, loss: Tensor, rate: float) -> None:
        """One step of this size down the gradient of a loss."""
        weights = self._adam.weights
        for weight in weights:
            weight.grad = None
        loss.backward()  # type: ignore[no-untyped-call]
        self.follow(rate)

    def follow(self, rate: float) -> None:
        """One step of this size down the gradients that are in the weights."""
        gradients = self._adam.gradients()
        self._adam.step([rate] * len(gradients), self._shrink(gradients))

    def _shrink(self, gradients: list[Tensor]) -> Tensor:
        """By which factor each network's gradient is made smaller, (rows,)."""
        if self._adam.compiled and len(gradients) == 1:
            return row_factors(gradients[0], self._limit, self._together)
        squares = self._sizes(gradients[0])
        for gradient in gradients[1:]:
            squares += self._sizes(gradient)
        squares[: self._together] = squares[: self._together].sum()
        return (self._limit / (squares.sqrt() + 1e-6)).clamp(max=1.0)

    def state(self) -> Arrays:
        """What Adam remembers."""
        return self._adam.state()

    def restore(self, state: Arrays) -> None:
        """Go on from a saved state."""
        self._adam.restore(state)


def _row_squares(gradient: Tensor) -> Tensor:
    squares: Tensor = torch.linalg.vecdot(gradient, gradient)
    return squares


def _descend(
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
    """Adam in tensor operations, with a factor for each row of the gradient."""
    gradient = gradient * shrink[:, None]
    mean.lerp_(gradient, 1.0 - memory[0])
    square.mul_(memory[1]).addcmul_(gradient, gradient, value=1.0 - memory[1])
    weight.addcdiv_(mean, square.sqrt().div_(root).add_(epsilon), value=-size)


def limit_norms(
    groups: list[list[Tensor]], rows: list[Tensor], limit: float, *, apart: bool
) -> None:
    """Limit gradient norms: of each network apart, or of all together.

    Args:
        groups: Weights of networks, each by itself.
        rows: Matrices with a row for each of further networks.
        limit: Largest norm.
        apart: Whether every network has a norm of its own.
    """
    if not apart:
        every = [weight.grad for group in (*groups, rows) for weight in group]
        found = [gradient for gradient in every if gradient is not None]
        norm = math.hypot(*[float(torch.linalg.vector_norm(gradient)) for gradient in found])
        if norm > limit:
            torch._foreach_mul_(found, limit / (norm + 1e-6))
        return
    single = [[weight.grad for weight in group if weight.grad is not None] for group in groups]
    joint = [weight.grad for weight in rows if weight.grad is not None]
    squares = [
        torch.stack([torch.linalg.vecdot(g.view(-1), g.view(-1)) for g in own]).sum().view(1)
        for own in single
    ]
    squares.append(torch.stack([torch.linalg.vecdot(g, g) for g in joint]).sum(0))
    sizes = torch.cat(squares)
    norms = sizes.sqrt()
    if not (norms > limit).any():
        return
    shrink = (limit / (norms + 1e-6)).clamp(max=1.0)
    for index, own in enumerate(single):
        for gradient in own:
            gradient.mul_(shrink[index])
    for gradient in joint:
        gradient.mul_(shrink[len(single) :, None])


@torch.no_grad()
def polyak(targets: list[Tensor], sources: list[Tensor], share: float) -> None:
    """Move every target by a share of the way to its source."""
    torch._foreach_lerp_(targets, sources, share)


def generator_on(device: torch.device) -> torch.Generator:
    """Meta tensors hold no numbers, and need none; all else draws where it computes."""
    return torch.Generator("cpu" if device.type == "meta" else device)
