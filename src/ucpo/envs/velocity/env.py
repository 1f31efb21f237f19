"""The velocity tasks as a batch of environments behind the one interface agents see."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ucpo.envs import limits
from ucpo.envs.interface import Arrays, Ints, Outcome, TaskSpec, VectorTask
from ucpo.envs.velocity.runners import MAX_EPISODE_STEPS, RUNNERS
from ucpo.envs.velocity.world import World, build
from ucpo.errors import UsageError, nearest
from ucpo.problem import Floats

COST_NAMES = ("cost", *limits.NAMES)


class VelocityTask(VectorTask):
    """A robot rewarded for running forward and charged for running too fast."""

    def __init__(
        self,
        num_envs: int,
        name: str = "SafetyHopperVelocity-v1",
        cost_names: Sequence[str] = ("cost",),
        speed_limit: float | None = None,
        control_limit: float = limits.CONTROL_LIMIT,
        max_episode_steps: int = MAX_EPISODE_STEPS,
        threads: int | None = None,
    ) -> None:
        """Build the task.

        Args:
            num_envs: Environments in the batch.
            name: For example ``SafetyHopperVelocity-v1``.
            cost_names: Costs to report, one column each. ``cost`` is that of the original: 1 if the
                step was faster than its limit. ``speed`` is the same for `speed_limit`, ``control``
                is 1 if the mean squared control, as a share of its range, was above
                `control_limit`; ``speed_excess`` (m/s) and ``control_excess`` are by how much.
            speed_limit: Of ``speed`` and ``speed_excess``, in m/s; by default the original's.
            control_limit: Of ``control`` and ``control_excess``, between 0 and 1.
            max_episode_steps: Environment steps after which an episode is truncated.
            threads: Threads the physics may use; by default what pays, see
                `ucpo.envs.threads.Shares`.
        """
        if name not in RUNNERS:
            raise UsageError(f"no velocity task {name!r}; {nearest(name, list(RUNNERS))}")
        for cost in cost_names:
            if cost not in COST_NAMES:
                raise UsageError(f"{name} has no cost {cost!r}; {nearest(cost, list(COST_NAMES))}")
        self.runner = RUNNERS[name]
        self.limits = limits.Limits(
            self.runner.speed_limit if speed_limit is None else speed_limit, control_limit
        )
        model = build(self.runner)
        low, high = model.actuator_ctrlrange.T
        super().__init__(
            TaskSpec(
                name=name,
                observation_size=self.runner.observation_size,
                action_low=tuple(low.tolist()),
                action_high=tuple(high.tolist()),
                cost_names=tuple(cost_names),
                max_episode_steps=max_episode_steps,
            ),
            num_envs,
        )
        self.world = World(self.runner, model, num_envs, threads)
        self.observation: Floats = np.zeros((num_envs, self.runner.observation_size))
        """Of every environment, in double precision."""
        self.velocity: Floats = np.zeros((num_envs, 2))
        """Along x and y over the last step, in m/s."""
        self._range = high  # symmetric in all six
        self._controls: Floats = np.zeros((num_envs, len(high)))

    def begin(self, rows: Ints, seeds: Sequence[int]) -> Floats:
        """Start episodes with the noise the original draws for these seeds."""
        for row, seed in zip(rows, seeds, strict=True):
            self.begin_row(int(row), np.random.default_rng(seed))
        return self.observation[rows].astype(np.float32)

    def begin_row(self, row: int, generator: np.random.Generator) -> None:
        """Start an episode with the random numbers that come next."""
        model, noise = self.world.model, self.runner.noise
        qpos = model.qpos0 + generator.uniform(-noise, noise, model.nq)
        if self.runner.normal:
            qvel = noise * generator.standard_normal(model.nv)
        else:
            qvel = generator.uniform(-noise, noise, model.nv)
        self.world.place(row, qpos, qvel)
        self.lengths[row] = 0
        self.observation[row] = self._observe(row)

    def advance(self, actions: Floats) -> Outcome:
        """Make one step everywhere. Actions beyond [-1, 1] do no more and are paid in full.

        If the physics fails, the episode terminates there: the step pays and costs nothing, and the
        observation stays what it was.
        """
        return self.drive(actions * self._range)

    def drive(self, controls: Floats) -> Outcome:
        """The same with controls in their own units."""
        self.world.step(controls, self.awake)
        return self.judge(controls)

    def judge(self, controls: Floats) -> Outcome:
        """What the step that led here is worth."""
        runner, world = self.runner, self.world
        self.velocity = (world.position - world.before) / world.seconds
        self._controls = np.array(controls, np.float64)
        broken, observed = world.broken, self._observe(slice(None))
        if broken.any():  # where it is now says nothing about the step
            self.velocity[broken] = 0.0
            self._controls[broken] = 0.0
            observed[broken] = self.observation[broken]
        self.observation = observed
        reward = runner.forward_weight * self.velocity[:, 0] + runner.alive
        reward -= runner.control_weight * np.square(self._controls).sum(-1)
        costs = np.empty((self.num_envs, len(self.spec.cost_names)))
        for column, name in enumerate(self.spec.cost_names):
            costs[:, column] = self.charge(name)
        terminated = ~runner.healthy(world.qpos, world.qvel) | broken
        if terminated.any():
            reward[broken] = 0.0
        return Outcome(
            successor=observed.astype(np.float32),
            reward=reward,
            costs=costs,
            terminated=terminated,
            truncated=~terminated & (self.lengths + 1 >= (self.spec.max_episode_steps or np.inf)),
        )

    def charge(self, name: str) -> Floats:
        """A cost of the last step by name, chosen or not, (n,)."""
        if name == "cost":
            return (self.speed() > self.runner.speed_limit).astype(np.float64)
        return self.limits.charge(name, self)

    def speed(self) -> Floats:
        """Over the last step, in m/s, in the directions that count, (n,)."""
        x, y = self.velocity.T
        speed: Floats = np.sqrt(x * x + y * y) if self.runner.planar else x
        return speed

    def effort(self) -> Floats:
        """Mean squared control of the last step as a share of what is possible, (n,)."""
        shares = self._controls.clip(-self._range, self._range) / self._range
        effort: Floats = np.square(shares).mean(-1)
        return effort

    def close(self) -> None:
        """End the threads."""
        self.world.close()

    def row_state(self, row: int) -> Arrays:
        """What an episode needs to go on, except stock and sums, which the base class keeps."""
        return self.world.get_state(row) | {
            "observation": self.observation[row].copy(),
        }

    def set_row_state(self, row: int, state: Arrays) -> None:
        """Go on from what `row_state` returned."""
        self.world.set_state(row, state)
        self.observation[row] = state["observation"]

    def _observe(self, rows: int | slice) -> Floats:
        world, clip = self.world, self.runner.velocity_clip
        qvel = world.qvel[rows] if clip is None else np.clip(world.qvel[rows], -clip, clip)
        parts = (world.qpos[rows, ..., self.runner.hidden :], qvel, world.forces[rows])
        return np.concatenate(parts, axis=-1)
