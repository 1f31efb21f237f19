"""Everything that can be chosen about a run, said once.

The defaults are the paper's for navigation tasks, or the released code's where the paper is silent.
How presets, methods and the user's words make one of these is in `ucpo.config.files`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tyro.conf import Positional

from ucpo.config.checks import require as _require
from ucpo.config.checks import within as _within
from ucpo.config.method_options import MultiplierConfig, ScheduleConfig, ShapingConfig
from ucpo.config.offpolicy_options import OffPolicyConfig, TailConfig
from ucpo.config.ppo_options import PPOConfig
from ucpo.envs.interface import Hold

_WIDEST, _DEEPEST, _MOST = 2**16, 64, 10**15  # beyond any sense, within any number's reach


def _rates(name: str, rate: float, clip: float, polyak: float) -> None:
    _require(0.0 < rate < math.inf, f"{name}.rate must be above 0, got {rate}")
    _require(clip > 0.0, f"{name}.clip must be above 0, got {clip}")
    _require(0.0 < polyak <= 1.0, f"{name}.polyak must be above 0 and at most 1, got {polyak}")


def _falls(name: str, rate: float, final: float | None) -> None:
    _require(
        final is None or 0.0 < final <= rate,
        f"{name}.final_rate must be above 0 and at most the rate, {rate}, got {final}",
    )


@dataclass(frozen=True, kw_only=True)
class NetworkConfig:
    """Shape of actor and critics."""

    hidden: tuple[int, ...] = (256, 256)
    """Widths of the hidden layers."""
    own: str = ""
    """my_module:my_network instead of hidden layers: a function of the number of inputs that makes
    a torch.nn.Module, whose outputs (batch, k) the last layer then sees."""
    quantiles: int = 100
    """Quantiles per critic. More resolve the tails of the distribution better and cost time."""
    stock_scale: float | None = None
    """Cost units that count as one for the networks; by default a third of each cost's largest
    budget."""
    stock_features: int = 0
    """Width of a ReLU layer the stock passes first; 0 feeds it in beside the observation."""
    show_excess: bool = True
    """Show UCP's networks by how much a budget is exceeded already. To the expected excess every
    further unit of a cost that is never negative counts the same, so nothing is lost by not showing
    it, and all episodes that have nothing left share what they learn."""
    normalise: bool = False
    """Show observations with the mean so far taken off, in units of their spread so far."""

    def __post_init__(self) -> None:
        _require(
            all(1 <= width <= _WIDEST for width in self.hidden) and len(self.hidden) <= _DEEPEST,
            f"hidden must be at most {_DEEPEST} widths of 1 to {_WIDEST}, got {self.hidden}",
        )
        _within("quantiles", self.quantiles, 1, _WIDEST)
        _within("stock_features", self.stock_features, 0, _WIDEST)
        _require(
            self.stock_scale is None or 0.0 < self.stock_scale < math.inf,
            f"stock_scale must be above 0, got {self.stock_scale}",
        )


@dataclass(frozen=True, kw_only=True)
class ReplayConfig:
    """What is remembered and how it is drawn."""

    capacity: int = 1_000_000
    """Transitions kept; the oldest are overwritten."""
    n_step: int = 10
    """Decisions, each of --hold environment steps, whose rewards are summed before bootstrapping.
    More spreads reward faster and is noisier off-policy."""
    batch: int = 256
    """Transitions per update."""
    relabel: float = 0.0
    """Share of them seen as if under another budget: more is learned of each, less on-policy."""

    def __post_init__(self) -> None:
        _require(
            1 <= self.n_step <= self.capacity,
            f"n_step must be between 1 and capacity={self.capacity}, got {self.n_step}",
        )
        _within("replay.batch", self.batch, 1, 2**20)
        _within("replay.relabel", self.relabel, 0.0, 1.0)
        _within("replay.capacity", self.capacity, 1, 10**9)


@dataclass(frozen=True, kw_only=True)
class CriticConfig:
    """How the critics learn."""

    rate: float = 3e-5
    """Learning rate of reward and cost critics."""
    final_rate: float | None = None
    """Learning rate it falls to within --decay-steps; by default it does not fall."""
    clip: float = 0.05
    """Largest gradient norm, of the reward critics together and of each cost critic."""
    polyak: float = 0.005
    """Share by which the target critics follow per update."""
    next_action: Literal["sampled", "mean"] = "sampled"
    """Action in targets: sampled from the target actor (paper) or its mean (released code). With
    sac and td3 of costs only: that of the reward's target, or the actor's mean (OmniSafe)."""
    reward_unit: float = 1.0
    """What one unit of the networks' outputs stands for; larger learns large returns faster."""
    cost_unit: float = 1.0
    """The same of the cost critics, in cost units."""

    def __post_init__(self) -> None:
        _rates("critic", self.rate, self.clip, self.polyak)
        _falls("critic", self.rate, self.final_rate)
        _within("critic.reward_unit", self.reward_unit, 1e-6, 1e6)
        _within("critic.cost_unit", self.cost_unit, 1e-6, 1e6)


@dataclass(frozen=True, kw_only=True)
class ActorConfig:
    """How the actor learns."""

    rate: float = 3e-4
    """Learning rate."""
    final_rate: float | None = None
    """Learning rate it falls to within --decay-steps; by default it does not fall."""
    clip: float = 1.0
    """Largest gradient norm."""
    polyak: float = 0.05
    """Share by which the target actor follows per update (released code: 0.005)."""
    every: int = 1
    """Actor updates come in bursts of this many, once in as many critic updates (code: 2)."""
    regulariser: float = 1e-3
    """Weight of the squared means and log deviations. More keeps actions away from their limits."""
    final_regulariser: float | None = None
    """Weight that UCP's falls to within --decay-steps: noise while there is much to find out, and
    actions up to their limits in the end. By default it does not fall."""

    def __post_init__(self) -> None:
        _rates("actor", self.rate, self.clip, self.polyak)
        _falls("actor", self.rate, self.final_rate)
        _within("actor.every", self.every, 1, 10**6)
        _within("actor.regulariser", self.regulariser, 0.0, 1e9)
        _require(
            self.final_regulariser is None or 0.0 < self.final_regulariser <= self.regulariser,
            "actor.final_regulariser must be above 0 and at most the regulariser, "
            f"{self.regulariser}, got {self.final_regulariser}",
        )


@dataclass(frozen=True, kw_only=True)
class EntropyConfig:
    """The entropy bonus."""

    weight: float = 0.0
    """Weight alpha of the entropy, or its first value when tuned. 0 without tuning: no bonus."""
    rate: float = 0.0
    """Learning rate of the weight; above 0 it is tuned."""
    target: float | None = None
    """Entropy aimed for when tuned, in nats; by default minus the number of action dimensions."""

    def __post_init__(self) -> None:
        _require(
            self.weight > 0.0 or (self.weight == 0.0 and self.rate == 0.0),
            f"a tuned entropy weight must start above 0, got weight {self.weight}",
        )
        _within("entropy.weight", self.weight, 0.0, 1e9)
        _within("entropy.rate", self.rate, 0.0, 1e9)
        _within("entropy.target", self.target or 0.0, -1e9, 1e9)


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """A training run."""

    task: Positional[str] = "Courier-v0"
    """A task listed by `ucpo tasks`, or the id of any registered Gymnasium environment."""
    method: str = "ucp"
    """A method listed by `ucpo methods`, or the path of a TOML file with one of your own."""
    preset: str = "auto"
    """Settings: auto picks what learns best here on tasks of the family; paper and paper-code are
    the paper's and its released code's; or the path of a TOML file of your own."""
    seed: int = 0
    """Seed of everything random. The same seed, on one thread, gives the same run."""

    learner: str = "ucp"
    """What learns. Like the next two and the multiplier's kind, part of what a method is."""
    starts: Literal["grid", "single"] = "grid"
    """Whether episodes begin with budgets drawn from a range, or all with one (--budget)."""
    stock: Literal["shown", "discounted", "hidden"] = "shown"
    """What networks see of the stock: all of it, inflated in each step by 1 over the discount of
    costs (UCP-DS), or nothing (UCP-NA)."""
    costs: tuple[str, ...] = ()
    """Names of the costs to constrain; by default what the task reports."""
    budget_range: tuple[str, ...] = ("0:30",)
    """Budgets to train for, in cost units: low:high, or cost=low:high for each of several costs."""
    budget_levels: int = 31
    """Evenly spaced initial budgets, each with a price of its own, per cost."""
    budget: tuple[str, ...] = ()
    """One fixed budget (or cost=budget for each of several) instead of a range."""
    cost_units: tuple[str, ...] = ("1",)
    """What counts as one unit of a cost to whatever learns, so that prices, their limits and rates,
    tolerances and units of critics suit costs of any scale: a number, cost=number for each, or
    range for a thirtieth of its largest budget. Not used with utilities of your own."""
    utility: str = "excess"
    """What is constrained to 0: the expected excess over the budget, the mean difference, or the
    mean difference in the worst --tail.share of episodes (tail)."""
    tolerance: float = 1e-6
    """Expected utility up to which a budget counts as kept."""
    tolerate_mean: bool = True
    """Use the tolerance for the mean utility too (the released code does not)."""
    gamma: float = 0.999
    """Discount of rewards per environment step."""
    cost_gamma: float | None = None
    """Discount of costs; by default that of rewards. A budget is for the whole episode."""

    env_steps: int = 3_000_000
    """Environment steps in total, over all environments together."""
    num_envs: int = 8
    """Environments stepped together; each iteration makes one decision in each."""
    hold: int = 1
    """Environment steps a decision is kept for while training (beyond the paper). More lets each
    decision matter more and sees further with the same n-step; policies act at every step after."""
    asynchronous: bool = False
    """Step environments that are not our own in processes of their own, at the same time."""
    collectors: int = 0
    """Ray actors, on this machine or a cluster (RAY_ADDRESS), that step the environments of an
    on-policy method, each its share. 0: they are stepped here. Another number is another run."""
    worker_timeout: float = 120.0
    """Seconds after which such a process that does not answer counts as lost."""
    restart_workers: bool = True
    """Replace lost processes and drop their episodes; otherwise the run stops."""
    updates: int = 1
    """Updates per iteration, once learning has begun."""
    random_steps: int = 30_000
    """Environment steps with uniformly random actions before learning begins."""
    decay_start: int = 0
    """Environment steps before learning rates begin to fall."""
    decay_steps: int = 1_000_000
    """Environment steps over which learning rates fall to their final ones, where these are set."""
    threads: int = 1
    """Threads of the learner and, if more than one, of the physics of our own tasks, which shares
    them by itself otherwise, where that pays. More than one may change the last digits of runs."""
    device: str = "cpu"
    """Where the networks are: cpu, cuda, or cuda:1 and so on."""
    precision: Literal["f32", "bf16"] = "f32"
    """Of matrix products: f32, or with operands rounded to bf16, which is faster on GPUs and on
    AMD's processors with AVX-512 BF16 (since Zen 4). Others use f32 all the same."""
    log_every: int = 5_000
    """Environment steps between rows of metrics."""
    checkpoint_every: float = 5.0
    """Minutes between checkpoints, from which `ucpo resume` goes on. Changes no result."""
    checkpoint_steps: int = 0
    """Also write a checkpoint after this many environment steps; 0: by time only."""

    networks: NetworkConfig = field(default_factory=NetworkConfig)
    replay: ReplayConfig = field(default_factory=ReplayConfig)
    critic: CriticConfig = field(default_factory=CriticConfig)
    actor: ActorConfig = field(default_factory=ActorConfig)
    entropy: EntropyConfig = field(default_factory=EntropyConfig)
    multiplier: MultiplierConfig = field(default_factory=MultiplierConfig)
    shaping: ShapingConfig = field(default_factory=ShapingConfig)
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)
    ppo: PPOConfig = field(default_factory=PPOConfig)
    offpolicy: OffPolicyConfig = field(default_factory=OffPolicyConfig)
    tail: TailConfig = field(default_factory=TailConfig)

    def __post_init__(self) -> None:
        for name, gamma in (("gamma", self.gamma), ("cost_gamma", self.discount_of_costs)):
            _require(0.0 < gamma <= 1.0, f"{name} must be above 0 and at most 1, got {gamma}")
        for name, low, high in (
            ("seed", 0, _MOST),
            ("env_steps", 1, _MOST),
            ("num_envs", 1, 10**6),
            ("hold", 1, 1000),
            ("collectors", 0, self.num_envs),
            ("updates", 1, 10**6),
            ("threads", 1, 10**4),
            ("log_every", 1, _MOST),
            ("random_steps", 0, _MOST),
            ("decay_start", 0, _MOST),
            ("decay_steps", 1, _MOST),
            ("budget_levels", 1, 1000),
            ("tolerance", 0.0, 1e9),
            ("checkpoint_every", 1e-3, 1e6),
            ("checkpoint_steps", 0, _MOST),
            ("worker_timeout", 1e-3, 1e6),
        ):
            _within(name, getattr(self, name), low, high)
        _require(
            self.replay.capacity >= self.num_envs,
            f"replay.capacity must be at least num_envs={self.num_envs}: {self.replay.capacity}",
        )
        _require(
            not (self.replay.relabel and self.stock == "discounted"),
            "replay.relabel needs undiscounted stocks, so ucp-ds goes without it; leave it at 0",
        )
        _require(
            self.starts != "single" or bool(self.budget),
            f"{self.method} trains for one budget; say which, e.g. --budget 25",
        )

    @property
    def discount_of_costs(self) -> float:
        """Of costs, per environment step."""
        return self.gamma if self.cost_gamma is None else self.cost_gamma

    @property
    def holding(self) -> Hold:
        """How decisions are kept, for the task."""
        return Hold(self.hold, self.gamma, self.discount_of_costs)

    @property
    def stock_discount(self) -> float:
        """What the stock is divided by in each step."""
        return self.discount_of_costs if self.stock == "discounted" else 1.0

    @property
    def name(self) -> str:
        """What a run of this configuration is called among those of its task."""
        budget = "".join(f"-{text.replace('=', '')}" for text in self.budget)
        return f"{self.method}{budget}-seed{self.seed}"

    @property
    def folder(self) -> Path:
        """Where such a run goes, among others: TASK/METHOD-seedSEED."""
        return Path(self.task.replace("/", "-").replace(":", "-")) / self.name
