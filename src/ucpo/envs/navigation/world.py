"""A batch of arenas in motion: a shared model, a MuJoCo state per environment, results in arrays.

What comes out of the physics is copied into arrays over the whole batch, from which sensors,
rewards and costs are computed at once.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable

import mujoco
import numpy as np

from ucpo.envs import native
from ucpo.envs.interface import Arrays, Bools, Ints
from ucpo.envs.native import NOTHING, ROBOT
from ucpo.envs.navigation import model as models
from ucpo.envs.navigation.layout import Layout
from ucpo.envs.navigation.sensors import MEASURES, READ, WRITTEN, Scene
from ucpo.envs.navigation.tasks import DRAGGED, FIXED, FREE, Arena
from ucpo.envs.physics import Call, Rows, physics
from ucpo.envs.threads import Shares
from ucpo.errors import UsageError
from ucpo.problem import Floats

SUBSTEPS = 10
"""Physics steps per environment step."""
GREMLIN_PATH = 0.35
"""Radius of the circles gremlins move on."""
_STATE = mujoco.mjtState.mjSTATE_INTEGRATION
_SLEEP = (  # who sleeps is no part of MuJoCo's own notion of a state
    *("tree_asleep", "tree_awake", "body_awake", "body_awake_ind", "parent_awake_ind"),
    *("dof_awake_ind", "ntree_awake", "nbody_awake", "nparent_awake", "nv_awake"),
)
_GREMLIN_LIFT = 0.1  # their guides rise by this much in the first step, so gremlins float


class World:
    """State of `count` arenas. Arrays are overwritten by every step; rows are environments."""

    def __init__(self, arena: Arena, count: int, sleep: bool, threads: int | None = None) -> None:
        self.arena = arena
        self.model = models.build(arena, sleep)
        self.data = [mujoco.MjData(self.model) for _ in range(count)]
        self.seconds = SUBSTEPS * self.model.opt.timestep  # per environment step
        total = sum(objects.count for objects in arena.objects)
        self.spans: dict[str, slice] = {}
        first = 0
        for objects in arena.objects:
            self.spans[objects.kind] = slice(first, first + objects.count)
            first += objects.count

        self.position = np.zeros((count, 3))  # of the robot's origin
        self.rotation = np.zeros((count, 9))  # row-major, robot to world
        self.sensors = np.zeros((count, self.model.nsensordata))
        self.qpos = np.zeros((count, self.model.nq))
        self.qvel = np.zeros((count, self.model.nv))
        self.objects = np.zeros((count, total, 2))  # x, y
        self.touching = np.zeros((count, total), np.bool_)  # whether the robot touches an object
        self.time = np.zeros(count)  # seconds since the episode began
        self.broken = np.zeros(count, np.bool_)  # whether the physics failed in the last step
        self.observation = np.zeros((count, arena.observation_size))
        """What robots sense of themselves and of objects; as it was where the physics failed."""
        self.measures = np.zeros((count, MEASURES))
        """What rewards and costs are made of, see `ucpo.envs.navigation.sensors`."""

        self._agent = self.model.body("agent").id
        movers = [kind for kind in FREE + DRAGGED if arena.of(kind).count]
        assert len(movers) <= 1, "poses of what moves are read from the end of qpos"
        self.mover = movers[0] if movers else None  # the kind that moves
        self._guides = self.model.nmocap - arena.of("gremlins").count  # where theirs begin
        self._homes = np.zeros((count, arena.of("gremlins").count, 3))
        guided = (SUBSTEPS, arena.of("gremlins").count) if self.mover == "gremlins" else (0, 0)
        self._paths = np.zeros((count, *guided, 3))
        self._scene = self._make_scene()
        self._blind = copy.copy(self.model)
        self._blind.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_SENSOR)
        self._physics = physics(self._rows(), self._calls())
        self._shares = Shares(self._physics.step, count, threads)

    def _rows(self) -> Rows:
        copies = [
            (
                (self.qpos[row], data.qpos),
                (self.qvel[row], data.qvel),
                (self.sensors[row], data.sensordata),
                (self.position[row], data.xpos[self._agent]),
                (self.rotation[row], data.xmat[self._agent]),
            )
            for row, data in enumerate(self.data)
        ]
        return Rows(
            self.data,
            copies,
            time=self.time,
            touching=self.touching,
            owner=self._owners_of_geoms(),
            paths=self._paths,
            then=self._scene.look,
        )

    def _make_scene(self) -> Scene:
        arrays = {name: getattr(self, name) for name in (*READ, *WRITTEN)}
        observed = [each.kind for each in self.arena.objects if each.observed]
        return Scene(arrays, self.spans, self.mover, observed, self.arena.reach)

    def _calls(self) -> list[Call]:
        """What a step is made of. Only where it ends do sensors matter; they move nothing."""
        last = Call("mj_forward", self.model)
        if self.mover == "gremlins":  # their guides move before each
            return [Call("mj_step", self._blind)] * SUBSTEPS + [last]
        # Positions and velocities were evaluated at the end of the step before.
        return [Call("mj_step2", self._blind), Call("mj_step", self._blind, SUBSTEPS - 1), last]

    def place(self, row: int, layout: Layout) -> None:
        """Begin anew in one environment."""
        data = self.data[row]
        mujoco.mj_resetData(self.model, data)
        x, y = layout.robot.tolist()
        self.arena.robot.place(data, x, y, layout.robot_yaw)
        self.objects[row] = layout.objects
        for objects in self.arena.objects:
            span = self.spans[objects.kind]
            if objects.locations:  # drawn with a jitter that nothing is to see
                self.objects[row, span] = objects.locations
            if objects.count and objects.kind in FIXED + FREE + DRAGGED:
                poses = np.zeros((objects.count, 7))
                poses[:, :2] = layout.objects[span]
                poses[:, 2] = models.HEIGHTS.get(objects.kind, objects.size)
                poses[:, 3], poses[:, 6] = (
                    np.cos(layout.yaws[span] / 2),
                    np.sin(layout.yaws[span] / 2),
                )
                self._put(row, objects.kind, poses)
        self.refresh([row])

    def _put(self, row: int, kind: str, poses: Floats) -> None:
        data = self.data[row]
        if kind in FREE + DRAGGED:
            data.qpos[-7 * len(poses) :] = poses.ravel()
        if kind in FIXED + DRAGGED:
            last = self._guides if kind in FIXED else self.model.nmocap
            data.mocap_pos[last - len(poses) : last] = poses[:, :3]
            data.mocap_quat[last - len(poses) : last] = poses[:, 3:]
        if kind in DRAGGED:
            self._homes[row] = poses[:, :3]

    def step(self, actions: Floats, awake: Bools) -> None:
        """Make one environment step in the rows `awake` (n,), with actions in [-1, 1], (n, 2)."""
        if self.mover == "gremlins":
            self._paths[:] = self._gremlin_paths()
        self._physics.prepare(awake, actions)
        self._shares.each()

    def refresh(self, rows: Iterable[int]) -> None:
        """Recompute everything that follows from the states of some rows."""
        which = np.array(list(rows))
        for row in which:
            mujoco.mj_forward(self.model, self.data[row])
        self._physics.read(which)

    def look(self, rows: Ints) -> None:
        """Observe and measure anew in some rows (k,), where objects were moved."""
        native.work_on(rows, self._scene.look)

    def get_state(self, row: int) -> Arrays:
        """What `set_state` needs to go on from here."""
        data = self.data[row]
        physics = np.empty(mujoco.mj_stateSize(self.model, _STATE))
        mujoco.mj_getState(self.model, data, physics, _STATE)
        return {
            "physics": physics,
            **{name: np.array(getattr(data, name)) for name in _SLEEP},
            "objects": self.objects[row].copy(),
            "homes": self._homes[row].copy(),
        }

    def set_state(self, row: int, state: Arrays) -> None:
        """Go on from a saved state."""
        self._refuse_impossible_sleep(state)
        data = self.data[row]
        mujoco.mj_resetData(self.model, data)
        mujoco.mj_setState(self.model, data, state["physics"], _STATE)
        mujoco.mj_forward(self.model, data)  # with all awake: sleepers keep their last poses
        for name in _SLEEP:
            setattr(data, name, state[name])
        self.objects[row] = state["objects"]
        self._homes[row] = state["homes"]
        self.refresh([row])

    def _refuse_impossible_sleep(self, state: Arrays) -> None:
        """MuJoCo takes these numbers for places in its memory, and does not check them."""
        model = self.model
        trees, bodies, dofs = model.ntree, model.nbody, model.nv
        for name, count, size in (
            ("tree_asleep", trees, trees),
            ("tree_awake", trees, 2),
            ("body_awake", bodies, 3),
            ("body_awake_ind", int(state["nbody_awake"]), bodies),
            ("parent_awake_ind", int(state["nparent_awake"]), bodies),
            ("dof_awake_ind", int(state["nv_awake"]), dofs),
        ):
            used = state[name][:count]
            low = 0 if name.endswith("ind") else -bodies - 100  # below 0 they count down to sleep
            if len(used) != count or not ((used >= low) & (used < size)).all():
                raise UsageError(f"the saved state of the physics has an impossible {name}")
        if not 0 <= int(state["ntree_awake"]) <= trees:
            raise UsageError("the saved state of the physics has an impossible ntree_awake")

    def close(self) -> None:
        """End the threads."""
        self._shares.close()

    def _gremlin_paths(self) -> Floats:
        """Where their guides are in each physics step, shape (n, substeps, gremlins, 3)."""
        turn = self.time[:, None] + self.model.opt.timestep * np.arange(SUBSTEPS)
        lift = np.full_like(turn, _GREMLIN_LIFT)
        offsets = np.stack([GREMLIN_PATH * np.sin(turn), GREMLIN_PATH * np.cos(turn), lift], -1)
        paths: Floats = self._homes[:, None] + offsets[:, :, None]
        return paths

    def _owners_of_geoms(self) -> Ints:
        """Which object a geom belongs to, or whether to the robot or the floor."""
        owner = np.full(self.model.ngeom, NOTHING)
        for name in self.arena.robot.geoms:
            owner[self.model.geom(name).id] = ROBOT
        for kind, geoms in models.object_geoms(self.model, self.arena).items():
            for index, ids in enumerate(geoms):
                owner[ids] = self.spans[kind].start + index
        return owner
