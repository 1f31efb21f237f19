"""From a configuration to the objects it describes: problem, budgets, networks, agent."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ucpo.config.options import ActorConfig, CriticConfig, RunConfig
from ucpo.envs.interface import TaskSpec
from ucpo.errors import UsageError
from ucpo.learners.multipliers import Multipliers
from ucpo.learners.networks import Body, Critics
from ucpo.learners.normaliser import Normaliser
from ucpo.learners.replay import Replay
from ucpo.learners.ucp import Decay, Entropy, Rates, UCPAgent
from ucpo.policies.policy import make_actor
from ucpo.problem import BudgetGrid, Constraint, Problem, parse_budgets, utility


def make_problem(config: RunConfig, costs: Sequence[str]) -> Problem:
    """The constraints a configuration asks for, one per cost."""
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


def make_agent(config: RunConfig, spec: TaskSpec, grid: BudgetGrid) -> UCPAgent:
    """Networks, replay and multipliers as configured."""
    C = len(spec.cost_names)
    problem, device = make_problem(config, spec.cost_names), make_device(config.device)
    networks, generator = config.networks, torch.Generator().manual_seed(config.seed)
    scale = networks.stock_scale or max(*grid.high, 3.0) / 3.0
    stock_size = C if config.stock_observed else 0
    critics = Critics(
        Body(
            members=Critics.REWARD + C,
            inputs=spec.observation_size + spec.action_size,
            stock_size=stock_size,
            hidden=networks.hidden,
            outputs=networks.quantiles,
            stock_scale=scale,
            stock_features=networks.stock_features,
            generator=generator,
        ),
        units=[config.critic.reward_unit] * Critics.REWARD + [config.critic.cost_unit] * C,
    )
    shape = (networks.hidden, stock_size, scale, networks.stock_features)
    target = config.entropy.target
    return UCPAgent(
        problem=problem,
        actor=make_actor(spec, *shape, generator).to(device),
        critics=critics.to(device),
        multipliers=Multipliers(
            problem,
            grid,
            initial=config.multiplier.initial,
            rate=config.multiplier.rate,
            ascent=config.multiplier.ascent,
            minimum=config.multiplier.minimum,
            maximum=config.multiplier.maximum,
            window=config.multiplier.window,
        ),
        replay=Replay(
            config.replay.capacity,
            config.num_envs,
            spec.observation_size,
            spec.action_size,
            C,
            config.replay.n_step,
            config.gamma,
            config.discount_of_costs,
            config.hold,
        ),
        normaliser=Normaliser(spec.observation_size, config.networks.normalise, device),
        entropy=Entropy(
            config.entropy.weight,
            rate=config.entropy.rate,
            target=-float(spec.action_size) if target is None else target,
        ),
        rates=Rates(
            batch=config.replay.batch,
            relabelled=round(config.replay.relabel * config.replay.batch),
            critic=_decay(config, config.critic),
            actor=_decay(config, config.actor),
            critic_clip=config.critic.clip,
            actor_clip=config.actor.clip,
            critic_polyak=config.critic.polyak,
            actor_polyak=config.actor.polyak,
            regulariser=config.actor.regulariser,
            actor_every=config.actor.every,
            next_action=config.critic.next_action,
            multiplier_start=config.multiplier.start,
        ),
        seed=config.seed,
    )


def _decay(config: RunConfig, chosen: CriticConfig | ActorConfig) -> Decay:
    last = chosen.rate if chosen.final_rate is None else chosen.final_rate
    return Decay(chosen.rate, last, config.decay_start, config.decay_steps)
