"""The navigation tasks as a batch of environments behind the one interface agents see."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from ucpo.envs import limits
from ucpo.envs.interface import Arrays, Bools, Ints, Outcome, TaskSpec, VectorTask
from ucpo.envs.navigation import costs, layout, sensors, tasks
from ucpo.envs.navigation.aims import AIMS
from ucpo.envs.navigation.world import World
from ucpo.errors import UsageError, nearest
from ucpo.problem import Floats

SPEED_LIMIT = 0.5
"""In m/s; the robots reach 0.8 (Car) and more (Point)."""


class NavigationTask(VectorTask):
    """A robot among objects, rewarded for its aim and charged for what it should not touch.

    Args:
        num_envs: Environments in the batch.
        name: For example ``SafetyPointGoal1-v0``.
        cost_names: Costs to report, one column each: ``cost`` is the total, the others are
            named after the objects, e.g. ``("hazards", "vases")``. ``speed`` is 1 if the robot
            is faster than `speed_limit`, ``control`` if the mean squared action is above
            `control_limit`; ``speed_excess`` (m/s) and ``control_excess`` are by how much.
        counts: See `ucpo.envs.navigation.tasks.arena`, like the three that follow.
        constrained: Kinds whose costs make up the total.
        extent: Half-width of the square objects are placed in.
        max_episode_steps: Environment steps after which an episode is truncated.
        speed_limit: Of ``speed`` and ``speed_excess``, in m/s.
        control_limit: Of ``control`` and ``control_excess``, between 0 and 1.
        sleep: Whether objects at rest leave the computation until something touches them; by
            default where objects rest, that is everywhere but among gremlins.
        threads: Threads the physics may use; by default what pays, see
            `ucpo.envs.threads.Shares`.
    """

    def __init__(
        self,
        num_envs: int,
        name: str = "SafetyPointGoal1-v0",
        cost_names: Sequence[str] = ("cost",),
        counts: Mapping[str, int] | None = None,
        constrained: Collection[str] | None = None,
        extent: float | None = None,
        max_episode_steps: int | None = None,
        speed_limit: float = SPEED_LIMIT,
        control_limit: float = limits.CONTROL_LIMIT,
        sleep: bool | None = None,
        threads: int | None = None,
    ) -> None:
        self.arena = tasks.arena(name, counts, constrained, extent, max_episode_steps)
        known = [*self.arena.cost_names, *limits.NAMES]
        for cost in cost_names:
            if cost not in known:
                raise UsageError(f"{name} has no cost {cost!r}; {nearest(cost, known)}")
        self.limits = limits.Limits(speed_limit, control_limit)
        super().__init__(
            TaskSpec(
                name=name,
                observation_size=self.arena.observation_size,
                action_low=(-1.0, -1.0),
                action_high=(1.0, 1.0),
                cost_names=tuple(cost_names),
                max_episode_steps=self.arena.max_episode_steps,
            ),
            num_envs,
        )
        if sleep is None:
            sleep = self.arena.of("gremlins").count == 0
        self.world = World(self.arena, num_envs, sleep, threads)
        self.rules = layout.Rules.of(self.arena)
        self.aim = AIMS[self.arena.aim](num_envs, self.rules)
        self.idling = layout.Idling()
        self.streams = [layout.Stream(0, self.idling) for _ in range(num_envs)]
        self.observation = self.world.observation
        """Of every environment, in double precision."""
        self.charged: dict[str, Bools] = {}
        """Every cost of the last step by kind of object, and the total."""
        self.reached = np.zeros(num_envs, np.bool_)
        """Whether the last step reached a goal."""
        self._actions: Floats = np.zeros((num_envs, 2))

    def begin(self, rows: Ints, seeds: Sequence[int]) -> Floats:
        """Start episodes whose layouts are those of the original for these seeds."""
        for row, seed in zip(rows, seeds, strict=True):
            self.streams[row].seed(seed)
            self.begin_row(int(row))
        self._hide()
        return self.observation[rows].astype(np.float32)

    def begin_row(self, row: int) -> None:
        """Start an episode with the random numbers that come next."""
        self.world.place(row, layout.draw(self.rules, self.streams[row]))
        self.lengths[row] = 0
        if not self.aim.renew(self.world, row, self.streams[row], fresh=True):
            raise UsageError(f"no room for a goal in {self.spec.name}; choose fewer objects")

    def advance(self, actions: Floats) -> Outcome:
        """Make one step everywhere.

        If the physics fails, the episode terminates there: the step pays and costs nothing, and the
        observation stays what it was.
        """
        self._actions = np.minimum(np.maximum(actions, -1.0), 1.0)
        self.world.step(self._actions, self.awake)
        return self.judge()

    def judge(self) -> Outcome:
        """What the step that led here is worth; sets new goals where one was reached."""
        reward, self.reached = self.aim.reward(self.world)
        self.charged = costs.indicators(self.world, self.aim)
        self.aim.tick()
        charges = np.empty((self.num_envs, len(self.spec.cost_names)))
        for column, name in enumerate(self.spec.cost_names):
            limited = name in limits.NAMES
            charges[:, column] = self.limits.charge(name, self) if limited else self.charged[name]
        terminated = self.world.broken.copy()
        if terminated.any():
            reward[terminated] = charges[terminated] = 0.0
            for charged in self.charged.values():
                charged[terminated] = False
        self.idling.steps += 1
        if self.reached.any():
            for row in np.flatnonzero(self.reached & ~terminated).tolist():
                room = self.aim.renew(self.world, row, self.streams[row], fresh=False)
                terminated[row] = not room
        self._hide()
        return Outcome(
            successor=self.observation.astype(np.float32),
            reward=reward,
            costs=charges,
            terminated=terminated,
            truncated=~terminated & (self.lengths + 1 >= self.arena.max_episode_steps),
        )

    def speed(self) -> Floats:
        """Of the robots' origins, in m/s, (n,)."""
        velocimeter = self.world.sensors[:, 3:6]
        speed: Floats = np.sqrt(np.square(velocimeter).sum(-1))
        return speed

    def effort(self) -> Floats:
        """Mean squared action of the last step, (n,)."""
        effort: Floats = np.square(self._actions).mean(-1)
        return effort

    def observe(self) -> Floats:
        """Observations of all environments as they stand, float64 of shape (n, obs)."""
        self.world.look(np.arange(self.num_envs))
        self._hide()
        return self.observation

    def _hide(self) -> None:
        """Buttons, while the timer is running."""
        if self.arena.aim == "Button":
            own = self.arena.robot.sensor_size
            self.observation[self.aim.timer != 0, own : own + sensors.BINS] = 0.0

    def positions(self) -> Floats:
        """Where each robot is, (n, 2) in metres."""
        return self.world.position[:, :2].copy()

    def close(self) -> None:
        """End the threads."""
        self.world.close()

    def row_state(self, row: int) -> Arrays:
        """What an episode needs to go on, except stock and sums, which the base class keeps."""
        return {
            **self.world.get_state(row),
            **self.streams[row].get_state(),
            "memory": self.aim.memory[row].copy(),
            "button": np.array(self.aim.button[row]),
            "timer": np.array(self.aim.timer[row]),
            "observation": self.observation[row].copy(),
        }

    def set_row_state(self, row: int, state: Arrays) -> None:
        """Go on from what `row_state` returned."""
        self.world.set_state(row, state)
        self.streams[row].set_state(state)
        self.aim.memory[row] = state["memory"]
        self.aim.button[row] = state["button"]
        self.aim.timer[row] = state["timer"]
        self.observation[row] = state["observation"]
