"""Whole episodes, kept for drawing."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from ucpo.envs.interface import VectorTask
from ucpo.evaluation.episodes import Identity, Job, Moment, Row
from ucpo.policies.policy import Policy


class Paths:
    """One row per episode, with a list over its steps in each column.

    After the columns of `Identity`: ``reward``, ``cost_NAME``, ``stock_NAME`` (before the step),
    and ``x``, ``y`` (metres, before the step) where the task has places.
    """

    def __init__(
        self, policy: Policy, task: VectorTask, jobs: Collection[Job], hold: int = 1
    ) -> None:
        self._identity = Identity(policy, task, hold)
        self._costs = task.spec.cost_names
        self._wanted = set(jobs)
        self._steps: list[list[tuple[float, ...]]] = [[] for _ in range(task.num_envs)]
        self._columns = [
            "reward",
            *(f"{kind}_{name}" for kind in ("cost", "stock") for name in self._costs),
            *("x", "y"),
        ]

    def see(self, moment: Moment) -> list[Row]:
        """Note a step of the episodes wanted."""
        step = moment.step
        seen = [step.reward[:, None], step.costs, moment.stock]
        seen += [] if moment.positions is None else [moment.positions]
        table = np.concatenate(seen, axis=1, dtype=np.float32)
        for row, job in enumerate(moment.working):
            if job in self._wanted:
                self._steps[row].append(table[row])
        rows = [
            self._row(step.episodes.rows[i], job)
            for i, job in moment.finished
            if job in self._wanted
        ]
        for row in step.episodes.rows:
            self._steps[row] = []
        return rows

    def _row(self, row: int, job: Job) -> Row:
        columns = np.array(self._steps[row]).T
        named = zip(self._columns, columns, strict=False)  # without x and y where there are none
        return {**self._identity.row(job), **dict(named)}
