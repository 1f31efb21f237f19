"""The protocol: a policy, budgets and seeds give one row per episode."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain, repeat

import numpy as np
import polars as pl

from ucpo import stock as stocks
from ucpo.agents.controller import Policy
from ucpo.envs.interface import VectorTask
from ucpo.errors import UsageError
from ucpo.stock import Start


def evaluate(
    policy: Policy,
    task: VectorTask,
    budgets: Sequence[float | Sequence[float]],
    episodes: int,
    seed: int = 0,
    *,
    extrapolate: bool = False,
    done: Callable[[int], None] = lambda count: None,
) -> pl.DataFrame:
    """Play episodes with the deterministic policy, the same seeds at every budget.

    Each episode is a job of its own, so long episodes count as much as short ones.

    Args:
        policy: What acts.
        task: A batch of environments of any size; taken over.
        budgets: Each a number for every cost, or one number per cost, in cost units.
        episodes: Episodes per budget.
        seed: Episode seeds are drawn from this.
        extrapolate: Allow budgets outside the range trained for, with a warning.
        done: Told after each step how many episodes ended in it.

    Returns:
        One row per episode, by budget and seed: task, method, training_seed, budget_NAME,
        episode_seed, return, cost_NAME, length; returns and costs undiscounted.
    """
    spec, info = task.spec, policy.info
    if (spec.observation_size, spec.action_size) != (info.observation_size, len(info.action_low)):
        raise UsageError(
            f"the policy was trained on {info.task} (observations {info.observation_size}, actions "
            f"{len(info.action_low)}) and does not fit {spec.name} "
            f"({spec.observation_size}, {spec.action_size})"
        )
    if episodes < 1:
        raise UsageError(f"episodes must be at least 1, got {episodes}")
    levels = [policy.budgets(budget, extrapolate) for budget in budgets]
    seeds = np.random.default_rng(seed).integers(2**31, size=episodes).tolist()
    jobs = [Start(one, stocks.initial(level)) for level in levels for one in seeds]

    # The next start always goes to the row that ended first, so jobs are known by counting.
    job = np.arange(task.num_envs)
    upcoming = task.num_envs
    returns, lengths = np.empty(len(jobs)), np.empty(len(jobs), np.int64)
    costs = np.empty((len(jobs), len(spec.cost_names)))
    open_jobs = len(jobs)
    obs, stock = task.reset(_then_forever(jobs), info.stock_discount)
    while open_jobs:
        step = task.step(policy.act(obs, stock))
        obs, stock, ended = step.obs, step.stock, step.episodes
        counts = job[ended.rows] < len(jobs)
        finished = job[ended.rows][counts]
        returns[finished] = ended.returns[counts]
        lengths[finished] = ended.lengths[counts]
        costs[finished] = ended.costs[counts]
        job[ended.rows] = upcoming + np.arange(len(ended))
        upcoming += len(ended)
        open_jobs -= len(finished)
        done(len(finished))

    spent = {f"cost_{name}": costs[:, i] for i, name in enumerate(spec.cost_names)}
    allowed = {
        f"budget_{name}": np.repeat([level[i] for level in levels], episodes)
        for i, name in enumerate(spec.cost_names)
    }
    return pl.DataFrame(
        {
            "task": [spec.name] * len(jobs),
            "method": [info.method] * len(jobs),
            "training_seed": [info.training_seed] * len(jobs),
            **allowed,
            "episode_seed": seeds * len(levels),
            "return": returns,
            **spent,
            "length": lengths,
        }
    )


def _then_forever(jobs: list[Start]) -> Iterator[Start]:
    """The jobs, then the last one again and again for rows that have nothing left to do."""
    return chain(jobs, repeat(jobs[-1]))
