"""From a configuration to SAC or TD3."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch

from ucpo.config.assembly import (
    make_critics,
    make_decay,
    make_device,
    make_hidden,
    make_info,
    make_problem,
    make_replay,
    make_shaping,
    make_stock_scale,
    refuse_choices,
    refuse_two_penalties,
)
from ucpo.config.options import RunConfig
from ucpo.config.price_assembly import make_multiplier
from ucpo.envs.interface import TaskSpec
from ucpo.errors import UsageError
from ucpo.learners.behaviours import Behaviour, Deterministic, Stochastic
from ucpo.learners.entropy import Entropy
from ucpo.learners.networks import Actor
from ucpo.learners.normaliser import Normaliser
from ucpo.learners.offpolicy import OffPolicy, Settings
from ucpo.learners.pace import EveryEpisode, EveryUpdate, Pace
from ucpo.policies.policy import make_actor
from ucpo.problem import BudgetGrid


def make_off_policy(
    config: RunConfig, spec: TaskSpec, grid: BudgetGrid, generator: np.random.Generator
) -> OffPolicy:
    """Networks, replay, multipliers and shaping of SAC or TD3 as configured."""
    refuse_choices(config, spec)
    refuse_two_penalties(config)
    _refuse(config)
    problem, device = make_problem(config, spec.cost_names), make_device(config.device)
    networks, noise = config.networks, torch.Generator().manual_seed(config.seed)
    C = len(spec.cost_names)
    stock_size = 0 if config.stock == "hidden" else C
    scale = make_stock_scale(config, grid)
    scalar = replace(config, networks=replace(networks, quantiles=1))
    critics = make_critics(scalar, spec, stock_size, scale, noise)
    shape = (make_hidden(config), stock_size, scale, networks.stock_features)
    actor = make_actor(spec, *shape, noise).to(device)
    paces: dict[str, Callable[[], Pace]] = {"episode": EveryEpisode, "update": EveryUpdate}
    return OffPolicy(
        grid=grid,
        behaviour=_BEHAVIOURS[config.learner](config, actor, spec),
        critics=critics.to(device),
        multiplier=make_multiplier(config.multiplier, problem, grid),
        pace=paces[config.offpolicy.prices](),
        shaping=make_shaping(config.shaping),
        replay=make_replay(config, spec),
        normaliser=Normaliser(spec.observation_size, networks.normalise, device),
        settings=_settings(config),
        about=make_info(config, spec, grid, stock_size, scale),
        seed=config.seed,
        generator=generator,
    )


def _stochastic(config: RunConfig, actor: Actor, spec: TaskSpec) -> Behaviour:
    target = config.entropy.target
    entropy = Entropy(
        config.entropy.weight,
        rate=config.entropy.rate,
        target=-float(spec.action_size) if target is None else target,
    )
    return Stochastic(
        actor,
        entropy,
        regulariser=config.actor.regulariser,
        next_action=config.critic.next_action,
        costs=len(spec.cost_names),
    )


def _deterministic(config: RunConfig, actor: Actor, spec: TaskSpec) -> Behaviour:
    return Deterministic(
        actor,
        exploration=config.offpolicy.exploration,
        smoothing=config.offpolicy.smoothing,
        smoothing_limit=config.offpolicy.smoothing_limit,
        polyak=config.actor.polyak,
        regulariser=config.actor.regulariser,
        next_action=config.critic.next_action,
        costs=len(spec.cost_names),
    )


_BEHAVIOURS: dict[str, Callable[[RunConfig, Actor, TaskSpec], Behaviour]] = {
    "sac": _stochastic,
    "td3": _deterministic,
}


def _settings(config: RunConfig) -> Settings:
    return Settings(
        batch=config.replay.batch,
        relabelled=round(config.replay.relabel * config.replay.batch),
        critic=make_decay(config, config.critic),
        actor=make_decay(config, config.actor),
        critic_clip=config.critic.clip,
        actor_clip=config.actor.clip,
        critic_polyak=config.critic.polyak,
        delay=config.offpolicy.delay,
        actor_every=config.actor.every,
        random_steps=config.random_steps,
        updates=config.updates,
    )


def _refuse(config: RunConfig) -> None:
    """What scalar critics and single transitions cannot do."""
    name, shaping, priced = config.learner, config.shaping.kind, config.multiplier
    if config.utility != "mean" and not (priced.kind == "fixed" and priced.initial == 0.0):
        raise UsageError(
            f"{name} predicts mean costs, so its prices are of --utility mean, not of "
            f"{config.utility!r}; learner ucp prices other utilities"
        )
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
