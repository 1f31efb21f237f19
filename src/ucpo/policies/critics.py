"""Critics beside the policy they judge: for calibration, and for what an episode may still cost."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from ucpo.errors import UsageError
from ucpo.learners.networks import Body, Critics
from ucpo.learners.trunk import MakeTrunk
from ucpo.policies import weights
from ucpo.policies.policy import Policy, PolicyInfo, hidden_of
from ucpo.problem import Floats
from ucpo.storage.names import CRITICS_FILE

# With a row for each critic.
_BY_MEMBER = ("units", "body.layers.flat", "body.embedding.flat", "body.trunk.flat")


def save_critics(critics: Critics, info: PolicyInfo, path: Path) -> None:
    """Write the weights, and of which moment of the training they are."""
    weights.write(critics, _about(critics, info), path)


def save_small(critics: Critics, info: PolicyInfo, path: Path) -> None:
    """Write what is needed to predict costs, and no more: no reward critics, 16-bit weights."""
    kept = {}
    for name, value in critics.state_dict().items():
        value = value[Critics.REWARD :] if name in _BY_MEMBER else value
        kept[name] = value.half() if value.dim() == 2 else value
    weights.write_tensors(kept, {**_about(critics, info), "rewards": 0}, path)


def load_critics(path: Path, info: PolicyInfo, network: MakeTrunk | None = None) -> CostCritics:
    """Load the critics of a policy from its run folder or a file. Nothing in it is executed."""
    file = path / CRITICS_FILE if path.is_dir() else path
    if not file.is_file():
        raise UsageError(
            f"there are no critics at {file}, so nothing predicts costs; runs of methods with "
            "distributional critics (ucp and its variants) trained by this version have them"
        )
    with weights.reading(file, "a file of critics") as stored:
        quantiles, env_steps, updates = (
            int(stored.about[key]) for key in ("quantiles", "env_steps", "updates")
        )
        rewards = int(stored.about.get("rewards", Critics.REWARD))
        if (env_steps, updates) != (info.env_steps, info.updates):
            raise UsageError(
                f"{file} belongs to another moment of the training ({env_steps:,} "
                f"environment steps) than the policy ({info.env_steps:,})"
            )
        if quantiles < 1 or rewards not in (0, Critics.REWARD):
            raise ValueError(f"it has {quantiles} quantiles and {rewards} reward critics")
        members = rewards + len(info.cost_names)
        widest = 1 + info.hidden[-1] if info.hidden and not network else 1
        stored.must_hold(members * quantiles * widest, 2)
        body = Body(
            members=members,
            inputs=info.observation_size + len(info.action_low),
            stock_size=info.stock_size,
            hidden=hidden_of(info, network),
            outputs=quantiles,
            stock_scale=info.stock_scale,
            stock_features=info.stock_features,
            generator=torch.Generator(),
            stock_ceiling=info.stock_ceiling,
        )
        critics = Critics(body)
        stored.fill(critics, info.observation_size, ("F32", "F16"))
    return CostCritics(critics.requires_grad_(False), rewards)


class CostCritics(nn.Module):
    """What is predicted of each cost to come.

    Args:
        critics: Those of the costs come last.
        rewards: How many come before them.
    """

    def __init__(self, critics: Critics, rewards: int = Critics.REWARD) -> None:
        super().__init__()
        self.critics, self._rewards = critics, rewards

    @torch.no_grad()
    def forward(self, obs: Tensor, stock: Tensor, action: Tensor) -> Tensor:
        """Quantiles of the discounted costs to come, in order, (batch, C, N).

        Actions are in [-1, 1], stocks (batch, C) in cost units.
        """
        quantiles: Tensor = self.critics(obs, stock, action)[self._rewards :]
        return quantiles.transpose(0, 1).sort(-1).values

    def quantiles(self, obs: Floats, stock: Floats, action: Floats) -> Floats:
        """The same for arrays."""
        inputs = (torch.as_tensor(each, dtype=torch.float32) for each in (obs, stock, action))
        answer: Floats = self(*inputs).numpy()
        return answer


def judging(policy: Policy) -> CostCritics:
    """What predicts the costs of a policy: the critics it came with, or those beside its file."""
    if policy.critics is not None:
        return CostCritics(policy.critics)
    if policy.file is None:
        raise UsageError(
            "this policy has no critics, so nothing predicts what it will cost; load one from the "
            "folder of a run of ucp or one of its variants"
        )
    return load_critics(policy.file.parent / CRITICS_FILE, policy.info, policy.network)


def _about(critics: Critics, info: PolicyInfo) -> dict[str, int]:
    return {
        "quantiles": critics.body.layers.sizes[-1],
        "env_steps": info.env_steps,
        "updates": info.updates,
    }
