"""What can be chosen about on-policy learning, beside what all learners share.

The defaults are those of the short presets: many environments on one core.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ucpo.config.checks import require, within


@dataclass(frozen=True, kw_only=True)
class PPOConfig:
    """How the on-policy learner acts and learns."""

    rollout: int = 256
    """Decisions of each environment before the policy is improved. More is steadier and slower."""
    passes: int = 10
    """Passes over a rollout, at most. More learns more of each step, and leaves the policy more."""
    minibatch: int = 512
    """Transitions per update. Smaller ones make more updates."""
    update: Literal["clip", "focops", "p3o", "trpo", "cpo", "pcpo"] = "clip"
    """How a rollout improves the policy: PPO's clipped ratios, FOCOPS, PPO with a penalty for
    expected excess (P3O), a step within a trust region (TRPO), or one that keeps the cost, as the
    best such step (CPO) or by projection (PCPO)."""
    clip: float = 0.2
    """Share by which probabilities may move before they gain nothing more."""
    stop: float = 0.02
    """Passes end once the mean divergence from the acting policy, over the whole rollout, is above
    this; of FOCOPS also that beyond which a sample counts no more."""
    actor_rate: float = 3e-4
    """Learning rate of the policy."""
    critic_rate: float = 3e-4
    """Learning rate of the values."""
    decay: Literal["none", "actor", "both"] = "both"
    """Which learning rates fall linearly, to 0 at the run's last environment step."""
    epsilon: float = 1e-5
    """Of Adam. More damps steps along small gradients."""
    norm: float = 1.0
    """Largest gradient norm."""
    norm_of: Literal["all", "each"] = "all"
    """Whether that is the norm over all networks together or of each apart."""
    regulariser: float = 0.0
    """Weight of the squares of the value networks' weights."""
    entropy: float = 0.0
    """Weight of the entropy of the Gaussian. More keeps exploring."""
    lam: float = 0.95
    """How far advantages look along what came, against what values say (GAE)."""
    cost_lam: float | None = None
    """The same of costs; by default that of rewards."""
    advantage: Literal["raw", "omnisafe", "both"] = "raw"
    """Scales of advantages: combined as they are, so that a price is reward per unit of utility;
    the reward's standardised and the costs' centred; or both standardised."""
    costs: Literal["auto", "horizon", "discounted"] = "auto"
    """How costs to come are summed: undiscounted up to the time limit, which values then see
    coming, or discounted and bootstrapped beyond it; auto: the first where the limit is known."""
    activation: Literal["tanh", "relu"] = "tanh"
    """Between the layers of all networks."""
    action: Literal["clipped", "unclipped", "squashed"] = "clipped"
    """How a sample becomes an action in [-1, 1]: by clipping or by tanh; unclipped: left to the
    task while training, and velocity tasks charge for all of it. Policies clip all the same."""
    log_std: float = -0.5
    """First value of the logarithm of the policy's deviations."""
    last_layer: float = 0.01
    """What the policy's last layer is scaled by at first. Less begins nearer to action 0."""
    unit_share: float = 0.1
    """By which the units of values follow those of each rollout's targets; 0: units of 1."""
    cost_unit: float = 0.1
    """Smallest unit of the values of costs, in units of utility; excess becomes rare."""
    stagger: bool = True
    """Drop each environment's first episode at a random moment, so that episodes of one length do
    not all end together for ever."""
    radius: float = 0.01
    """Of trust regions, as a divergence."""
    damping: float = 0.1
    """Of trust regions. More makes steps shorter and surer."""
    iterations: int = 15
    """Of conjugate gradients in trust regions."""
    tries: int = 15
    """Steps a trust region tries, each 0.8 times as long as the one before."""
    temperature: float = 1.5
    """Of FOCOPS. More follows the advantage less."""
    penalty: float = 20.0
    """Of P3O: the price of a unit of expected excess."""

    def __post_init__(self) -> None:
        for name, low, high in (
            ("rollout", 1, 10**7),
            ("passes", 1, 10**4),
            ("minibatch", 1, 2**20),
            ("clip", 1e-6, 1e6),
            ("stop", 0.0, float("inf")),
            ("norm", 1e-9, float("inf")),
            ("epsilon", 1e-15, 1.0),
            ("regulariser", 0.0, 1e9),
            ("entropy", 0.0, 1e9),
            ("lam", 0.0, 1.0),
            ("log_std", -20.0, 5.0),
            ("last_layer", 0.0, 1e3),
            ("unit_share", 0.0, 1.0),
            ("cost_unit", 1e-6, 1e6),
            ("radius", 1e-9, 1e3),
            ("damping", 0.0, 1e6),
            ("iterations", 1, 10**4),
            ("tries", 1, 10**4),
            ("temperature", 1e-6, 1e9),
            ("penalty", 0.0, 1e9),
        ):
            within(f"ppo.{name}", getattr(self, name), low, high)
        within("ppo.cost_lam", self.lam if self.cost_lam is None else self.cost_lam, 0.0, 1.0)
        for name in ("actor_rate", "critic_rate"):
            value = getattr(self, name)
            require(0.0 < value < float("inf"), f"ppo.{name} must be above 0, got {value}")
