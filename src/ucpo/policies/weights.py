"""Files of weights with a description: written whole, read without trust."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from ucpo.errors import UsageError
from ucpo.learners.actors import OnPolicyActor
from ucpo.learners.networks import Actor, Critics
from ucpo.learners.normaliser import Scaled
from ucpo.storage import files

FORMAT = 1
_KEY = "ucpo"
_SCALE = "body.scale"


def write(module: nn.Module, about: dict[str, Any], path: Path) -> None:
    """Write the weights of a module and what to say about them."""
    write_tensors(module.state_dict(), about, path)


def write_tensors(tensors: Mapping[str, Tensor], about: dict[str, Any], path: Path) -> None:
    """Write tensors by name and what to say about them."""
    weights = {name: value.cpu().contiguous() for name, value in tensors.items()}
    text = json.dumps({"format": FORMAT, **about})
    files.replace(path, safetensors.torch.save(weights, metadata={_KEY: text}))


class Stored:
    """An open file of weights."""

    def __init__(self, file: Path, tensors: Any) -> None:
        self.file, self._tensors = file, tensors
        about = json.loads((tensors.metadata() or {})[_KEY])
        if not isinstance(about, dict):
            raise ValueError("its description is no table")
        if about.pop("format") != FORMAT:
            raise UsageError(f"{file} was written by another version of ucpo; retrain or convert")
        self.about: dict[str, Any] = about

    def must_hold(self, count: int, width: int = 4) -> None:
        """Refuse to make a module of so many weights, of `width` bytes, where there are fewer."""
        if width * count > self.file.stat().st_size:
            raise ValueError(f"it is too short for the {count} weights it announces")

    def fill(
        self,
        module: Actor | Critics | OnPolicyActor,
        observation_size: int,
        matrices: Sequence[str] = ("F32",),
    ) -> None:
        """Take the weights over, if they fit and are numbers, and the observations' scale.

        Matrices may have the types of `matrices`, everything else is of single precision.
        Files of trainings that did not normalise, and older ones, have no scale.
        """
        if _SCALE in self._tensors.keys():  # noqa: SIM118 - no dictionary
            one = torch.ones(observation_size)
            module.body = Scaled(module.body, torch.zeros_like(one), one)
        expected = module.state_dict()
        if set(self._tensors.keys()) != set(expected):
            raise ValueError("its weights have other names")
        for name, weight in expected.items():
            found = self._tensors.get_slice(name)
            dtypes = matrices if weight.dim() == 2 else ("F32",)
            if found.get_dtype() not in dtypes or found.get_shape() != list(weight.shape):
                raise ValueError(f"{name} is {found.get_dtype()} of shape {found.get_shape()}")
            weight.copy_(self._tensors.get_tensor(name))
            if not torch.isfinite(weight).all():
                raise ValueError(f"{name} contains NaN or infinity")
            if name == _SCALE and not (weight > 0.0).all():
                raise ValueError(f"{name} holds what is no scale")


@contextmanager
def reading(file: Path, what: str) -> Iterator[Stored]:
    """Open a file of weights; whatever is wrong with it is said in a `UsageError`."""
    try:
        with safe_open(file, framework="pt") as tensors:
            yield Stored(file, tensors)
    except UsageError:
        raise
    except (
        SafetensorError,
        KeyError,
        TypeError,
        ValueError,
        RuntimeError,
        OverflowError,
        RecursionError,
    ) as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise UsageError(f"{file} is not {what} of ucpo, or it is damaged ({reason})") from None
