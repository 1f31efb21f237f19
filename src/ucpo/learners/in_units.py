"""Learning of costs in units of their own, so that settings suit costs of any scale."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import TypeVar

import numpy as np
import torch

from ucpo.envs.interface import Arrays, Episodes, Step
from ucpo.learners.interface import Learner, Memory, Metrics, Timed
from ucpo.learners.networks import Body, Critics
from ucpo.policies.policy import Policy
from ucpo.problem import BudgetGrid, Floats

Kind = TypeVar("Kind", Step, Episodes)


class InUnits:
    """A learner that sees every cost in a unit of its own.

    Stocks and costs are divided by the units on their way in, prices and policies are for plain
    costs on their way out. In between nothing knows of it: first prices, limits, rates, tolerances
    and units of critics suit a cost of thousandths and one of millions alike. What it says of
    predicted costs in its metrics is in units too.

    Args:
        learner: What learns, over a grid in these units.
        units: Cost units that count as one, (C,).
        grid: The budgets in plain cost units.
    """

    def __init__(self, learner: Learner, units: Sequence[float], grid: BudgetGrid) -> None:
        self.learner, self._grid = learner, grid
        self._units = np.array(units, np.float32)
        self.metrics = learner.metrics

    @property
    def env_steps(self) -> int:
        """Environment steps remembered so far."""
        return self.learner.env_steps

    @property
    def updates(self) -> int:
        """Gradient updates made so far."""
        return self.learner.updates

    @property
    def memory(self) -> Memory | None:
        """The learner's, in units."""
        return self.learner.memory

    def act(self, obs: Floats, stock: Floats) -> Floats:
        """Actions to collect with, (n, action)."""
        return self.learner.act(obs, stock / self._units)

    def remember(self, obs: Floats, stock: Floats, actions: Floats, step: Step) -> None:
        """Take in what acting brought."""
        names = ("stock", "successor_stock", "initial_stock", "costs")
        self.learner.remember(obs, stock / self._units, actions, self._divided(step, names))

    def observe(self, episodes: Episodes) -> None:
        """Learn of finished episodes."""
        self.learner.observe(self._divided(episodes, ("initial_stock", "costs")))

    def _divided(self, record: Kind, names: Sequence[str]) -> Kind:
        return replace(record, **{name: getattr(record, name) / self._units for name in names})

    def last_until(self, env_steps: int) -> None:
        """The training now ends after this many environment steps."""
        if isinstance(self.learner, Timed):
            self.learner.last_until(env_steps)

    def improve(self) -> Iterator[Metrics]:
        """Make the updates that are due now."""
        return self.learner.improve()

    def prices(self) -> list[Floats]:
        """For each cost the prices of its budgets, per plain cost unit, largest budget first."""
        tables = zip(self.learner.prices(), self._units, strict=True)
        return [table / unit for table, unit in tables]

    def policy(self) -> Policy:
        """What has been learned so far, for stocks as they are."""
        found = self.learner.policy()
        actor, critics = deepcopy(found.actor), deepcopy(found.critics)
        self._measure(actor.body)
        if critics is not None:
            self._measure(critics.body)
            critics.units[Critics.REWARD :] *= torch.from_numpy(self._units)
        body, grid = actor.body, self._grid
        info = replace(
            found.info,
            budget_low=grid.low,
            budget_high=grid.high,
            stock_scale=body.stock_scale,
            stock_ceiling=body.stock_ceiling,
        )
        return Policy(actor, info, critics, network=found.network)

    def _measure(self, body: Body) -> None:
        """Let a network of stocks in units be one of plain stocks."""
        scales = np.broadcast_to(np.asarray(body.stock_scale, float), self._units.shape)
        plain = tuple((scales * self._units.astype(float)).tolist())
        body.stock_scale = plain[0] if len(set(plain)) == 1 else plain
        body.set_scales()
        if body.stock_ceiling:
            raise NotImplementedError("a ceiling other than 0 would be one for each cost")

    def cut(self) -> None:
        """The episodes under way are lost."""
        self.learner.cut()

    def recent_actions(self, row: int, env_steps: int) -> Floats:
        """What an environment was last made to do, (k, action)."""
        return self.learner.recent_actions(row, env_steps)

    def state(self) -> Arrays:
        """That of the learner."""
        return self.learner.state()

    def restore(self, state: Arrays) -> None:
        """Go on from the state of a learner of the same configuration."""
        self.learner.restore(state)
