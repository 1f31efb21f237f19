"""From a configuration to constraints on the worst episodes."""

from __future__ import annotations

from collections.abc import Sequence

from ucpo.config.options import RunConfig
from ucpo.errors import UsageError
from ucpo.problem import EXCESS, Constraint, Problem, TailLimit, TailMean, parse_budgets

FEWEST = 100
"""Episodes whose worst share says something of a tail."""


def make_tail_problem(config: RunConfig, costs: Sequence[str]) -> Problem:
    """A limit on the mean of the worst episodes: by levels, or by the tail of quantiles."""
    if config.multiplier.kind == "pid":
        raise UsageError(
            "a PID controller answers the mean cost, not that of the worst episodes; "
            "give --multiplier.kind gradient, or leave tails out"
        )
    share = config.tail.share
    if config.tail.limit is None:
        _refuse_means(config)
        utility = TailMean("tail", lambda final_stock: final_stock, share)
        return Problem(tuple(Constraint(cost, utility, config.tolerance) for cost in costs))
    limit = config.tail.limit
    if config.utility != "excess":
        raise UsageError(
            f"tail.limit is kept by the excess over levels, so it needs --utility excess, "
            f"got {config.utility!r}"
        )
    for cost, (low, high) in zip(
        costs, parse_budgets(config.budget or config.budget_range, costs), strict=True
    ):
        if not low <= limit <= high:
            raise UsageError(
                f"tail.limit {limit:g} is outside the budgets to train for ({cost} {low:g} to "
                f"{high:g}), which are its levels; widen --budget-range"
            )
    return Problem(tuple(TailLimit(cost, EXCESS, 0.0, limit=limit, share=share) for cost in costs))


def _refuse_means(config: RunConfig) -> None:
    if not config.budget:
        raise UsageError("--utility tail is for one budget; give --budget")
    if config.multiplier.window < FEWEST:
        raise UsageError(
            f"the worst {config.tail.share:.0%} of {config.multiplier.window} episodes is no tail; "
            f"--utility tail needs --multiplier.window {FEWEST} or more"
        )
