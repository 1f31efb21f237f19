"""A running robot as lines of some thickness, seen from the side: no OpenGL, no picture."""

from __future__ import annotations

import mujoco
import numpy as np

from ucpo.envs.velocity.env import VelocityTask
from ucpo.problem import Floats

_SPHERE, _CAPSULE = int(mujoco.mjtGeom.mjGEOM_SPHERE), int(mujoco.mjtGeom.mjGEOM_CAPSULE)
_ACROSS = {"swimmer.xml": (0, 1, 2)}  # it swims in the plane of the floor, so it is seen from above
_FROM_THE_SIDE = (0, 2, 1)


class Outline:
    """The limbs of one environment's robot, in the plane it is looked at.

    Args:
        task: Whose robots are looked at.
    """

    def __init__(self, task: VelocityTask) -> None:
        model = task.world.model
        self._task = task
        self._geoms = np.flatnonzero(np.isin(model.geom_type, (_SPHERE, _CAPSULE)))
        self._across, self._up, self._depth = _ACROSS.get(task.runner.model, _FROM_THE_SIDE)
        self.radii: Floats = model.geom_size[self._geoms, 0].copy()
        """Half the thickness of each limb, in metres."""
        long = model.geom_type[self._geoms] == _CAPSULE
        self._halves = np.where(long, model.geom_size[self._geoms, 1], 0.0)
        self.floor = self._up == 2
        """Whether the lower edge of what is seen is a floor, at height 0."""

    def limbs(self, row: int = 0) -> Floats:
        """Where each limb begins and ends, and how far it is away: x, y, x, y, depth; (limbs, 5).

        In metres. Limbs with a larger depth are nearer to who looks from the side.
        """
        data = self._task.world.data[row]
        places = data.geom_xpos[self._geoms]
        along = data.geom_xmat[self._geoms].reshape(-1, 3, 3)[:, :, 2] * self._halves[:, None]
        ends = np.stack([places - along, places + along])  # (2, limbs, 3)
        seen = ends[:, :, (self._across, self._up)]
        depth = -places[:, self._depth, None]
        limbs: Floats = np.concatenate([seen[0], seen[1], depth], axis=1)
        return limbs
