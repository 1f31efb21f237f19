"""From a configuration to the on-policy learner."""

from __future__ import annotations

from dataclasses import replace

import torch

from ucpo.config.assembly import (
    make_device,
    make_hidden,
    make_info,
    make_problem,
    make_shaping,
    make_stock_scale,
    refuse_two_penalties,
)
from ucpo.config.options import RunConfig
from ucpo.config.price_assembly import make_multiplier
from ucpo.envs.interface import TaskSpec
from ucpo.envs.shaping import Plain, all_or_nothing, excess
from ucpo.errors import UsageError
from ucpo.learners.actors import OnPolicyActor
from ucpo.learners.interface import Multiplier
from ucpo.learners.multipliers import Fixed
from ucpo.learners.networks import Body, StockScale, Values
from ucpo.learners.normaliser import Normaliser
from ucpo.learners.optimisation import Slope
from ucpo.learners.ppo import PPO, Settings
from ucpo.learners.rollout import Increments, Rollout, Signals, increments_of
from ucpo.learners.surrogates import Clipped, Focops, P3o, Surrogate
from ucpo.learners.trust_region import TrustRegion
from ucpo.policies.policy import make_on_policy_actor
from ucpo.problem import BudgetGrid, Floats, Problem

_WITHOUT_PRICE = ("p3o", "cpo", "pcpo")  # updates that keep the cost themselves


def make_ppo(config: RunConfig, spec: TaskSpec, grid: BudgetGrid) -> PPO:
    """Networks, rollout and prices of PPO as configured."""
    _refuse_what_makes_no_sense(config, grid)
    problem, device = make_problem(config, spec.cost_names), make_device(config.device)
    C, ppo = len(spec.cost_names), config.ppo
    priced = C if _prices(config) else 0
    horizon = _sums_to_the_horizon(config, spec)
    stock_size = 0 if config.stock == "hidden" else C
    scale = make_stock_scale(config, grid)
    ceiling = 0.0 if stock_size and _flat_beyond_the_budget(config) else None
    actor = make_policy(config, spec, stock_size, scale, ceiling)
    values = make_values(config, spec, stock_size, scale, ceiling, 1 + priced, timed=horizon)
    about = make_info(config, spec, grid, stock_size, scale)
    return PPO(
        actor=actor.to(device),
        values=values.to(device),
        signals=make_signals(config, priced, horizon),
        increments=make_increments(config, problem),
        multiplier=make_price(config, problem, grid),
        shaping=Plain() if config.shaping.kind == "penalty" else make_shaping(config.shaping),
        rollout=Rollout(
            ppo.rollout,
            config.num_envs,
            spec.observation_size,
            spec.action_size,
            C,
            spec.max_episode_steps,
        ),
        normaliser=Normaliser(spec.observation_size, config.networks.normalise, device),
        improvement=make_improvement(config),
        settings=make_settings(config, priced),
        about=replace(
            about,
            activation=ppo.activation,
            # A policy makes no sample, so nothing is left to the task to clip.
            action="clipped" if (way := _action(config, spec)) == "unclipped" else way,
            stock_ceiling=ceiling,
        ),
        seed=config.seed,
    )


def make_policy(
    config: RunConfig, spec: TaskSpec, stock_size: int, scale: StockScale, ceiling: float | None
) -> OnPolicyActor:
    """The actor, its last layer small."""
    ppo, networks = config.ppo, config.networks
    actor = make_on_policy_actor(
        spec,
        make_hidden(config),
        stock_size,
        scale,
        networks.stock_features,
        torch.Generator().manual_seed(config.seed),
        activation=ppo.activation,
        action=_action(config, spec),
        stock_ceiling=ceiling,
        log_std=ppo.log_std,
    )
    with torch.no_grad():
        for part in actor.body.layers.stack()[-1]:
            part.mul_(ppo.last_layer)
    return actor


def make_values(
    config: RunConfig,
    spec: TaskSpec,
    stock_size: int,
    scale: StockScale,
    ceiling: float | None,
    signals: int,
    *,
    timed: bool,
) -> Values:
    """A network for each signal, each with weights that do not depend on how many there are."""
    networks = config.networks
    timed = timed and signals > 1
    bodies = [
        Body(
            members=1,
            inputs=spec.observation_size + timed,
            stock_size=stock_size,
            hidden=make_hidden(config),
            outputs=1,
            stock_scale=scale,
            stock_features=networks.stock_features,
            generator=torch.Generator().manual_seed(1000 * config.seed + 1 + signal),
            activation=config.ppo.activation,
            stock_ceiling=ceiling,
        )
        for signal in range(signals)
    ]
    return Values(bodies, timed)


def make_signals(config: RunConfig, priced: int, horizon: bool) -> Signals:
    """Discounts and the like of the reward and of each priced cost."""
    ppo = config.ppo
    cost_gamma = 1.0 if horizon else config.discount_of_costs
    cost_lam = ppo.lam if ppo.cost_lam is None else ppo.cost_lam
    return Signals(
        gammas=(config.gamma, *[cost_gamma] * priced),
        lams=(ppo.lam, *[cost_lam] * priced),
        bootstraps=(True, *[not horizon] * priced),
    )


def make_increments(config: RunConfig, problem: Problem) -> Increments:
    """What a step adds to what is priced: a utility of the problem, or of a penalty."""
    if config.shaping.kind != "penalty":
        return increments_of(problem)
    utility = {"excess": excess, "all-or-nothing": all_or_nothing}[config.shaping.utility]

    def increments(stock: Floats, successor_stock: Floats, initial_stock: Floats) -> Floats:
        return utility(successor_stock, initial_stock) - utility(stock, initial_stock)

    return increments


def make_price(config: RunConfig, problem: Problem, grid: BudgetGrid) -> Multiplier:
    """The multiplier; a penalty is a price that stays, with a critic of its own.

    So it need not be discounted as rewards are.
    """
    if config.shaping.kind == "penalty":
        return Fixed(grid, config.shaping.price)
    return make_multiplier(config.multiplier, problem, grid)


def make_improvement(config: RunConfig) -> Surrogate | TrustRegion:
    """How a rollout improves the policy."""
    ppo = config.ppo
    if ppo.update == "clip":
        return Clipped(ppo.clip)
    if ppo.update == "focops":
        return Focops(ppo.temperature, ppo.stop)
    if ppo.update == "p3o":
        return P3o(ppo.clip, ppo.penalty, config.gamma)
    return TrustRegion(
        ppo.radius,
        ppo.damping,
        ppo.iterations,
        ppo.tries,
        constrained=ppo.update in ("cpo", "pcpo"),
        projected=ppo.update == "pcpo",
    )


def make_settings(config: RunConfig, priced: int) -> Settings:
    """Step sizes, limits and paces of PPO."""
    ppo, whole = config.ppo, config.env_steps
    actor_falls, critic_falls = ppo.decay != "none", ppo.decay == "both"
    region = ppo.update in ("trpo", "cpo", "pcpo")
    return Settings(
        passes=ppo.passes,
        minibatch=ppo.minibatch,
        stop=float("inf") if region else ppo.stop,
        scale=ppo.advantage,
        actor=Slope(ppo.actor_rate, whole if actor_falls else None),
        critic=Slope(ppo.critic_rate, whole if critic_falls else None),
        epsilon=ppo.epsilon,
        clip=ppo.norm,
        clip_each=ppo.norm_of == "each",
        regulariser=ppo.regulariser,
        entropy=ppo.entropy,
        unit_share=ppo.unit_share,
        unit_floor=(1e-3, *[ppo.cost_unit] * priced),
    )


def _action(config: RunConfig, spec: TaskSpec) -> str:
    """How outputs become an action."""
    return "choice" if spec.discrete else config.ppo.action


def _prices(config: RunConfig) -> bool:
    """Whether costs ever weigh anything, so that they need critics."""
    if config.shaping.kind == "penalty":
        return config.shaping.price > 0.0
    nothing = config.multiplier.kind == "fixed" and config.multiplier.initial == 0.0
    return not nothing or config.ppo.update in _WITHOUT_PRICE


def _sums_to_the_horizon(config: RunConfig, spec: TaskSpec) -> bool:
    if config.ppo.costs == "horizon" and spec.max_episode_steps is None:
        raise UsageError(
            f'ppo.costs = "horizon" needs a time limit, and {spec.name} does not say one; '
            'write ppo.costs = "discounted"'
        )
    return config.ppo.costs != "discounted" and spec.max_episode_steps is not None


def _flat_beyond_the_budget(config: RunConfig) -> bool:
    """Whether all stocks above 0 are alike to what is learned: every unit counts the same there."""
    if config.shaping.kind == "penalty":
        return config.shaping.utility == "excess"
    return config.shaping.kind == "none" and config.utility == "excess" and _prices(config)


def _refuse_what_makes_no_sense(config: RunConfig, grid: BudgetGrid) -> None:
    moves = config.multiplier.kind != "fixed"
    refuse_two_penalties(config)
    if config.stock == "discounted" and _prices(config):
        raise UsageError(
            "priced costs are increments of the undiscounted stock, so a discounted one goes with "
            'Saute only; write stock = "shown"'
        )
    if config.ppo.update in _WITHOUT_PRICE and (moves or len(grid.levels) > 1):
        raise UsageError(
            f"{config.ppo.update} keeps one cost without a price; write multiplier.kind = "
            '"fixed" and multiplier.initial = 0, and name one cost (--costs)'
        )
    if config.ppo.update in _WITHOUT_PRICE and any(levels > 1 for levels in grid.levels):
        raise UsageError(f"{config.ppo.update} is for one budget, not for a range; give --budget")
