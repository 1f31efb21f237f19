"""One policy under one budget, playing one episode after the other."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import Any

import numpy as np

from ucpo import stock as stocks
from ucpo.envs.registry import make_task
from ucpo.errors import UsageError
from ucpo.policies.controller import Controller
from ucpo.show.live.sources import Source
from ucpo.show.live.views import view_of
from ucpo.stock import Start

SHOWN = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Levels of the predicted quantiles that are drawn."""
USUAL_SECONDS = 0.1
"""Of a step of a task that has no time of its own."""


class Lane:
    """What is seen in one of the pictures side by side.

    Args:
        number: What the page calls it.
        source: Whose policy plays; a newer one of a run under way takes over between episodes.
        budgets: Of the next episode, one per cost.
    """

    def __init__(self, number: int, source: Source, budgets: Sequence[float]) -> None:
        self.number, self.source = number, source
        self.set_budgets(budgets)
        self._task = make_task(source.task, 1, source.policy.info.cost_names)
        source.policy.must_fit(self._task.spec)
        self._view = view_of(self._task)
        world = getattr(self._task, "world", None)
        self.seconds = float(world.seconds) if world is not None else USUAL_SECONDS
        """Of simulated time a step takes."""
        self.over = True
        self.silence: str | None = None
        """Why nothing is predicted, where that is so."""

    def set_budgets(self, budgets: Sequence[float]) -> None:
        """Choose what the next episode may cost."""
        self.budgets = self.source.policy.budgets(list(budgets))

    def begin(self, seed: int) -> None:
        """Start an episode."""
        policy = self.source.policy
        self.seed, self.playing = seed, policy.info
        self._controller = Controller(policy, self.budgets)
        start = Start(seed, stocks.initial(self.budgets))
        obs, _ = self._task.reset(repeat(start), policy.info.stock_discount)
        self.age, self.returns, self.over, self.silence = 0, 0.0, False, None
        self.scenery = self._view.scenery()
        self._obs = obs[0]
        self._action = self._controller.decide(self._obs)
        self.trail: list[list[float]] = []  # x, y and whether it cost, of every step
        self.course: list[list[Any]] = []  # what `_point` says, of every moment shown
        self._fresh = 0  # of the trail, where the next moment's share begins
        self.moment = self._look()

    def step(self) -> None:
        """One step of the environment, unless the episode is over."""
        if self.over:
            return
        step = self._task.step(self._action[None])
        costs = step.costs[0]
        self._controller.record(costs.tolist())
        self.returns += float(step.reward[0])
        self.age += 1
        self.over = bool(step.terminated[0] or step.truncated[0])
        if self.over:  # the task already shows the next episode
            return
        place = self._view.place()
        if place is not None:
            self.trail.append([*place, int(costs.any())])
        self._obs = step.obs[0]
        self._action = self._controller.decide(self._obs)

    def spend(self, extra: Sequence[float]) -> None:
        """Allow more or less in the episode under way."""
        if self.over:
            raise UsageError("this episode is over; choose the budget of the next one")
        self._controller.spend(list(extra))
        self._action = self._controller.decide(self._obs)

    def look(self) -> None:
        """Make `moment` what there is to see now."""
        self.moment = self._look()

    def _look(self) -> dict[str, Any]:
        seen = self._view.moment() if not self.over else self.moment["see"]
        fan, holds = self._predicted()
        made = self._controller
        point = [self.age, _short(made.spent), _short(made.budgets), fan, holds]
        self.course.append(point)
        fresh, self._fresh = self.trail[self._fresh :], len(self.trail)
        return {
            "lane": self.number,
            "return": round(self.returns, 3),
            "over": self.over,
            "see": seen,
            "trail": fresh,
            "point": point,
        }

    def _predicted(self) -> tuple[list[list[float]] | None, list[float] | None]:
        """Quantiles of the costs to come, and the probability that each budget holds."""
        left = (np.asarray(self._controller.remaining) >= 0.0).astype(float)
        if self.over:
            return [[0.0] * len(SHOWN) for _ in left], left.tolist()
        if self.silence is not None:
            return None, None
        limit = self._task.spec.max_episode_steps
        try:
            cost = self._controller.remaining_cost(None if limit is None else limit - self.age)
        except UsageError as error:
            self.silence = str(error)
            return None, None
        levels = np.stack([cost.quantile(level) for level in SHOWN], axis=-1)
        return [_short(row) for row in levels], [round(float(p), 3) for p in cost.holds]

    def outcome(self) -> dict[str, Any]:
        """What came of the episode, for the list of past ones."""
        spent, budgets = self._controller.spent, self._controller.budgets
        return {
            "lane": self.number,
            "seed": self.seed,
            "name": self.source.name,
            "steps": self.age,
            "return": round(self.returns, 2),
            "spent": _short(spent),
            "budget": _short(budgets),
            "held": [bool(cost <= budget) for cost, budget in zip(spent, budgets, strict=True)],
        }

    def episode(self) -> dict[str, Any]:
        """Everything about the episode under way, for someone who has seen nothing of it."""
        return {
            "lane": self.number,
            "seed": self.seed,
            "env_steps": self.playing.env_steps,
            "limit": self._task.spec.max_episode_steps,
            "silent": self.silence is not None,
            "scenery": self.scenery,
            "moment": {**self.moment, "trail": []},
            "trail": self.trail[: self._fresh],
            "course": self.course,
        }

    def close(self) -> None:
        """Let go of the environment."""
        self._task.close()


def _short(values: Any) -> list[float]:
    return [round(float(value), 3) for value in values]
