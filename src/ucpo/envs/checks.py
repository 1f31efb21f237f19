"""What is worth knowing of an environment before training on it, found by random actions.

Gymnasium's own checker (``gymnasium.utils.env_checker``) looks at spaces and types. This looks at
what it does not know: costs, how episodes end, whether a seed decides them, which budgets make
sense.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import repeat

import numpy as np

from ucpo.envs.interface import TaskSpec, VectorTask
from ucpo.envs.registry import Task, make_task, name_of
from ucpo.errors import UsageError, shell
from ucpo.problem import Floats
from ucpo.stock import Start, starts

_REPEATED = 100  # steps that are made twice to see whether a seed decides them
_NICE = (1.0, 2.0, 2.5, 5.0, 10.0)  # what round numbers begin with
_APART = 1e3  # ratio of cost scales that deserves a word


@dataclass(frozen=True)
class CostFound:
    """One cost under random actions."""

    name: str
    smallest: float
    largest: float
    mean: float
    """Per environment step."""
    often: float
    """Share of steps that cost something."""
    episodes: Floats
    """Sums over whole episodes; over all that was played if none ended."""

    @property
    def most(self) -> float:
        """The largest budget that makes sense: what one random episode in ten exceeds, rounded up.

        Beyond it a budget hardly ever binds; 0 where random actions cost nothing.
        """
        return round_up(float(np.quantile(self.episodes, 0.9)))


@dataclass(frozen=True)
class Found:
    """All that was found."""

    task: str
    spec: TaskSpec
    env_steps: int
    lengths: tuple[int, ...]
    """Of episodes that ended, in environment steps."""
    terminated: int
    """How many of them ended by themselves; time ran out in the others."""
    costs: tuple[CostFound, ...]
    rewards: tuple[float, float]
    """Smallest and largest of a step."""
    remarks: tuple[str, ...]
    """What to think about before training."""
    command: str
    """What trains on it."""


@dataclass
class _Seen:
    """What random steps brought."""

    costs: list[Floats] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    sums: list[Floats] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    terminated: list[bool] = field(default_factory=list)


def check(
    task: Task,
    *,
    costs: Sequence[str] | None = None,
    env_steps: int = 5000,
    seconds: float = 60.0,
    seed: int = 0,
) -> Found:
    """Step an environment with random actions and say what was found.

    What cannot work raises a `UsageError`: no cost or a missing one, numbers that are not finite,
    spaces that are not supported.

    Args:
        task: As for `ucpo.envs.registry.make_task`.
        costs: Names of the costs to look at; all the task has by default.
        env_steps: Steps to make.
        seconds: Stop sooner after this time.
        seed: Of the actions and episodes.
    """
    if env_steps < 1:
        raise UsageError(f"env_steps must be at least 1, got {env_steps}")
    built = make_task(task, 1, costs)
    try:
        seen = _play(built, env_steps, seconds, seed)
    finally:
        built.close()
    table = np.array(seen.costs)  # (steps, C)
    sums = np.array(seen.sums) if seen.sums else table.sum(0, keepdims=True)
    found = tuple(
        CostFound(
            name,
            float(table[:, i].min()),
            float(table[:, i].max()),
            float(table[:, i].mean()),
            float((table[:, i] != 0.0).mean()),
            np.sort(sums[:, i]),
        )
        for i, name in enumerate(built.spec.cost_names)
    )
    remarks = [*_about_seeds(task, costs, seed), *_about_ends(seen, built.spec)]
    return Found(
        task=name_of(task),
        spec=built.spec,
        env_steps=len(table),
        lengths=tuple(seen.lengths),
        terminated=sum(seen.terminated),
        costs=found,
        rewards=(min(seen.rewards), max(seen.rewards)),
        remarks=(*remarks, *_about_costs(found)),
        command=_command(name_of(task), found, costs is not None, built.spec.discrete),
    )


def round_up(value: float) -> float:
    """The next round number: 1, 2, 2.5, 5 or 10 times a power of ten; 0 of what is not above 0."""
    if not 0.0 < value < math.inf:
        return 0.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(nice * power for nice in _NICE if nice * power >= value * (1.0 - 1e-9))


def _play(task: VectorTask, env_steps: int, seconds: float, seed: int) -> _Seen:
    generator = np.random.default_rng(seed)
    nothing = np.zeros(len(task.spec.cost_names), np.float32)
    task.reset(starts(lambda: nothing, generator))
    seen, until = _Seen(), time.monotonic() + seconds
    while len(seen.costs) < env_steps and (not seen.costs or time.monotonic() < until):
        step = task.step(generator.uniform(-1.0, 1.0, (1, task.spec.action_size)))
        seen.costs.append(np.asarray(step.costs[0], np.float64))
        seen.rewards.append(float(step.reward[0]))
        if len(step.episodes):
            seen.sums.append(step.episodes.costs[0])
            seen.lengths.append(int(step.episodes.lengths[0]))
            seen.terminated.append(bool(step.terminated[0]))
    return seen


def _about_seeds(task: Task, costs: Sequence[str] | None, seed: int) -> list[str]:
    """Whether a seed decides an episode, and different seeds make different ones."""
    first, again = (_trace(task, costs, seed, seed) for _ in range(2))
    other = _trace(task, costs, seed + 1, seed)
    length = min(len(first), len(again))
    differs = np.flatnonzero((first[:length] != again[:length]).any(-1))
    if len(differs) or len(first) != len(again):
        at = f"after {differs[0]} steps" if len(differs) else "in length"
        return [
            f"The same seed and actions gave two different episodes ({at}): results cannot be "
            "repeated, and budgets are not compared on the same episodes. Draw all randomness "
            "from self.np_random, which reset(seed=...) seeds."
        ]
    if len(other) == len(first) and (other == first).all():
        return [
            "Different seeds gave the same episode. If starts are meant to vary, draw them from "
            "self.np_random."
        ]
    return []


def _trace(task: Task, costs: Sequence[str] | None, seed: int, actions: int) -> Floats:
    """Everything seen in the first steps of an episode, (steps, obs + 1 + C)."""
    built = make_task(task, 1, costs)
    try:
        width = len(built.spec.cost_names)
        obs, _ = built.reset(repeat(Start(seed, np.zeros(width, np.float32))))
        rows = [np.concatenate([obs[0], np.zeros(1 + width)])]
        generator = np.random.default_rng(actions)
        for _ in range(_REPEATED):
            step = built.step(generator.uniform(-1.0, 1.0, (1, built.spec.action_size)))
            rows.append(np.concatenate([step.successor[0], step.reward, step.costs[0]]))
            if len(step.episodes):
                break
    finally:
        built.close()
    return np.array(rows)


def _about_ends(seen: _Seen, spec: TaskSpec) -> list[str]:
    lengths, made = set(seen.lengths), len(seen.costs)
    if not lengths:
        return [
            f"No episode ended within {made:,} steps. A budget is for an episode, so it needs an "
            "end: register the environment with max_episode_steps=..., or look for longer with "
            "--env-steps."
        ]
    if len(seen.lengths) > 1 and len(lengths) == 1 and all(seen.terminated):
        return [
            f"Every episode ended as `terminated` after exactly {lengths.pop()} steps. If that is "
            "a time limit, return it as `truncated`: learning then looks beyond it."
        ]
    return []


def _about_costs(found: Sequence[CostFound]) -> list[str]:
    said = []
    for cost in found:
        if cost.smallest < 0.0:
            said.append(
                f"{cost.name} was negative (down to {cost.smallest:.3g}): that gives back some of "
                "the budget. If it is not meant, report max(cost, 0.0)."
            )
        if cost.largest <= 0.0:
            said.append(
                f"Random actions never cost any {cost.name}. The range of budgets below is a "
                "guess; look for longer with --env-steps, or choose one that you can judge."
            )
    scales = [cost.most for cost in found if cost.most > 0.0]
    if scales and max(scales) > _APART * min(scales):
        said.append(
            "The costs are of very different size; give each its own range of budgets, as below."
        )
    return said


def _command(task: str, found: Sequence[CostFound], chosen: bool, discrete: bool) -> str:
    ranges = [f"0:{cost.most or 1.0:g}" for cost in found]
    if len(found) > 1:
        ranges = [f"{cost.name}={text}" for cost, text in zip(found, ranges, strict=True)]
    names = ["--costs", *(cost.name for cost in found)] if chosen else []
    method = ["--method", "ucp-ppo"] if discrete else []  # the one that learns to choose
    words = ["ucpo", "train", task, *method, *names, "--budget-range", *ranges]
    return " ".join(map(shell, words))
