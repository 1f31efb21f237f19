"""Networks of the user's own, between the inputs and the last layer of actors and critics."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from ucpo.errors import UsageError
from ucpo.learners.compiled.kernels import beside

MakeTrunk = Callable[[int], nn.Module]
"""From the number of inputs to a module that makes features (batch, k) of inputs (batch, inputs).
"""


class Trunk(nn.Module):
    """`members` modules of one make, with a row of parameters each, as `Layers` has it.

    Args:
        make: Makes one of them; its first weights may be random.
        members: How many.
        inputs: Numbers each sees.
        generator: Decides what is random about the first weights.
    """

    def __init__(
        self, make: MakeTrunk, members: int, inputs: int, generator: torch.Generator
    ) -> None:
        super().__init__()
        seed = int(torch.randint(2**31, (1,), generator=generator))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            made = [make(inputs) for _ in range(members)]
        self.features = _features(made[0], inputs)
        # Kept in a list so that its own weights, which are never used, are none of ours.
        self._one = [made[0].requires_grad_(False)]
        self._shapes = {name: weight.shape for name, weight in made[0].named_parameters()}
        rows = [torch.cat([w.detach().reshape(-1) for w in one.parameters()]) for one in made]
        self.flat = nn.Parameter(torch.stack(rows))

    def forward(self, *inputs: Tensor) -> Tensor:
        """Inputs side by side, (batch, k) or (members, batch, k) -> (members, batch, features)."""
        seen = beside(inputs, len(self.flat))
        return torch.stack(
            [self._member(row, part) for row, part in zip(self.flat, seen, strict=True)]
        )

    def _member(self, row: Tensor, inputs: Tensor) -> Tensor:
        parts = torch.split(row, [shape.numel() for shape in self._shapes.values()])
        weights = {
            name: part.view(shape)
            for (name, shape), part in zip(self._shapes.items(), parts, strict=True)
        }
        features: Tensor = torch.func.functional_call(self._one[0], weights, (inputs,))
        return features


def _features(module: object, inputs: int) -> int:
    """How many features a module makes; refuses what cannot be learned or saved."""
    if not isinstance(module, nn.Module):
        raise UsageError(
            f"a network of your own is a torch.nn.Module, made by a function of the number of "
            f"inputs; got {type(module).__name__}"
        )
    if list(module.buffers()):
        raise UsageError(
            f"{type(module).__name__} keeps statistics beside its weights (buffers), which are "
            "neither saved nor followed by targets; use layers without, e.g. LayerNorm instead of "
            "BatchNorm"
        )
    if not list(module.parameters()):
        raise UsageError(f"{type(module).__name__} has no weights to learn")
    with torch.no_grad():
        found = module(torch.zeros(3, inputs))
    if not isinstance(found, Tensor) or found.dim() != 2 or len(found) != 3:
        raise UsageError(
            f"{type(module).__name__} must make features (batch, k) of inputs (batch, {inputs}); "
            f"of a batch of 3 it made {tuple(getattr(found, 'shape', ())) or type(found).__name__}"
        )
    return found.shape[1]
