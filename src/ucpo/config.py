"""Everything that can be chosen about a run, said once.

The defaults are the paper's for navigation tasks, or the released code's where the paper is silent.
Presets (TOML) hold differences: a family of tasks first, then a variant, then what the user says.
"""

from __future__ import annotations

import dataclasses
import tomllib
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from tyro.conf import Positional

from ucpo.errors import UsageError, nearest

VARIANTS = ("ucp", "ucp-ds", "ucp-nr", "ucp-mean", "ucp-nr-mean", "ucp-na")
SINGLE_BUDGET = ("ucp-nr", "ucp-nr-mean", "ucp-na")


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise UsageError(message)


@dataclass(frozen=True, kw_only=True)
class NetworkConfig:
    """Shape of actor and critics."""

    hidden: tuple[int, ...] = (256, 256)
    """Widths of the hidden layers."""
    quantiles: int = 100
    """Quantiles per critic. More resolve the tails of the distribution better and cost time."""
    stock_scale: float | None = None
    """Cost units that count as one for the networks; by default a third of the largest budget."""
    stock_features: int = 0
    """Width of a ReLU layer the stock passes first; 0 feeds it in beside the observation."""

    def __post_init__(self) -> None:
        _require(
            all(width >= 1 for width in self.hidden), f"hidden: {self.hidden} must be positive"
        )
        _require(self.quantiles >= 1, f"quantiles must be at least 1, got {self.quantiles}")
        _require(self.stock_features >= 0, f"stock_features must be >= 0: {self.stock_features}")
        _require(
            self.stock_scale is None or self.stock_scale > 0.0,
            f"stock_scale must be above 0, got {self.stock_scale}",
        )


@dataclass(frozen=True, kw_only=True)
class ReplayConfig:
    """What is remembered and how it is drawn."""

    capacity: int = 1_000_000
    """Transitions kept; the oldest are overwritten."""
    n_step: int = 10
    """Rewards summed before bootstrapping. More spreads reward faster and is noisier off-policy."""
    batch: int = 256
    """Transitions per update."""

    def __post_init__(self) -> None:
        _require(
            1 <= self.n_step <= self.capacity,
            f"n_step must be between 1 and capacity={self.capacity}, got {self.n_step}",
        )
        _require(self.batch >= 1, f"batch must be at least 1, got {self.batch}")


@dataclass(frozen=True, kw_only=True)
class CriticConfig:
    """How the critics learn."""

    rate: float = 3e-5
    """Learning rate of reward and cost critics."""
    clip: float = 0.05
    """Largest gradient norm, of the reward critics together and of each cost critic."""
    polyak: float = 0.005
    """Share by which the target critics follow per update."""
    next_action: Literal["sampled", "mean"] = "sampled"
    """Action in targets: sampled from the target actor (paper) or its mean (released code)."""


@dataclass(frozen=True, kw_only=True)
class ActorConfig:
    """How the actor learns."""

    rate: float = 3e-4
    """Learning rate."""
    clip: float = 1.0
    """Largest gradient norm."""
    polyak: float = 0.05
    """Share by which the target actor follows per update (released code: 0.005)."""
    every: int = 1
    """Actor updates come in bursts of this many, once in as many critic updates (code: 2)."""
    regulariser: float = 1e-3
    """Weight of the squared means and log deviations. More keeps actions away from their limits."""

    def __post_init__(self) -> None:
        _require(self.every >= 1, f"actor.every must be at least 1, got {self.every}")


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


@dataclass(frozen=True, kw_only=True)
class MultiplierConfig:
    """How the prices of exceeding a budget move."""

    initial: float = 1.0
    """First value."""
    rate: float = 5e-5
    """Step size. Prices should move slower than the actor follows them."""
    ascent: Literal["gradient", "adam"] = "gradient"
    """Plain gradient ascent (paper) or Adam on softplus parameters (released code)."""
    minimum: float = 1e-3
    """Lower bound."""
    maximum: float = float("inf")
    """Upper bound."""
    window: int = 8
    """Finished episodes an update averages over, the latest ones."""
    start: int = 50_000
    """Environment steps before the prices begin to move."""

    def __post_init__(self) -> None:
        _require(self.window >= 1, f"multiplier.window must be at least 1, got {self.window}")


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """A training run."""

    task: Positional[str] = "Courier-v0"
    """A task listed by `ucpo tasks`, or the id of any registered Gymnasium environment."""
    variant: str = "ucp"
    """ucp, ucp-ds, ucp-nr, ucp-mean, ucp-nr-mean or ucp-na; nr and na need --budget."""
    preset: str = "auto"
    """Name of a preset, or path of a TOML file; auto picks the one of the task's family."""
    seed: int = 0
    """Seed of everything random. The same seed, on one thread, gives the same run."""

    costs: tuple[str, ...] = ()
    """Names of the costs to constrain; by default what the task reports."""
    budget_range: tuple[str, ...] = ("0:30",)
    """Budgets to train for, in cost units: low:high, or cost=low:high for each of several costs."""
    budget_levels: int = 31
    """Evenly spaced initial budgets, each with a price of its own, per cost."""
    budget: tuple[str, ...] = ()
    """One fixed budget (or cost=budget for each of several) instead of a range."""
    utility: str = "excess"
    """What is constrained to 0: the expected excess over the budget, or the mean difference."""
    tolerance: float = 1e-6
    """Expected utility up to which a budget counts as kept."""
    tolerate_mean: bool = True
    """Use the tolerance for the mean utility too (the released code does not)."""
    stock_discounted: bool = False
    """Inflate the stock by 1/gamma each step (UCP-DS)."""
    stock_observed: bool = True
    """Show the stock to the networks (UCP-NA does not)."""
    gamma: float = 0.999
    """Discount per environment step."""

    env_steps: int = 3_000_000
    """Environment steps in total, over all environments together."""
    num_envs: int = 8
    """Environments stepped together; each iteration makes one step in each."""
    asynchronous: bool = False
    """Step environments that are not our own in processes of their own, at the same time."""
    updates: int = 1
    """Updates per iteration, once learning has begun."""
    random_steps: int = 30_000
    """Environment steps with uniformly random actions before learning begins."""
    threads: int = 1
    """Threads of the learner. More than one may change the last digits between runs."""
    log_every: int = 5_000
    """Environment steps between rows of metrics."""

    networks: NetworkConfig = field(default_factory=NetworkConfig)
    replay: ReplayConfig = field(default_factory=ReplayConfig)
    critic: CriticConfig = field(default_factory=CriticConfig)
    actor: ActorConfig = field(default_factory=ActorConfig)
    entropy: EntropyConfig = field(default_factory=EntropyConfig)
    multiplier: MultiplierConfig = field(default_factory=MultiplierConfig)

    def __post_init__(self) -> None:
        _require(
            self.variant in VARIANTS,
            f"no variant {self.variant!r}; {nearest(self.variant, list(VARIANTS))}",
        )
        _require(0.0 < self.gamma <= 1.0, f"gamma must be above 0 and at most 1, got {self.gamma}")
        for name in ("env_steps", "num_envs", "updates", "threads", "log_every"):
            value = getattr(self, name)
            _require(value >= 1, f"{name} must be at least 1, got {value}")
        _require(self.random_steps >= 0, f"random_steps must be at least 0: {self.random_steps}")
        single = self.variant in SINGLE_BUDGET
        _require(
            not single or bool(self.budget),
            f"{self.variant} trains for one budget; say which, e.g. --budget 25",
        )


def resolve(
    task: str = "Courier-v0",
    *,
    variant: str = "ucp",
    preset: str = "auto",
    family: str = "default",
    **overrides: Any,
) -> RunConfig:
    """The configuration of a run: defaults, then preset, then variant, then `overrides`.

    Args:
        task: Name of the task; presets may hold differences for single tasks.
        variant: One of `VARIANTS`.
        preset: ``auto`` for the one of the `family`, a name, or the path of a TOML file.
        family: What the task's family is called.
        overrides: Fields of `RunConfig`; nested ones as tables, ``critic={"rate": 1e-4}``.
    """
    layers = [_preset(family if preset == "auto" else preset, task)]
    if variant not in VARIANTS:
        raise UsageError(f"no variant {variant!r}; {nearest(variant, list(VARIANTS))}")
    layers.append(_read(_shipped("variants") / f"{variant}.toml", f"variant {variant}"))
    layers.append({"task": task, "variant": variant, "preset": preset, **overrides})
    merged: dict[str, Any] = {}
    for layer in layers:
        merged = _merge(merged, layer)
    config: RunConfig = from_dict(RunConfig, merged)
    return config


def preset_names() -> list[str]:
    """Presets that come with the package."""
    return sorted(p.name[:-5] for p in _shipped(".").iterdir() if p.name.endswith(".toml"))


def _shipped(folder: str) -> Any:
    return resources.files("ucpo") / "presets" / folder


def _preset(name: str, task: str) -> dict[str, Any]:
    """A preset with its differences for this task folded in."""
    if name.endswith(".toml"):
        table = _read(Path(name), f"preset {name}")
    elif name in preset_names():
        table = _read(_shipped(f"{name}.toml"), f"preset {name}")
    else:
        raise UsageError(
            f"no preset {name!r}; {nearest(name, preset_names())} (or give the path of a .toml)"
        )
    for pattern, difference in table.pop("tasks", {}).items():
        if fnmatchcase(task, pattern):
            table = _merge(table, difference)
    return table


def _read(path: Any, what: str) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"{what}: there is no file {path}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{what}: {path} is not valid TOML: {error}") from None


def _merge(base: dict[str, Any], difference: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in difference.items():
        nested = isinstance(value, dict) and isinstance(base.get(key), dict)
        merged[key] = _merge(base[key], value) if nested else value
    return merged


def from_dict(kind: type[Any], table: dict[str, Any], where: str = "") -> Any:
    """Build a configuration from nested tables, naming any key that does not fit."""
    fields = {f.name: f for f in dataclasses.fields(kind)}
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key not in fields:
            raise UsageError(f"no option {where + key!r}; {nearest(key, list(fields))}")
        values[key] = _fit(fields[key], value, where + key)
    return kind(**values)


def _fit(spec: dataclasses.Field[Any], value: Any, where: str) -> Any:
    """One value as its field wants it."""
    if spec.default_factory is not dataclasses.MISSING:  # a nested configuration
        kind = type(spec.default_factory())
        if isinstance(value, kind):
            return value
        if not isinstance(value, dict):
            raise UsageError(f"{where} must be a table of options, got {value!r}")
        return from_dict(kind, value, f"{where}.")
    default = spec.default
    if isinstance(default, tuple):
        items = [value] if isinstance(value, str | int | float) else value
        return tuple(map(type(default[0]) if default else str, items))
    expected: type = float if default is None else type(default)  # None: an optional number
    if expected is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if not isinstance(value, expected) or (expected is int and isinstance(value, bool)):
        raise UsageError(f"{where} must be of type {expected.__name__}, got {value!r}")
    return value


def to_toml(config: RunConfig) -> str:
    """The whole configuration as TOML, in the form presets have."""
    table = dataclasses.asdict(config)
    plain = {k: v for k, v in table.items() if not isinstance(v, dict)}
    lines = [f"{key} = {_toml(value)}" for key, value in plain.items() if value is not None]
    for name, nested in table.items():
        if isinstance(nested, dict):
            lines += ["", f"[{name}]"]
            lines += [
                f"{key} = {_toml(value)}" for key, value in nested.items() if value is not None
            ]
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        import json

        return json.dumps(value)  # TOML's basic strings are JSON's, but for DEL
    if isinstance(value, tuple):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    return repr(value)


def read_config(path: Path) -> RunConfig:
    """Read a run's config.toml."""
    config: RunConfig = from_dict(RunConfig, _read(path, "configuration"))
    return config
