"""From a configuration to prices of budgets, and to the budgets episodes begin with."""

from __future__ import annotations

from collections.abc import Callable

from ucpo import own
from ucpo.config.method_options import MultiplierConfig, ScheduleConfig
from ucpo.errors import UsageError
from ucpo.learners.episode_prices import EpisodeAscent, Switch
from ucpo.learners.interface import Multiplier, Schedule
from ucpo.learners.multipliers import (
    Ascent,
    ClampedAdam,
    DualAscent,
    Fixed,
    Gradient,
    Pid,
    SoftplusAdam,
)
from ucpo.learners.schedules import Simmer, Uniform
from ucpo.problem import BudgetGrid, Problem


def make_schedule(config: ScheduleConfig, grid: BudgetGrid) -> Schedule:
    """Which budgets training episodes begin with."""
    if config.own:
        schedule: Schedule = own.make(config.own, Schedule, grid)
        return schedule
    if config.kind == "simmer":
        return Simmer(grid, config.gains, smoothing=config.smoothing, reach=config.reach)
    return Uniform(grid)


def make_multiplier(config: MultiplierConfig, problem: Problem, grid: BudgetGrid) -> Multiplier:
    """The price of each budget of a grid."""
    if config.own:
        price: Multiplier = own.make(config.own, Multiplier, problem, grid)
        return price
    if config.kind == "fixed":
        return Fixed(grid, config.initial)
    if config.kind == "pid":
        if any(limit.utility.name != "mean" for limit in problem.constraints):
            raise UsageError(
                "a PID controller keeps the mean cost at the budget, whatever the utility; say "
                "--utility mean, or choose another multiplier.kind"
            )
        how = {"window": config.window, "start": config.start}
        kp, ki, kd = config.gains
        return Pid(grid, (kp, ki, kd), initial=config.initial, **how)
    if config.kind == "switch":
        return Switch(grid, slack=config.slack, window=config.window, start=config.start)
    ascents: dict[str, Callable[[float], Ascent]] = {
        "gradient": Gradient,
        "softplus": SoftplusAdam,
        "clamped": ClampedAdam,
    }
    ascent = ascents[config.kind](config.rate)
    bounds = {"initial": config.initial, "minimum": config.minimum, "maximum": config.maximum}
    if config.window == 0:
        return EpisodeAscent(problem, grid, ascent, **bounds, start=config.start)
    return DualAscent(problem, grid, ascent, **bounds, window=config.window, start=config.start)
