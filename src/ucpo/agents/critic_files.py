"""Critics beside the policy they judge, for calibration."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from ucpo.agents.controller import PolicyInfo
from ucpo.agents.networks import Body, Critics
from ucpo.errors import UsageError

CRITICS_FILE = "critics.safetensors"
FORMAT = 1
_MOST_QUANTILES = 100_000


def make_critics(info: PolicyInfo, quantiles: int, generator: torch.Generator) -> Critics:
    """Critics of the shape that belongs to a policy."""
    body = Body(
        members=Critics.REWARD + len(info.cost_names),
        inputs=info.observation_size + len(info.action_low),
        stock_size=info.stock_size,
        hidden=info.hidden,
        outputs=quantiles,
        stock_scale=info.stock_scale,
        stock_features=info.stock_features,
        generator=generator,
    )
    return Critics(body)


def save_critics(critics: Critics, info: PolicyInfo, path: Path) -> None:
    """Write the weights; an earlier file survives until the new one is whole."""
    weights = {name: value.contiguous() for name, value in critics.state_dict().items()}
    quantiles = critics.body.layers.biases[-1].shape[-1]
    about = {
        "format": FORMAT,
        "quantiles": quantiles,
        "env_steps": info.env_steps,
        "updates": info.updates,
    }
    partial = path.with_name(path.name + ".partial")
    try:
        save_file(weights, partial, metadata={"ucpo": json.dumps(about)})
    except SafetensorError as error:  # how a full disk shows here
        partial.unlink(missing_ok=True)
        raise OSError(f"cannot write {partial}: {error}") from error
    partial.replace(path)


def load_critics(path: Path, info: PolicyInfo) -> Critics:
    """Load the critics of a policy from its run folder or a file. Nothing in it is executed."""
    file = path / CRITICS_FILE if path.is_dir() else path
    if not file.is_file():
        raise UsageError(f"there are no critics at {file}; runs trained by this version have them")
    try:
        with safe_open(file, framework="pt") as stored:
            about = json.loads((stored.metadata() or {})["ucpo"])
            if about["format"] != FORMAT or not 1 <= int(about["quantiles"]) <= _MOST_QUANTILES:
                raise UsageError(f"{file} was written by another version of ucpo")
            if (about["env_steps"], about["updates"]) != (info.env_steps, info.updates):
                raise UsageError(
                    f"{file} belongs to another moment of the training ({about['env_steps']:,} "
                    f"environment steps) than the policy ({info.env_steps:,})"
                )
            critics = make_critics(info, int(about["quantiles"]), torch.Generator())
            critics.load_state_dict({name: stored.get_tensor(name) for name in stored.keys()})  # noqa: SIM118
    except UsageError:
        raise
    except (SafetensorError, KeyError, TypeError, ValueError, RuntimeError) as error:
        raise UsageError(
            f"{file} does not hold critics of ucpo, or it is damaged "
            f"({type(error).__name__}: {error})"
        ) from None
    return critics.requires_grad_(False)
