"""A batch of robots in motion: one model, a MuJoCo state per environment, results in arrays."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import gymnasium
import mujoco
import numpy as np

from ucpo.envs.interface import Arrays, Bools, Ints
from ucpo.envs.native import NOTHING
from ucpo.envs.physics import Call, Rows, physics
from ucpo.envs.threads import Shares
from ucpo.envs.velocity.runners import Runner
from ucpo.problem import Floats

FORCES = ("cinert", "cvel", "qfrc_actuator", "cfrc_ext")
"""What Humanoid observes of MuJoCo beside positions and velocities."""
_STATE = mujoco.mjtState.mjSTATE_INTEGRATION


class World:
    """State of `count` robots. Arrays are overwritten by every step; rows are environments.

    Positions of bodies are read as MuJoCo leaves them after a step, without another forward pass:
    those of its last evaluation, slightly behind `qpos`. The original does so too.
    """

    def __init__(
        self, runner: Runner, model: mujoco.MjModel, count: int, threads: int | None = None
    ) -> None:
        self.runner = runner
        self.model = model
        self.data = [mujoco.MjData(self.model) for _ in range(count)]
        self.seconds = runner.frame_skip * self.model.opt.timestep  # per environment step
        self.qpos = np.zeros((count, self.model.nq))
        self.qvel = np.zeros((count, self.model.nv))
        self.position = np.zeros((count, 2))  # x, y of what speed is measured of
        self.before = np.zeros((count, 2))  # the same at the beginning of the step
        self.broken = np.zeros(count, np.bool_)  # whether the physics failed in the last step
        self.time = np.zeros(count)  # seconds since the episode began

        self._mass = self.model.body_mass / self.model.body_mass.sum()
        self._places = np.zeros((count, self.model.nbody, 3))  # of the bodies' centres of mass
        names = FORCES if runner.sees_forces else ()
        self._sizes = {name: getattr(self.data[0], name).size for name in names}
        self.forces = np.zeros((count, sum(self._sizes.values())))
        self._physics = physics(self._rows(), self._calls())
        self._shares = Shares(self._physics.step, count, threads)

    def _rows(self) -> Rows:
        copies = []
        ends = np.cumsum(list(self._sizes.values()), dtype=int)
        for row, data in enumerate(self.data):
            pairs = [(self.qpos[row], data.qpos), (self.qvel[row], data.qvel)]
            if self.runner.measured == "torso":
                torso = self.model.body("torso").id
                pairs.append((self.position[row], data.xpos[torso, :2]))
            if self.runner.measured == "mass":
                pairs.append((self._places[row], data.xipos))
            for name, end in zip(self._sizes, ends, strict=True):
                block = self.forces[row, end - self._sizes[name] : end]
                pairs.append((block, getattr(data, name).reshape(-1)))
            copies.append(tuple(pairs))
        return Rows(
            self.data,
            copies,
            time=self.time,
            touching=np.zeros((len(self.data), 0), np.bool_),
            owner=np.full(self.model.ngeom, NOTHING),
            paths=np.zeros((len(self.data), 0, 0, 3)),
        )

    def _calls(self) -> list[Call]:
        calls = [Call("mj_step", self.model, self.runner.frame_skip)]
        if self.runner.sees_forces:  # nothing else needs this pass
            calls.append(Call("mj_rnePostConstraint", self.model))
        return calls

    def place(self, row: int, qpos: Floats, qvel: Floats) -> None:
        """Begin anew in one environment."""
        data = self.data[row]
        mujoco.mj_resetData(self.model, data)
        data.qpos[:], data.qvel[:] = qpos, qvel
        # Older versions did this in the forward pass: noise reaches the root's quaternion too.
        mujoco.mj_normalizeQuat(self.model, data.qpos)
        mujoco.mj_forward(self.model, data)
        # This, too: the solver's first step begins where the forward pass ended.
        data.qacc_warmstart[:] = data.qacc
        rows = np.array([row])
        self._physics.read(rows)
        self._locate(rows)
        self.broken[row] = False

    def step(self, controls: Floats, awake: Bools) -> None:
        """Make one environment step in the rows `awake` (n,).

        MuJoCo clamps the controls, (n, controls).
        """
        self.before[:] = self.position
        started = self.time.copy()
        self._physics.prepare(awake, controls)
        self._shares.each()
        self._locate(slice(None))
        # MuJoCo answers a state that is not finite, or huge, by starting anew at time 0.
        self.broken = awake & (self.time < started + 0.5 * self.seconds)

    def get_state(self, row: int) -> Arrays:
        """What `set_state` needs to go on from here."""
        physics = np.empty(mujoco.mj_stateSize(self.model, _STATE))
        mujoco.mj_getState(self.model, self.data[row], physics, _STATE)
        return {"physics": physics, "position": self.position[row].copy()}

    def set_state(self, row: int, state: Mapping[str, Floats]) -> None:
        """Go on from a saved state."""
        data = self.data[row]
        mujoco.mj_resetData(self.model, data)
        mujoco.mj_setState(self.model, data, state["physics"], _STATE)
        mujoco.mj_kinematics(self.model, data)  # for pictures; the next step makes its own
        self._physics.read(np.array([row]))
        self.position[row] = state["position"]
        self.broken[row] = False

    def close(self) -> None:
        """End the threads."""
        self._shares.close()

    def _locate(self, rows: Ints | slice) -> None:
        if self.runner.measured == "mass":
            self.position[rows] = np.einsum("b,nbj->nj", self._mass, self._places[rows])[:, :2]
        elif self.runner.measured == "joints":
            self.position[rows] = self.qpos[rows, :2]


def build(runner: Runner) -> mujoco.MjModel:
    """The model of a robot, from the files Gymnasium comes with."""
    assets = Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets"
    model = mujoco.MjModel.from_xml_path(str(assets / runner.model))
    if margins_add_up():
        # Newer versions add the margins of two geoms where older ones took the larger; in these
        # models they are equal.
        model.geom_margin *= 0.5
    return model


@cache
def margins_add_up() -> bool:
    """Whether this MuJoCo adds the contact margins of two geoms, seen at a gap between the two."""
    model = mujoco.MjModel.from_xml_string(
        '<mujoco><worldbody><geom type="plane" size="1 1 1" margin="0.01"/><body pos="0 0 0.115">'
        '<freejoint/><geom size="0.1" margin="0.01"/></body></worldbody></mujoco>'
    )
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    return bool(data.ncon)
