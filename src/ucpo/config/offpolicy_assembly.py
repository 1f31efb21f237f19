"""From a configuration to SAC or TD3."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ucpo.config.assembly import (
    falling,
    make_entropy,
    make_equipment,
    make_problem,
    make_shaping,
    refuse_choices,
    refuse_two_penalties,
    shared_settings,
)
from ucpo.config.options import RunConfig
from ucpo.envs.interface import TaskSpec
from ucpo.errors import UsageError
from ucpo.learners.behaviours import Behaviour, Deterministic, Stochastic
from ucpo.learners.networks import Actor
from ucpo.learners.offpolicy import OffPolicy, Settings
from ucpo.learners.pace import EveryEpisode, EveryUpdate, Pace
from ucpo.problem import BudgetGrid


def make_off_policy(
    config: RunConfig, spec: TaskSpec, grid: BudgetGrid, generator: np.random.Generator
) -> OffPolicy:
    """Networks, replay, multipliers and shaping of SAC or TD3 as configured."""
    refuse_choices(config, spec)
    refuse_two_penalties(config)
    _refuse(config)
    scalar = replace(config, networks=replace(config.networks, quantiles=1))
    problem = make_problem(config, spec.cost_names)
    equipment = make_equipment(scalar, spec, grid, generator, problem)
    paces: dict[str, Callable[[], Pace]] = {"episode": EveryEpisode, "update": EveryUpdate}
    return OffPolicy(
        equipment,
        behaviour=_BEHAVIOURS[config.learner](config, equipment.actor, spec),
        pace=paces[config.offpolicy.prices](),
        shaping=make_shaping(config.shaping),
        settings=Settings(**shared_settings(config), delay=config.offpolicy.delay),
    )


def _stochastic(config: RunConfig, actor: Actor, spec: TaskSpec) -> Behaviour:
    return Stochastic(
        actor,
        make_entropy(config, spec),
        regulariser=config.actor.regulariser,
        next_action=config.critic.next_action,
        costs=len(spec.cost_names),
    )


def _deterministic(config: RunConfig, actor: Actor, spec: TaskSpec) -> Behaviour:
    own = config.offpolicy
    return Deterministic(
        actor,
        exploration=falling(config, own.exploration, own.final_exploration),
        smoothing=own.smoothing,
        smoothing_limit=own.smoothing_limit,
        polyak=config.actor.polyak,
        regulariser=config.actor.regulariser,
        next_action=config.critic.next_action,
        costs=len(spec.cost_names),
    )


_BEHAVIOURS: dict[str, Callable[[RunConfig, Actor, TaskSpec], Behaviour]] = {
    "sac": _stochastic,
    "td3": _deterministic,
}


def _refuse(config: RunConfig) -> None:
    """What scalar critics and single transitions cannot do."""
    name, shaping, priced = config.learner, config.shaping.kind, config.multiplier
    if config.utility != "mean" and not (priced.kind == "fixed" and priced.initial == 0.0):
        raise UsageError(
            f"{name} predicts mean costs, so its prices are of --utility mean, not of "
            f"{config.utility!r}; learner ucp prices other utilities"
        )
    if config.actor.final_regulariser is not None:
        raise UsageError(f"{name} keeps its regulariser; leave actor.final_regulariser out")
    if priced.kind == "switch":
        raise UsageError(
            f"{name} weighs costs by a finite price, so it has no switch; give another "
            "--multiplier.kind, or choose learner ppo"
        )
    if shaping != "none" and (config.replay.n_step > 1 or config.hold > 1):
        raise UsageError(
            f"{name} shapes rewards step by step, so the shaping {shaping!r} needs "
            "--replay.n-step 1 and --hold 1"
        )
    if shaping == "early-termination" and config.replay.relabel:
        raise UsageError(
            "an episode that ended because of its budget says nothing of other budgets; "
            "early termination needs --replay.relabel 0"
        )
