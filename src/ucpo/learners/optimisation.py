"""Step sizes, gradient norms and targets that follow."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Decay:
    """A step size that stays at first, falls geometrically to last, then stays there."""

    first: float
    last: float
    start: int  # environment steps before it falls
    env_steps: int  # it takes to fall

    def at(self, env_steps: int) -> float:
        """The step size after so many environment steps."""
        share = min(max(env_steps - self.start, 0) / self.env_steps, 1.0)
        return float(self.first * (self.last / self.first) ** share)


@dataclass(frozen=True)
class Slope:
    """A step size that falls linearly, over a whole run, to nothing; or stays."""

    first: float
    env_steps: int | None  # of the run; None: it stays

    def at(self, env_steps: int) -> float:
        """The step size after so many environment steps."""
        if self.env_steps is None:
            return self.first
        return self.first * max(1.0 - env_steps / self.env_steps, 0.0)


def adam(weights: list[Tensor], rate: float) -> torch.optim.Adam:
    """Adam in one pass over all weights."""
    return torch.optim.Adam(weights, lr=rate, fused=_fuses(weights))


def adam_of(groups: list[list[Tensor]], epsilon: float) -> torch.optim.Adam:
    """Adam of several groups of weights, each with a step size of its own."""
    parts = [{"params": group} for group in groups]
    return torch.optim.Adam(parts, eps=epsilon, fused=_fuses(groups[0]))


def add_squares(weights: list[Tensor], share: float) -> None:
    """Add the gradient of a share of the sum of squares to those that are there."""
    for weight in weights:
        if weight.grad is not None:
            weight.grad.add_(weight.detach(), alpha=2.0 * share)


def _fuses(weights: list[Tensor]) -> bool:
    return weights[0].device.type in ("cpu", "cuda")


def take_step(optimiser: torch.optim.Optimizer, rate: float) -> None:
    """One step along the gradients there are, of this size."""
    for group in optimiser.param_groups:
        group["lr"] = rate
    optimiser.step()


def clip_rows(weights: list[Tensor], limit: float, together: int) -> None:
    """Limit the gradient norm of each row of the weights, of the first rows together.

    Args:
        weights: Matrices with a row for each network.
        limit: Largest norm.
        together: How many rows, the first ones, count as one network.
    """
    gradients = [weight.grad for weight in weights if weight.grad is not None]
    squares = torch.stack([torch.linalg.vecdot(g, g) for g in gradients]).sum(0)  # (rows,)
    squares[:together] = squares[:together].sum()
    shrink = (limit / (squares.sqrt() + 1e-6)).clamp(max=1.0)
    for gradient in gradients:
        gradient.mul_(shrink[:, None])


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
