"""Critics beside the policy they judge, for calibration."""

from __future__ import annotations

from pathlib import Path

import torch

from ucpo.errors import UsageError
from ucpo.learners.networks import Body, Critics
from ucpo.policies import weights
from ucpo.policies.policy import PolicyInfo
from ucpo.storage.names import CRITICS_FILE


def save_critics(critics: Critics, info: PolicyInfo, path: Path) -> None:
    """Write the weights, and of which moment of the training they are."""
    about = {
        "quantiles": critics.body.layers.sizes[-1],
        "env_steps": info.env_steps,
        "updates": info.updates,
    }
    weights.write(critics, about, path)


def load_critics(path: Path, info: PolicyInfo) -> Critics:
    """Load the critics of a policy from its run folder or a file. Nothing in it is executed."""
    file = path / CRITICS_FILE if path.is_dir() else path
    if not file.is_file():
        raise UsageError(f"there are no critics at {file}; runs trained by this version have them")
    with weights.reading(file, "a file of critics") as stored:
        quantiles, env_steps, updates = (
            int(stored.about[key]) for key in ("quantiles", "env_steps", "updates")
        )
        if (env_steps, updates) != (info.env_steps, info.updates):
            raise UsageError(
                f"{file} belongs to another moment of the training ({env_steps:,} "
                f"environment steps) than the policy ({info.env_steps:,})"
            )
        if quantiles < 1:
            raise ValueError(f"it has {quantiles} quantiles")
        members = Critics.REWARD + len(info.cost_names)
        stored.must_hold(members * quantiles * (1 + info.hidden[-1] if info.hidden else 1))
        body = Body(
            members=members,
            inputs=info.observation_size + len(info.action_low),
            stock_size=info.stock_size,
            hidden=info.hidden,
            outputs=quantiles,
            stock_scale=info.stock_scale,
            stock_features=info.stock_features,
            generator=torch.Generator(),
            stock_ceiling=info.stock_ceiling,
        )
        critics = Critics(body)
        stored.fill(critics, info.observation_size)
    return critics.requires_grad_(False)
