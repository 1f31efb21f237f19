"""What a training consists of, and so what a checkpoint holds."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat

import numpy as np
import torch

from ucpo.config.assembly import make_grid, make_learner, make_task
from ucpo.config.options import RunConfig
from ucpo.config.price_assembly import make_schedule
from ucpo.envs.interface import Arrays, VectorTask
from ucpo.envs.registry import Task
from ucpo.errors import UsageError, say_once
from ucpo.learners.interface import Collected, Learner, Schedule
from ucpo.problem import BudgetGrid, Floats
from ucpo.runs.collection import Here, Source
from ucpo.runs.collectors import Collectors, Gathered, collected
from ucpo.runs.progress import Progress
from ucpo.stock import Start, starts
from ucpo.storage import states

log = logging.getLogger("ucpo")


@dataclass
class Training:
    """A task, what learns on it, and how far both are."""

    config: RunConfig
    task: VectorTask
    grid: BudgetGrid  # the budgets trained for
    schedule: Schedule  # which of them episodes begin with
    learner: Learner
    generator: np.random.Generator  # of the starts of episodes and of whatever is random to collect
    progress: Progress
    begun: tuple[Floats, Floats] | None = None  # what to act on; None: new episodes begin

    @classmethod
    def new(cls, task: Task, config: RunConfig) -> Training:
        """One that has not begun."""
        torch.set_num_threads(config.threads)
        torch.set_float32_matmul_precision("medium" if config.precision == "bf16" else "highest")
        if config.stock == "discounted" and config.stock_discount == 1.0:
            say_once("a stock discounted by 1 is not discounted: ucp-ds is ucp at a gamma of 1")
        made = collected(task, config) if config.collectors else make_task(task, config)
        grid = make_grid(config, made.spec)
        generator = np.random.default_rng([config.seed, 1])
        learner = make_learner(config, made.spec, grid, generator)
        if config.collectors and not isinstance(learner, Collected):
            raise UsageError(
                f"{config.method} learns from a memory of its own, which is not collected "
                "elsewhere; --collectors is for on-policy methods, such as ucp-ppo and ppo-lag"
            )
        progress = Progress(learner, grid, made.spec.cost_names, config.env_steps, config.log_every)
        schedule = make_schedule(config.schedule, grid)
        return cls(config, made, grid, schedule, learner, generator, progress)

    def starts(self) -> Iterator[Start]:
        """Of the episodes to come."""
        return starts(lambda: self.schedule.draw(self.generator), self.generator)

    def begin(self) -> tuple[Floats, Floats]:
        """What to act on: episodes under way if they are known, else new ones; asked once."""
        begun, self.begun = self.begun, None
        if begun is None:
            self.learner.cut()
            begun = self.task.reset(self.starts(), self.config.stock_discount)
        return begun

    def source(self) -> Source:
        """Where decisions are made; asked once."""
        begun = self.begin()
        if isinstance(self.task, Collectors) and isinstance(self.learner, Collected):
            return Gathered(self.task, self.learner, self.schedule, self.generator)
        return Here(self.learner, self.task, begun, self.config.holding)

    def rest(self) -> None:
        """Let go of what is only needed while it trains."""
        if isinstance(self.task, Collectors):
            self.task.close()

    def state(self) -> Arrays:
        """Everything but the rows of the learner's memory."""
        return {
            **states.within("agent", self.learner.state()),
            **states.within("generator", states.of_generator(self.generator)),
            **states.within("progress", self.progress.state()),
            **states.within("schedule", self.schedule.state()),
            **states.within("task", self.task.get_state() if self.task.can_be_saved else {}),
        }

    def restore(self, state: Arrays) -> None:
        """Go on from a saved state; the learner's memory must hold its rows already."""
        self.learner.restore(states.part(state, "agent"))
        states.set_generator(self.generator, states.part(state, "generator"), "starts")
        self.progress.restore(states.part(state, "progress"))
        self.schedule.restore(states.part(state, "schedule"))
        self._restore_task(states.part(state, "task"))

    def _restore_task(self, state: Arrays) -> None:
        if not state:
            log.info(
                "%s cannot be saved in mid-episode: new episodes begin, so the run is not the same "
                "as if it had never stopped",
                self.task.spec.name,
            )
            return
        # Something to compare shapes with, before anything is handed to the physics.
        self.task.reset(repeat(Start(0, np.zeros(len(self.task.spec.cost_names), np.float32))))
        states.fit(state, self.task.get_state(), "task", lengths=False)
        self.begun = self.task.set_state(state, self.starts())
