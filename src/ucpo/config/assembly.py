"""From a configuration to the objects it describes: task, problem, budgets, learner."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from ucpo import own
from ucpo.config.method_options import ShapingConfig
from ucpo.config.options import ActorConfig, CriticConfig, RunConfig
from ucpo.config.price_assembly import make_multiplier
from ucpo.config.tails import make_tail_problem
from ucpo.config.units import grid_in_units, make_units
from ucpo.envs import registry
from ucpo.envs.interface import TaskSpec, VectorTask
from ucpo.envs.registry import Task
from ucpo.envs.shaping import (
    EarlyTermination,
    NothingOnceExceeded,
    Penalty,
    Plain,
    Saute,
    Shaping,
    Staggered,
    all_or_nothing,
    excess,
)
from ucpo.errors import UsageError, nearest
from ucpo.learners.entropy import Entropy
from ucpo.learners.from_replay import Equipment
from ucpo.learners.in_units import InUnits
from ucpo.learners.interface import Learner
from ucpo.learners.networks import Body, Critics, Hidden, StockScale
from ucpo.learners.normaliser import Normaliser
from ucpo.learners.optimisation import Decay
from ucpo.learners.replay import Replay
from ucpo.learners.ucp import UCP, Settings
from ucpo.policies.policy import PolicyInfo, make_actor
from ucpo.problem import BudgetGrid, Constraint, Problem, parse_budgets, utility


def make_problem(config: RunConfig, costs: Sequence[str]) -> Problem:
    """The constraints a configuration asks for, one per cost."""
    if config.utility == "tail" or config.tail.limit is not None:
        return make_tail_problem(config, costs)
    chosen = utility(config.utility)
    exempt = chosen.name == "mean" and not config.tolerate_mean
    tolerance = 0.0 if exempt else config.tolerance
    return Problem(tuple(Constraint(cost, chosen, tolerance) for cost in costs))


def make_grid(config: RunConfig, spec: TaskSpec) -> BudgetGrid:
    """The budgets a configuration asks for."""
    if config.budget:
        pairs = parse_budgets(config.budget, spec.cost_names)
        for low, high in pairs:
            if low != high:
                raise UsageError(
                    f"--budget is one number, got {low:g}:{high:g}; see --budget-range"
                )
        return BudgetGrid.fixed([low for low, _ in pairs])
    pairs = parse_budgets(config.budget_range, spec.cost_names)
    return BudgetGrid(
        low=tuple(low for low, _ in pairs),
        high=tuple(high for _, high in pairs),
        levels=tuple(config.budget_levels if low < high else 1 for low, high in pairs),
    )


def make_stock_scale(config: RunConfig, grid: BudgetGrid) -> StockScale:
    """Cost units that count as one for the networks: of each cost a third of its largest budget.

    Costs differ in scale by orders of magnitude; in a common unit the smaller would not be seen.
    """
    if config.networks.stock_scale is not None:
        return config.networks.stock_scale
    scales = tuple(high / 3.0 if high > 0.0 else 1.0 for high in grid.high)
    return scales[0] if len(set(scales)) == 1 else scales


def make_stock_ceiling(config: RunConfig, stock_size: int) -> float | None:
    """The stock above which all look alike: 0, where every unit above it counts the same."""
    hides = config.utility == "excess" and not config.networks.show_excess
    return 0.0 if stock_size and hides else None


def make_hidden(config: RunConfig) -> Hidden:
    """What is between the inputs of networks and their last layer."""
    given = config.networks.own
    return own.find(given, "a network") if given else config.networks.hidden


def make_device(name: str) -> torch.device:
    """The device of a name, if this machine has it."""
    try:
        device = torch.device(name)
    except RuntimeError:
        raise UsageError(f"no device {name!r}; give cpu, cuda, or cuda:1 and so on") from None
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise UsageError(
            f"there is no device {name} on this machine, or this PyTorch cannot use it "
            f"({torch.cuda.device_count()} CUDA devices found); --device cpu works everywhere"
        )
    return device


def make_task(task: Task, config: RunConfig) -> VectorTask:
    """The task to train on, with the ends of episodes a method asks for."""
    entry = registry.entry_of(task)
    shares = config.threads > 1 and entry is not None and entry.threaded
    made = registry.make_task(
        task,
        config.num_envs,
        config.costs or None,
        asynchronous=config.asynchronous,
        workers={
            "worker_timeout": config.worker_timeout,
            "restart_workers": config.restart_workers,
        },
        **({"threads": config.threads} if shares else {}),
    )
    if config.shaping.kind == "early-termination":
        made = EarlyTermination(made)
    staggered = config.learner == "ppo" and config.ppo.stagger and config.num_envs > 1
    return Staggered(made) if staggered else made


def make_shaping(config: ShapingConfig) -> Shaping:
    """What a method makes of rewards."""
    utilities = {"excess": excess, "all-or-nothing": all_or_nothing}
    shapings: dict[str, Callable[[], Shaping]] = {
        "none": Plain,
        "saute": lambda: Saute(config.penalty),
        "penalty": lambda: Penalty(config.price, utilities[config.utility]),
        "early-termination": NothingOnceExceeded,
    }
    return shapings[config.kind]()


def make_learner(
    config: RunConfig, spec: TaskSpec, grid: BudgetGrid, generator: np.random.Generator
) -> Learner:
    """What a configuration asks to learn.

    Args:
        config: The whole configuration.
        spec: Of the task.
        grid: The budgets to train for.
        generator: Of whatever is random about collecting; shared with the starts of episodes.
    """
    if config.learner not in LEARNERS:
        raise UsageError(f"no learner {config.learner!r}; {nearest(config.learner, [*LEARNERS])}")
    units = make_units(config, spec.cost_names, grid)
    made = LEARNERS[config.learner](config, spec, grid_in_units(grid, units), generator)
    return made if set(units) == {1.0} else InUnits(made, units, grid)


def refuse_choices(config: RunConfig, spec: TaskSpec) -> None:
    """Critics of actions need actions that are numbers."""
    if spec.discrete:
        remedy = "ucp-ppo" if config.learner == "ucp" else "ppo-lag"
        raise UsageError(
            f"{spec.name} has {spec.action_size} actions to choose from, and {config.learner} "
            f"follows slopes in actions that are numbers; --method {remedy} learns to choose, as "
            "do all methods of learner ppo"
        )


def refuse_two_penalties(config: RunConfig) -> None:
    """Costs are charged in the reward or by a price, not in both."""
    shaping, priced = config.shaping.kind, config.multiplier
    charged = priced.kind != "fixed" or priced.initial > 0.0 or priced.own
    if shaping in ("saute", "penalty") and charged:
        raise UsageError(
            f"the shaping {shaping!r} penalises costs already, so {config.method} goes without a "
            'price; write multiplier.kind = "fixed" and multiplier.initial = 0 and '
            "multiplier.minimum = 0, or leave shaping out"
        )


def make_on_policy(
    config: RunConfig, spec: TaskSpec, grid: BudgetGrid, generator: np.random.Generator
) -> Learner:
    """The on-policy learner; see `ucpo.config.ppo_assembly`, which builds on this file."""
    from ucpo.config.ppo_assembly import make_ppo

    return make_ppo(config, spec, grid)


def make_ucp(
    config: RunConfig, spec: TaskSpec, grid: BudgetGrid, generator: np.random.Generator
) -> UCP:
    """Networks, replay and multipliers of UCP as configured."""
    refuse_choices(config, spec)
    if config.shaping.kind != "none":
        raise UsageError(
            f"ucp learns of costs through its critics, so it goes without the shaping "
            f"{config.shaping.kind!r}; leave shaping out, or choose another learner"
        )
    episodic = config.multiplier.kind == "switch" or config.multiplier.window == 0
    if episodic and not config.multiplier.own:
        raise UsageError(
            "ucp moves prices at every update, by its latest episodes; give --multiplier.window "
            "and a --multiplier.kind other than switch, or choose learner ppo"
        )
    problem = make_problem(config, spec.cost_names)
    ceiling = make_stock_ceiling(config, 0 if config.stock == "hidden" else len(spec.cost_names))
    return UCP(
        make_equipment(config, spec, grid, generator, problem, ceiling),
        problem=problem,
        entropy=make_entropy(config, spec),
        settings=Settings(
            **shared_settings(config),
            actor_polyak=config.actor.polyak,
            regulariser=falling(config, config.actor.regulariser, config.actor.final_regulariser),
            next_action=config.critic.next_action,
        ),
    )


def make_off_policy(
    config: RunConfig, spec: TaskSpec, grid: BudgetGrid, generator: np.random.Generator
) -> Learner:
    """SAC or TD3; see `ucpo.config.offpolicy_assembly`, which builds on this file."""
    from ucpo.config import offpolicy_assembly

    return offpolicy_assembly.make_off_policy(config, spec, grid, generator)


LEARNERS: dict[str, Callable[..., Learner]] = {"ucp": make_ucp, "ppo": make_on_policy}
"""By the name a configuration calls them."""
LEARNERS |= dict.fromkeys(("sac", "td3"), make_off_policy)


def make_equipment(
    config: RunConfig,
    spec: TaskSpec,
    grid: BudgetGrid,
    generator: np.random.Generator,
    problem: Problem,
    ceiling: float | None = None,
) -> Equipment:
    """What learners with a replay are made of.

    Args:
        config: The whole configuration.
        spec: Of the task.
        grid: The budgets to train for.
        generator: Of random actions.
        problem: The constraints.
        ceiling: The stock above which all look alike to networks.
    """
    networks, noise = config.networks, torch.Generator().manual_seed(config.seed)
    device, stock_size = make_device(config.device), 0
    if config.stock != "hidden":
        stock_size = len(spec.cost_names)
    scale = make_stock_scale(config, grid)
    shape = (make_hidden(config), stock_size, scale, networks.stock_features)
    critics = make_critics(config, spec, stock_size, scale, noise, ceiling)
    actor = make_actor(spec, *shape, noise, stock_ceiling=ceiling)
    return Equipment(
        grid=grid,
        actor=actor.to(device),
        critics=critics.to(device),
        multiplier=make_multiplier(config.multiplier, problem, grid),
        replay=Replay(
            config.replay.capacity,
            config.num_envs,
            spec.observation_size,
            spec.action_size,
            len(spec.cost_names),
            config.replay.n_step,
            config.gamma,
            config.discount_of_costs,
            config.hold,
        ),
        normaliser=Normaliser(spec.observation_size, networks.normalise, device),
        about=replace(make_info(config, spec, grid, stock_size, scale), stock_ceiling=ceiling),
        seed=config.seed,
        generator=generator,
    )


def make_entropy(config: RunConfig, spec: TaskSpec) -> Entropy:
    """The weight of the entropy; left to itself its target is one unit for each action."""
    target = config.entropy.target
    return Entropy(
        config.entropy.weight,
        rate=config.entropy.rate,
        target=-float(spec.action_size) if target is None else target,
    )


def make_critics(
    config: RunConfig,
    spec: TaskSpec,
    stock_size: int,
    scale: StockScale,
    noise: torch.Generator,
    ceiling: float | None = None,
) -> Critics:
    """Two quantile critics of the reward and one of each cost."""
    networks, C = config.networks, len(spec.cost_names)
    body = Body(
        members=Critics.REWARD + C,
        inputs=spec.observation_size + spec.action_size,
        stock_size=stock_size,
        hidden=make_hidden(config),
        outputs=networks.quantiles,
        stock_scale=scale,
        stock_features=networks.stock_features,
        generator=noise,
        stock_ceiling=ceiling,
    )
    units = [config.critic.reward_unit] * Critics.REWARD + [config.critic.cost_unit] * C
    return Critics(body, units)


def shared_settings(config: RunConfig) -> dict[str, Any]:
    """Step sizes, limits and paces of all learners with a replay."""
    return {
        "batch": config.replay.batch,
        "relabelled": round(config.replay.relabel * config.replay.batch),
        "critic": make_decay(config, config.critic),
        "actor": make_decay(config, config.actor),
        "critic_clip": config.critic.clip,
        "actor_clip": config.actor.clip,
        "critic_polyak": config.critic.polyak,
        "actor_every": config.actor.every,
        "random_steps": config.random_steps,
        "updates": config.updates,
    }


def make_info(
    config: RunConfig, spec: TaskSpec, grid: BudgetGrid, stock_size: int, scale: StockScale
) -> PolicyInfo:
    """What policy files of this run say, but for how far it is."""
    return PolicyInfo(
        task=spec.name,
        method=config.method,
        training_seed=config.seed,
        env_steps=0,
        updates=0,
        observation_size=spec.observation_size,
        action_low=spec.action_low,
        action_high=spec.action_high,
        cost_names=spec.cost_names,
        budget_low=grid.low,
        budget_high=grid.high,
        stock_discount=config.stock_discount,
        hidden=config.networks.hidden,
        stock_size=stock_size,
        stock_scale=scale,
        stock_features=config.networks.stock_features,
        network=config.networks.own or None,
        gamma=config.gamma,
        cost_gamma=config.cost_gamma,
        hold=config.hold if config.hold > 1 else None,
    )


def make_decay(config: RunConfig, chosen: CriticConfig | ActorConfig) -> Decay:
    """The step size of a part, and how it falls."""
    return falling(config, chosen.rate, chosen.final_rate)


def falling(config: RunConfig, first: float, last: float | None) -> Decay:
    """From one value to the other by the schedule of the run; None: it stays."""
    last = first if last is None else last
    return Decay(first, last, config.decay_start, config.decay_steps)
