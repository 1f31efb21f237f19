"""What the critics predicted of the costs to come, beside what then happened."""

from __future__ import annotations

from typing import Any

import numpy as np

from ucpo.envs.interface import VectorTask
from ucpo.errors import UsageError
from ucpo.evaluation.episodes import Identity, Job, Moment, Row, in_blocks
from ucpo.policies.critics import CostCritics
from ucpo.policies.policy import Policy
from ucpo.problem import Floats

SAMPLES = 20
"""Predictions looked at in an episode that lasts to its time limit."""
TOLERANCE = 0.05
"""In cost units. Costs have atoms (most often 0) that a network meets only nearly: predictions this
close to what happened count as equal to it."""
SHOWN = (0.05, 0.25, 0.5, 0.75, 0.95)


class Calibration:
    """One row per prediction and cost.

    After the columns of `Identity`: ``cost`` (its name), ``age`` (environment steps the episode had
    made), ``predicted`` (mean) and ``q05`` to ``q95`` of the discounted cost from there on,
    ``happened``, ``observed``, and ``pit_low`` to ``pit_high``, where in the predicted distribution
    that lies (the probability integral transform; an interval, as N quantiles say no more).

    Critics look beyond time limits, where nothing is observed. An episode that ran into one is
    completed by a draw from the critic's own prediction at its end, as in training; ``observed``
    is 1 minus the discount that draw enters with, so 1 where the episode ended by itself.
    """

    def __init__(
        self, policy: Policy, critics: CostCritics, task: VectorTask, hold: int = 1
    ) -> None:
        if policy.info.gammas is None:
            raise UsageError("the policy file does not say its discount; train again to calibrate")
        self._gammas = np.array(policy.info.gammas[1:])  # of each cost
        self._policy, self._critics = policy, critics
        self._identity = Identity(policy, task, hold)
        self._costs = task.spec.cost_names
        every = max(1, (task.spec.max_episode_steps or 1000) // SAMPLES)
        self._every = -(-every // hold) * hold  # only where something is decided
        self._paid: list[list[Floats]] = [[] for _ in range(task.num_envs)]
        self._predictions: list[list[tuple[int, Floats]]] = [[] for _ in range(task.num_envs)]

    def see(self, moment: Moment) -> list[Row]:
        """Ask the critics at some steps, and close the books of finished episodes."""
        step = moment.step
        asked = np.flatnonzero(moment.ages % self._every == 0)
        if len(asked):
            answers = in_blocks(
                self._critics.quantiles,
                moment.obs[asked],
                moment.stock[asked],
                moment.actions[asked],
            )
            for row, answer in zip(asked, answers, strict=True):
                self._predictions[row].append((int(moment.ages[row]), answer))
        for paid, costs in zip(self._paid, np.asarray(step.costs, float), strict=True):
            paid.append(costs)
        rows = [
            each
            for i, job in moment.finished
            for each in self._rows(int(step.episodes.rows[i]), moment, job)
        ]
        for row in step.episodes.rows:
            self._paid[row], self._predictions[row] = [], []
        return rows

    def _rows(self, row: int, moment: Moment, job: Job) -> list[Row]:
        sums = self._beyond(row, moment, job)  # (C,) discounted from the end on
        steps = len(self._paid[row])
        to_go = np.empty((steps, len(self._costs)))
        for age in reversed(range(steps)):
            sums = self._paid[row][age] + self._gammas * sums
            to_go[age] = sums
        truncated = moment.step.truncated[row] and not moment.step.terminated[row]
        rows = []
        for age, quantiles in self._predictions[row]:
            hidden = self._gammas ** (steps - age) * truncated
            for name, values, happened, unseen in zip(
                self._costs, quantiles, to_go[age], hidden.tolist(), strict=True
            ):
                rows.append(
                    {
                        **self._identity.row(job),
                        "cost": name,
                        "age": age,
                        **_compare(values, happened),
                        "observed": 1.0 - unseen,
                    }
                )
        return rows

    def _beyond(self, row: int, moment: Moment, job: Job) -> Floats:
        """A draw of what would have come after the last step, (C,); 0 where nothing could."""
        step = moment.step
        if step.terminated[row] or not step.truncated[row]:
            return np.zeros(len(self._costs))
        obs, stock = step.successor[row : row + 1], step.successor_stock[row : row + 1]
        actions = in_blocks(self._policy.act, obs, stock)
        quantiles = in_blocks(self._critics.quantiles, obs, stock, actions)[0]
        draw = np.random.default_rng([job.seed, 2]).integers(quantiles.shape[-1])
        drawn: Floats = quantiles[:, draw].astype(float)
        return drawn


def _compare(values: Floats, happened: float) -> dict[str, Any]:
    # Between quantiles k and k + 1 the probability is between the levels (k - 0.5) / N and
    # (k + 0.5) / N they stand for; several equal ones widen that.
    below = np.searchsorted(values, happened - TOLERANCE, side="left")
    upto = np.searchsorted(values, happened + TOLERANCE, side="right")
    low, high = (np.clip((below - 0.5, upto + 0.5), 0.0, len(values)) / len(values)).tolist()
    shown = values[[int(level * len(values)) for level in SHOWN]]
    named = {f"q{round(100 * level):02d}": float(q) for level, q in zip(SHOWN, shown, strict=True)}
    return {
        "predicted": float(values.mean()),
        **named,
        "happened": float(happened),
        "pit_low": low,
        "pit_high": high,
    }
