"""States as flat dictionaries of arrays: networks, optimisers and random generators.

Arrays by name fit any file format that holds arrays, and reading one cannot run code. Restoring
copies into what is there already, after comparing names, shapes and types, so a state that does not
belong changes nothing and allocates nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from ucpo.envs.interface import Arrays
from ucpo.errors import UsageError

_PCG_WORDS = 6  # state and increment (128 bits each), and a half-used draw


def within(name: str, state: Arrays) -> Arrays:
    """The state as part `name` of a larger one."""
    return {f"{name}/{key}": value for key, value in state.items()}


def part(state: Mapping[str, Any], name: str) -> Arrays:
    """The part of a state that `within` made."""
    prefix = f"{name}/"
    return {
        key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)
    }


def fit(state: Arrays, like: Arrays, what: str, lengths: bool = True) -> None:
    """Refuse a state whose names, shapes or types are not those of another.

    Without `lengths`, the first axis may be of another length.
    """
    for key in like.keys() ^ state.keys():
        where = "lacks" if key in like else "has an unknown"
        raise UsageError(f"the saved state of the {what} {where} {key!r}; it is not of this run")
    for key, value in like.items():
        mine, first = state[key], 0 if lengths else 1
        shapes = mine.ndim == value.ndim and mine.shape[first:] == value.shape[first:]
        if not shapes or mine.dtype != value.dtype:
            raise UsageError(
                f"the saved state of the {what} has {key!r} as {mine.dtype} {mine.shape}; this run "
                f"needs {value.dtype} {value.shape}"
            )


class Part(Protocol):
    """Something with a state of its own."""

    def state(self) -> Arrays:
        """What `restore` needs to go on from here."""

    def restore(self, state: Arrays) -> None:
        """Go on from a saved state."""


def gather(parts: Mapping[str, Part]) -> Arrays:
    """The states of several parts as one."""
    return {
        key: value
        for name, one in parts.items()
        for key, value in within(name, one.state()).items()
    }


def scatter(parts: Mapping[str, Part], state: Arrays) -> None:
    """Let each part go on from its own in what `gather` made."""
    unknown = {key.partition("/")[0] for key in state} - parts.keys()
    if unknown:
        raise UsageError(f"the saved state has an unknown part {sorted(unknown)[0]!r}")
    for name, one in parts.items():
        one.restore(part(state, name))


@dataclass(frozen=True)
class Module:
    """The weights of a network."""

    module: nn.Module
    what: str

    def state(self) -> Arrays:
        """Copies of all weights."""
        return of_module(self.module)

    def restore(self, state: Arrays) -> None:
        """Take over weights."""
        set_module(self.module, state, self.what)


@dataclass(frozen=True)
class Optimiser:
    """What an optimiser remembers of its weights."""

    optimiser: torch.optim.Optimizer
    weights: Sequence[Tensor]
    what: str

    def state(self) -> Arrays:
        """Nothing before its first step."""
        return of_optimiser(self.optimiser, self.weights)

    def restore(self, state: Arrays) -> None:
        """Take over what was remembered."""
        set_optimiser(self.optimiser, self.weights, state, self.what)


@dataclass(frozen=True)
class Noise:
    """A PyTorch generator."""

    generator: torch.Generator
    what: str = "noise"

    def state(self) -> Arrays:
        """Where it stands."""
        return of_noise(self.generator)

    def restore(self, state: Arrays) -> None:
        """Go on from where another one stood."""
        set_noise(self.generator, state, self.what)


@dataclass(frozen=True)
class Choice:
    """A NumPy generator."""

    generator: np.random.Generator
    what: str = "choice of transitions"

    def state(self) -> Arrays:
        """Where it stands."""
        return of_generator(self.generator)

    def restore(self, state: Arrays) -> None:
        """Go on from where another one stood."""
        set_generator(self.generator, state, self.what)


@dataclass(frozen=True)
class Counts:
    """Whole numbers that are attributes of something."""

    owner: Any
    names: tuple[str, ...]

    def state(self) -> Arrays:
        """The numbers by name."""
        return {name: np.array(getattr(self.owner, name)) for name in self.names}

    def restore(self, state: Arrays) -> None:
        """Set them."""
        fit(state, dict.fromkeys(self.names, np.array(0)), "counts")
        for name in self.names:
            setattr(self.owner, name, int(state[name]))


def of_module(module: nn.Module) -> Arrays:
    """Copies of all weights."""
    return {name: value.cpu().numpy().copy() for name, value in module.state_dict().items()}


def set_module(module: nn.Module, state: Arrays, what: str) -> None:
    """Take over weights."""
    fit(state, of_module(module), what)
    for name, value in module.state_dict().items():
        value.copy_(torch.from_numpy(state[name]))


def of_optimiser(optimiser: torch.optim.Optimizer, weights: Sequence[Tensor]) -> Arrays:
    """What an optimiser remembers of each of its weights; nothing before its first step."""
    return {
        f"{index}/{key}": value.detach().cpu().numpy().copy()
        for index, weight in enumerate(weights)
        for key, value in optimiser.state.get(weight, {}).items()
        if isinstance(value, Tensor)
    }


def set_optimiser(
    optimiser: torch.optim.Optimizer, weights: Sequence[Tensor], state: Arrays, what: str
) -> None:
    """Take over what an optimiser remembered. Adam's memories have the shape of the weights."""
    optimiser.state.clear()
    if not state:  # saved before the first step
        return
    like: Arrays = {}
    adam = isinstance(optimiser, torch.optim.Adam)  # plain ascent remembers nothing
    for index, weight in enumerate(weights if adam else ()):
        like[f"{index}/step"] = np.zeros((), np.float32)
        for key in ("exp_avg", "exp_avg_sq"):
            like[f"{index}/{key}"] = weight.detach().cpu().numpy()
    fit(state, like, what)
    for index, weight in enumerate(weights):
        optimiser.state[weight] = {
            key: torch.from_numpy(value.copy()).to(weight.device)
            for key, value in part(state, str(index)).items()
        }


def of_generator(generator: np.random.Generator) -> Arrays:
    """Where a NumPy generator (of the default kind) stands."""
    state: Any = generator.bit_generator.state
    if state["bit_generator"] != "PCG64":
        raise UsageError(f"only PCG64 generators can be saved, not {state['bit_generator']}")
    inner = state["state"]
    words = [
        *divmod(inner["state"], 2**64),
        *divmod(inner["inc"], 2**64),
        state["has_uint32"],
        state["uinteger"],
    ]
    return {"pcg64": np.array(words, np.uint64)}


def set_generator(generator: np.random.Generator, state: Arrays, what: str) -> None:
    """Let a generator go on from where another one stood."""
    fit(state, {"pcg64": np.zeros(_PCG_WORDS, np.uint64)}, what)
    high, low, inc_high, inc_low, has_half, half = (int(word) for word in state["pcg64"])
    if not (has_half in (0, 1) and half < 2**32):
        raise UsageError(f"the saved state of the {what} is not the state of a generator")
    generator.bit_generator.state = {
        "bit_generator": "PCG64",
        "state": {"state": high * 2**64 + low, "inc": inc_high * 2**64 + inc_low},
        "has_uint32": has_half,
        "uinteger": half,
    }


def of_noise(generator: torch.Generator) -> Arrays:
    """Where a PyTorch generator stands."""
    return {"torch": generator.get_state().numpy().copy()}


def set_noise(generator: torch.Generator, state: Arrays, what: str) -> None:
    """Let a PyTorch generator go on from where another one stood."""
    fit(state, of_noise(generator), what)
    try:
        generator.set_state(torch.from_numpy(state["torch"].copy()))
    except RuntimeError:
        raise UsageError(f"the saved state of the {what} is not the state of a generator") from None


def of_text(text: str) -> np.ndarray:
    """A text as an array."""
    return np.frombuffer(text.encode(), np.uint8)
