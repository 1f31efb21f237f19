"""Rollouts collected by Ray actors, on this machine or on many.

Each actor has its share of the environments and a copy of what acts. For every rollout it is sent
the policy as it stands and a seed, and sends back what it did. So a run is a function of its seed
and the number of collectors, wherever they are; only one that dies makes it another: it is
replaced, and its episodes are dropped.
"""

from __future__ import annotations

import dataclasses
import logging
import math
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ucpo.config.assembly import make_task
from ucpo.config.options import RunConfig
from ucpo.envs.interface import Arrays, Episodes, Ints, Outcome, Step, TaskSpec, VectorTask
from ucpo.envs.registry import Task
from ucpo.envs.threads import processors
from ucpo.errors import LostError, NotFiniteError, UsageError
from ucpo.learners.interface import Collected, Schedule
from ucpo.problem import Floats
from ucpo.runs.collection import Decision
from ucpo.stock import Start
from ucpo.storage import states

LOSSES = 10
"""Collectors lost in a row, without a rollout between them, at which a run stops."""
_ROOM = 120.0  # seconds to wait for room on the cluster

log = logging.getLogger("ucpo")

Made = tuple[Decision, Floats]
"""A decision, and what its actions were drawn as."""


class Lost:
    """The answer of a collector that is no more."""


class Collector:
    """What an actor is: a training that only collects.

    Args:
        task: To collect on.
        config: Of the whole training.
        num_envs: Its share of the environments.
    """

    def __init__(self, task: Task, config: RunConfig, num_envs: int) -> None:
        from ucpo.envs import threads
        from ucpo.runs.training import Training

        threads.limit(1)  # collectors are what works at the same time
        self._training = Training.new(
            task, dataclasses.replace(config, num_envs=num_envs, collectors=0, device="cpu")
        )
        self._now: tuple[Floats, Floats] | None = None

    def begin(self, seed: Sequence[int]) -> None:
        """Start new episodes."""
        self._seed(seed)
        self._training.begun = None
        self._now = self._training.begin()

    def state(self) -> Arrays:
        """Of the episodes under way; empty where they cannot be saved."""
        task = self._training.task
        return task.get_state() if task.can_be_saved else {}

    def restore(self, state: Arrays) -> None:
        """Go on from a saved state."""
        self._now = self._training.task.set_state(state, self._training.starts())

    def collect(
        self, acting: Arrays, schedule: Arrays, seed: Sequence[int], decisions: int
    ) -> list[Made] | str:
        """Make decisions as a policy does; or say what was not finite."""
        training, made = self._training, list[Made]()
        learner: Any = training.learner
        self._seed(seed)
        training.schedule.restore(schedule)
        own = {name: value.copy() for name, value in acting.items()}  # Ray's cannot be written to
        learner.act_as(own, int(training.generator.integers(2**31)))
        if self._now is None:
            self._now = training.begin()
        obs, stock = self._now
        try:
            for _ in range(decisions):
                actions = learner.act(obs, stock)
                step = training.task.step(actions, training.config.holding)
                made.append((Decision(obs, stock, actions, step), learner.sample))
                obs, stock = step.obs, step.stock
        except NotFiniteError as error:  # as text: what it holds need not be sent
            return str(error)
        self._now = obs, stock
        return made

    def _seed(self, seed: Sequence[int]) -> None:
        """Whatever is random from here on is a function of the seed."""
        state = np.random.default_rng(list(seed)).bit_generator.state
        self._training.generator.bit_generator.state = state


class Collectors(VectorTask):
    """The environments of a run, shared among actors.

    Args:
        task: To collect on.
        config: Of the training.
        spec: Of the task.
    """

    def __init__(self, task: Task, config: RunConfig, spec: TaskSpec) -> None:
        super().__init__(spec, config.num_envs)
        self._task, self.config = task, config
        self._rows = np.array_split(np.arange(config.num_envs), config.collectors)
        self._dropped: set[int] = set()  # collectors whose episodes the learner has to forget
        self._lost = 0
        self._team: list[Any] = []  # none before the first episodes begin

    def reset(self, starts: Iterator[Start], stock_discount: float = 1.0) -> tuple[Floats, Floats]:
        """Begin episodes everywhere; starts are drawn by those who begin them."""
        if not self._team:
            self._recruit()
        self._ask("begin", [([self.config.seed, 2, k],) for k in range(len(self._team))])
        return np.zeros((0, 0), np.float32), np.zeros((0, 0), np.float32)

    @property
    def can_be_saved(self) -> bool:
        """Whether episodes under way can be saved."""
        return True

    def get_state(self) -> Arrays:
        """Of all collectors; those whose tasks cannot be saved say nothing."""
        found = self._ask("state", [()] * len(self._team))
        return {
            f"{k}/{name}": value for k, state in enumerate(found) for name, value in state.items()
        }

    def set_state(self, state: Arrays, starts: Iterator[Start]) -> tuple[Floats, Floats]:
        """Go on from a saved state."""
        mine = [states.part(state, str(k)) for k in range(len(self._team))]
        self._ask("restore", [(part,) for part in mine])
        return np.zeros((0, 0), np.float32), np.zeros((0, 0), np.float32)

    def collect(
        self, learner: Collected, schedule: Schedule, seed: int, decisions: int
    ) -> list[Made]:
        """Have every collector make so many decisions, as the learner would."""
        what = (self._ray.put(learner.acting()), schedule.state())
        asked = [self._collect(k, what, [seed, k], decisions) for k in range(len(self._team))]
        made: list[list[Made]] = []
        for k, answer in enumerate(asked):
            found = self._answer(answer)
            while isinstance(found, Lost):
                self._replace(k)
                found = self._answer(self._collect(k, what, [seed, k, self._lost], decisions))
            if isinstance(found, str):
                raise NotFiniteError(f"in collector {k}: {found}")
            made.append(found)
        for k in self._dropped:  # what they did before has no continuation
            learner.forget(self._rows[k])
        self._dropped.clear()
        self._lost = 0
        return [_together(parts, self._rows) for parts in zip(*made, strict=True)]

    def begin(self, rows: Ints, seeds: Sequence[int]) -> Floats:
        """Not here."""
        raise UsageError(f"the environments of this run are elsewhere; {_REMEDY}")

    def advance(self, actions: Floats) -> Outcome:
        """Not here."""
        raise UsageError(f"the environments of this run are elsewhere; {_REMEDY}")

    def close(self) -> None:
        """End the actors; others take their place when episodes next begin."""
        for actor in self._team:
            self._ray.kill(actor)
        self._team = []

    def _recruit(self) -> None:
        from ucpo.runs.sweep.on_ray import connect

        self._ray = connect(workers=max(self.config.collectors, processors()))
        self._actor: Any = self._ray.remote(num_cpus=1, max_restarts=0)(Collector)
        self._team = [self._start(rows) for rows in self._rows]
        self._wait_for_room()

    def _start(self, rows: Ints) -> Any:
        return self._actor.remote(self._task, self.config, len(rows))

    def _collect(self, k: int, what: Any, seed: Sequence[int], decisions: int) -> Any:
        return self._team[k].collect.remote(*what, seed, decisions)

    def _answer(self, asked: Any) -> Any:
        """What a collector says, or that it is lost."""
        try:
            return self._ray.get(asked)
        except self._ray.exceptions.RayActorError:
            return Lost()
        except self._ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, UsageError):
                raise error.cause from None
            raise

    def _replace(self, k: int) -> None:
        self._lost += 1
        if self._lost >= LOSSES:
            raise LostError(f"{LOSSES} collectors were lost in a row; the last checkpoint is whole")
        log.warning("collector %d was lost; it is replaced, and its episodes are dropped", k)
        self._team[k] = self._start(self._rows[k])
        self._dropped.add(k)

    def _ask(self, method: str, arguments: Sequence[Any]) -> list[Any]:
        """Ask every collector the same; one that is lost is replaced and asked again."""
        asked = [
            getattr(actor, method).remote(*given)
            for actor, given in zip(self._team, arguments, strict=True)
        ]
        answers = [self._answer(one) for one in asked]
        for k, answer in enumerate(answers):
            while isinstance(answer, Lost):
                self._replace(k)
                self._answer(self._team[k].begin.remote([self.config.seed, 2, k, self._lost]))
                answer = self._answer(getattr(self._team[k], method).remote(*arguments[k]))
            answers[k] = answer
        return answers

    def _wait_for_room(self) -> None:
        """Until all are there, or the cluster has no room for them."""
        ready = [actor.__ray_ready__.remote() for actor in self._team]
        try:
            self._ray.get(ready, timeout=_ROOM)
        except self._ray.exceptions.GetTimeoutError:
            raise UsageError(
                f"the Ray cluster has no room for {len(self._team)} collectors, which need a core "
                "each; ask for fewer with --collectors"
            ) from None
        except self._ray.exceptions.RayActorError as error:
            raise UsageError(f"collectors cannot begin: {str(error).splitlines()[0]}") from None


_REMEDY = "evaluate its policy instead: ucpo evaluate RUN, or load(RUN)"


class Gathered:
    """Decisions of collectors, one rollout at a time.

    Args:
        task: The collectors.
        learner: What they act as.
        schedule: Which budgets their episodes begin with.
        generator: Of the seeds they are sent.
    """

    def __init__(
        self,
        task: Collectors,
        learner: Collected,
        schedule: Schedule,
        generator: np.random.Generator,
    ) -> None:
        self._task, self._learner, self._schedule = task, learner, schedule
        self._generator = generator
        self._made: deque[Made] = deque()

    @property
    def settled(self) -> bool:
        """Whether collectors are where the learner is."""
        return not self._made

    def decide(self, left: int) -> Decision:
        """The next decision; a new rollout is collected where there is none."""
        if not self._made:
            config = self._task.config
            needed = math.ceil(left / (config.num_envs * config.hold))
            seed = int(self._generator.integers(2**31))
            rows = min(self._learner.room, needed)
            self._made.extend(self._task.collect(self._learner, self._schedule, seed, rows))
        decision, self._learner.sample = self._made.popleft()
        return decision


def collected(task: Task, config: RunConfig) -> Collectors:
    """The environments of a configuration, with collectors."""
    alone = make_task(task, dataclasses.replace(config, num_envs=1, collectors=0))
    try:
        return Collectors(task, config, alone.spec)
    finally:
        alone.close()


def _together(parts: Sequence[Made], rows: Sequence[Ints]) -> Made:
    """Decisions of several shares of the environments as one."""
    decisions, samples = [one for one, _ in parts], [sample for _, sample in parts]
    steps = [one.step for one in decisions]
    arrays = {
        field.name: np.concatenate([getattr(step, field.name) for step in steps])
        for field in dataclasses.fields(Step)
        if field.name not in ("episodes", "lost")
    }
    episodes = {
        field.name: np.concatenate([getattr(step.episodes, field.name) for step in steps])
        for field in dataclasses.fields(Episodes)
        if field.name != "rows"
    }
    where = [mine[step.episodes.rows] for mine, step in zip(rows, steps, strict=True)]
    lost = [np.zeros(len(s.reward), np.bool_) if s.lost is None else s.lost for s in steps]
    step = Step(
        **arrays,
        episodes=Episodes(**episodes, rows=np.concatenate(where)),
        lost=np.concatenate(lost) if any(s.lost is not None for s in steps) else None,
    )
    obs, stock, actions = (
        np.concatenate([getattr(one, name) for one in decisions])
        for name in ("obs", "stock", "actions")
    )
    return Decision(obs, stock, actions, step), np.concatenate(samples)
