"""Step sizes, gradient norms and targets that follow."""

from __future__ import annotations

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


def adam(weights: list[Tensor], rate: float) -> torch.optim.Adam:
    """Adam in one pass over all weights."""
    return torch.optim.Adam(weights, lr=rate, fused=weights[0].device.type in ("cpu", "cuda"))


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


@torch.no_grad()
def polyak(targets: list[Tensor], sources: list[Tensor], share: float) -> None:
    """Move every target by a share of the way to its source."""
    torch._foreach_lerp_(targets, sources, share)


def generator_on(device: torch.device) -> torch.Generator:
    """Meta tensors hold no numbers, and need none; all else draws where it computes."""
    return torch.Generator("cpu" if device.type == "meta" else device)
