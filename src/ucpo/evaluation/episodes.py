"""Playing episodes: jobs in, rows out, the same whatever the size of the batch."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import chain, repeat
from typing import Any, Protocol

import numpy as np
import polars as pl
import torch

from ucpo import stock as stocks
from ucpo.envs.interface import Step, VectorTask
from ucpo.envs.shaping import EarlyTermination
from ucpo.errors import UsageError
from ucpo.policies.policy import Policy, check_hold
from ucpo.problem import Floats
from ucpo.stock import Start

BLOCK = 64
"""Rows in every forward pass. Matrix products of different heights may round differently, and in
chaotic physics the last bit decides later costs; of one height they do not."""

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Job:
    """One episode to play."""

    budgets: tuple[float, ...]  # one per cost, in cost units
    seed: int


@dataclass(frozen=True, slots=True)
class Moment:
    """One step of the batch, as observers see it."""

    obs: Floats  # (n, obs) before the step, like the three that follow
    stock: Floats  # (n, C)
    actions: Floats  # (n, action)
    positions: Floats | None  # (n, 2) where the task has them
    ages: Any  # (n,) environment steps each episode had made
    step: Step
    finished: list[tuple[int, Job]]  # of `step.episodes`, which and whose; idle rows left out
    working: list[Job | None]  # (n,) what each row played; None once there is nothing left to do


class Observer(Protocol):
    """Turns what happens into rows."""

    def see(self, moment: Moment) -> list[Row]:
        """Take in a step; the rows of the episodes that finished in it."""


def evaluate(
    policy: Policy,
    task: VectorTask,
    budgets: Sequence[float | Sequence[float]],
    episodes: int,
    seed: int = 0,
    *,
    hold: int = 1,
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
        hold: Environment steps each action is kept for.
        extrapolate: Allow budgets outside the range trained for, with a warning.
        done: Told whenever episodes ended how many.

    Returns:
        One row per episode, by budget and seed as asked for; `Totals` says which columns.
    """
    jobs = make_jobs(policy, budgets, episodes, seed, extrapolate)
    rows: dict[Job, Row] = {}
    with _one_thread():
        for seen in play(policy, task, jobs, {"episodes": Totals(policy, task, hold)}, hold):
            for row in seen["episodes"]:
                rows[job_of(row, task.spec.cost_names)] = row
            done(len(seen["episodes"]))
    return pl.DataFrame([rows[job] for job in jobs])


@contextmanager
def _one_thread() -> Iterator[None]:
    """Networks are small here: with more threads they mostly wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def make_jobs(
    policy: Policy,
    budgets: Sequence[float | Sequence[float]],
    episodes: int,
    seed: int,
    extrapolate: bool = False,
) -> list[Job]:
    """All episodes asked for. Asking for more episodes later adds to these and changes none."""
    if episodes < 1:
        raise UsageError(f"episodes must be at least 1, got {episodes}")
    if not budgets:
        raise UsageError("no budget given; an evaluation needs at least one")
    levels = dict.fromkeys(tuple(policy.budgets(budget, extrapolate)) for budget in budgets)
    seeds: dict[int, None] = {}  # in order, each once
    generator = np.random.default_rng(seed)
    while len(seeds) < episodes:
        seeds[int(generator.integers(2**31))] = None
    return [Job(level, one) for level in levels for one in seeds]


def job_of(row: Mapping[str, Any], costs: Sequence[str]) -> Job:
    """The job a row is the result of."""
    return Job(tuple(row[f"budget_{name}"] for name in costs), row["episode_seed"])


def play(
    policy: Policy,
    task: VectorTask,
    jobs: Sequence[Job],
    observers: Mapping[str, Observer],
    hold: int = 1,
) -> Iterator[dict[str, list[Row]]]:
    """Play every job once; yields the rows of each observer whenever episodes finished.

    Args:
        policy: What acts.
        task: A batch of environments of any size; taken over.
        jobs: Episodes to play, begun in this order.
        observers: By name; the rows of each come under the same name.
        hold: Environment steps each action is kept for: a new one where the age of an episode is a
            multiple of it.
    """
    check_hold(hold)
    policy.must_fit(task.spec)
    starts = [Start(job.seed, stocks.initial(job.budgets)) for job in jobs]
    # The next start always goes to the row that ended first, so jobs are known by counting.
    waiting = chain(jobs, repeat(None))
    working: list[Job | None] = [next(waiting) for _ in range(task.num_envs)]
    left = len(jobs)
    obs, stock = task.reset(chain(starts, repeat(starts[-1])), policy.info.stock_discount)
    actions = np.zeros((task.num_envs, task.spec.action_size), np.float32)
    while left:
        positions, ages = task.positions(), task.lengths.copy()
        decides = ages % hold == 0
        if decides.any():
            actions = np.where(decides[:, None], in_blocks(policy.act, obs, stock), actions)
        step = task.step(actions)
        owners = ((i, working[row]) for i, row in enumerate(step.episodes.rows))
        finished = [(i, job) for i, job in owners if job is not None]
        moment = Moment(obs, stock, actions, positions, ages, step, finished, working)
        rows = {name: observer.see(moment) for name, observer in observers.items()}
        obs, stock = step.obs, step.stock
        if len(step.episodes):
            working = list(working)
            for row in step.episodes.rows:
                working[row] = next(waiting)
        if finished:
            left -= len(finished)
            yield rows


def in_blocks(answer: Callable[..., Floats], *arrays: Floats) -> Floats:
    """Call a function of rows on `BLOCK` rows at a time, the last ones filled up with zeros."""
    count = len(arrays[0])
    missing = -count % BLOCK
    if missing:
        arrays = tuple(
            np.concatenate([array, np.zeros((missing, *array.shape[1:]), array.dtype)])
            for array in arrays
        )
    if len(arrays[0]) == BLOCK:
        return answer(*arrays)[:count]
    answers = [
        answer(*(array[begin : begin + BLOCK] for array in arrays))
        for begin in range(0, count, BLOCK)
    ]
    return np.concatenate(answers)[:count]


class Identity:
    """The columns that say whose episode a row is about.

    ``task``, ``method``, ``training_seed``, ``env_steps`` and ``updates`` of the training,
    ``policy`` (a fingerprint of the weights and of how they are used), ``budget_NAME`` for each
    cost, ``episode_seed``.
    """

    def __init__(self, policy: Policy, task: VectorTask, hold: int = 1) -> None:
        info, spec = policy.info, task.spec
        self.costs = spec.cost_names
        self._policy: Row = {
            "task": spec.name,
            "method": info.method,
            "training_seed": info.training_seed,
            "env_steps": info.env_steps,
            "updates": info.updates,
            "policy": fingerprint(policy, hold, isinstance(task, EarlyTermination)),
        }

    def row(self, job: Job) -> Row:
        """These columns for one episode."""
        budgets = {f"budget_{name}": b for name, b in zip(self.costs, job.budgets, strict=True)}
        return {**self._policy, **budgets, "episode_seed": job.seed}


class Totals:
    """One row per episode.

    After the columns of `Identity`: ``return``, ``cost_NAME`` (undiscounted sums), ``length``
    (environment steps), ``discounted_return``, ``discounted_cost_NAME`` (as the agent discounts
    them; empty where a policy file does not say how), ``remaining_NAME`` (budget minus cost).
    """

    def __init__(self, policy: Policy, task: VectorTask, hold: int = 1) -> None:
        self._identity = Identity(policy, task, hold)
        self._costs = task.spec.cost_names
        self._gammas = policy.info.gammas
        self._sums = np.zeros((task.num_envs, 1 + len(self._costs)))  # reward, then each cost
        self._weights = np.ones_like(self._sums)

    def see(self, moment: Moment) -> list[Row]:
        """Add up a step."""
        step = moment.step
        self._sums += self._weights * np.column_stack([step.reward, step.costs])
        self._weights *= 1.0 if self._gammas is None else self._gammas
        rows = [self._row(step, i, job) for i, job in moment.finished]
        ended = step.episodes.rows
        self._sums[ended], self._weights[ended] = 0.0, 1.0
        return rows

    def _row(self, step: Step, i: int, job: Job) -> Row:
        episodes = step.episodes
        costs = episodes.costs[i].astype(float)
        sums: list[Any] = self._sums[episodes.rows[i]].tolist()
        if self._gammas is None:
            sums = [None] * len(sums)
        return {
            **self._identity.row(job),
            "return": float(episodes.returns[i]),
            **_named("cost", self._costs, costs.tolist()),
            "length": int(episodes.lengths[i]),
            "discounted_return": sums[0],
            **_named("discounted_cost", self._costs, sums[1:]),
            **_named("remaining", self._costs, (np.array(job.budgets) - costs).tolist()),
        }


def fingerprint(policy: Policy, hold: int = 1, stopped: bool = False) -> str:
    """Twelve hexadecimal digits that change whenever the policy does, and how it was played.

    That is ``-hold4`` where actions are held, and ``-stopped`` where episodes end once exceeded, so
    rows of such and of other episodes are never taken for each other.
    """
    # What a file does not say is left out: files stay the same policies when there is more to say.
    said = {name: value for name, value in asdict(policy.info).items() if value is not None}
    digest = hashlib.sha256(json.dumps(said, sort_keys=True).encode())
    for name, value in sorted(policy.actor.state_dict().items()):
        digest.update(name.encode() + value.detach().cpu().numpy().tobytes())
    return digest.hexdigest()[:12] + _manner(hold, stopped)


def file_of(name: str, hold: int, stopped: bool = False) -> str:
    """The file of that kind for episodes played so: ``evaluation-hold4.parquet``."""
    stem, dot, ending = name.rpartition(".")
    return f"{stem}{_manner(hold, stopped)}{dot}{ending}"


def _manner(hold: int, stopped: bool) -> str:
    return (f"-hold{hold}" if hold > 1 else "") + ("-stopped" if stopped else "")


def _named(prefix: str, costs: Sequence[str], values: Sequence[Any]) -> Row:
    return {f"{prefix}_{name}": value for name, value in zip(costs, values, strict=True)}
