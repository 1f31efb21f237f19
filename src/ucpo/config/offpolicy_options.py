"""What can be chosen about SAC and TD3, beside what they share with UCP; and about tails."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ucpo.config.checks import require, within


@dataclass(frozen=True, kw_only=True)
class OffPolicyConfig:
    """What sac and td3 have beside networks, replay, critics, actor, entropy and prices."""

    delay: int = 1
    """Updates of the critics for each of the actor and of all targets. More steadies the actor."""
    exploration: float = 0.1
    """td3: standard deviation of the noise while collecting, of actions in [-1, 1]."""
    final_exploration: float | None = None
    """td3: what it falls to between --decay-start and --decay-steps later; by default it stays.
    Less lets prices move by what the policy costs without noise."""
    smoothing: float = 0.2
    """td3: the same of actions in targets. More makes critics flat between similar actions."""
    smoothing_limit: float = 0.5
    """td3: largest noise of actions in targets."""
    prices: Literal["episode", "update"] = "episode"
    """Whether prices move with every finished episode, or with every update (OmniSafe). Their
    rates are of one or the other."""

    def __post_init__(self) -> None:
        within("offpolicy.delay", self.delay, 1, 10**6)
        within("offpolicy.exploration", self.exploration, 0.0, 10.0)
        final = self.final_exploration
        require(
            final is None or 0.0 < final <= self.exploration,
            "offpolicy.final_exploration must be above 0 and at most the exploration, "
            f"{self.exploration}, got {final}",
        )
        within("offpolicy.smoothing", self.smoothing, 0.0, 10.0)
        within("offpolicy.smoothing_limit", self.smoothing_limit, 0.0, 2.0)


@dataclass(frozen=True, kw_only=True)
class TailConfig:
    """Constraints on the worst episodes instead of all of them."""

    share: float = 0.1
    """Of episodes, the worst ones, that count; 1 counts all, so that the mean is constrained."""
    limit: float | None = None
    """Mean cost of these episodes that is allowed (CVaR), with --utility excess. Each budget is
    then a level with a tolerance of its own; `ucpo.stats.best_level` chooses one afterwards."""

    def __post_init__(self) -> None:
        require(
            0.0 < self.share <= 1.0,
            f"tail.share must be above 0 and at most 1, got {self.share}",
        )
        within("tail.limit", self.limit or 0.0, 0.0, 1e9)
