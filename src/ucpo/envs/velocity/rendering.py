"""Pictures of running robots from MuJoCo's renderer."""

from __future__ import annotations

import mujoco
import numpy as np
from numpy.typing import NDArray

from ucpo.envs.velocity.world import World
from ucpo.errors import UsageError

_DISTANCE = 4.0  # of the camera, in m


class Renderer:
    """Draws one environment of a world at a time, the camera beside the robot."""

    def __init__(self, world: World, width: int, height: int) -> None:
        self.world = world
        limit = world.model.vis.global_
        limit.offwidth, limit.offheight = max(limit.offwidth, width), max(limit.offheight, height)
        try:
            self._renderer = mujoco.Renderer(world.model, height, width)
        except Exception as error:  # each backend of MuJoCo fails in its own way
            raise UsageError(
                "rendering needs OpenGL without a screen, which is missing here "
                f"({type(error).__name__}: {error}). Install EGL or OSMesa (libegl1 or libosmesa6 "
                "on Debian) and set MUJOCO_GL=egl or MUJOCO_GL=osmesa before Python starts"
            ) from error

    def image(self, row: int = 0) -> NDArray[np.uint8]:
        """The environment as it stands, shape (height, width, 3)."""
        camera = mujoco.MjvCamera()
        camera.type = mujoco.mjtCamera.mjCAMERA_FREE
        torso = self.world.data[row].xpos[1]  # the first body of all six
        camera.lookat[:] = torso
        camera.azimuth, camera.elevation, camera.distance = 90.0, -20.0, _DISTANCE
        self._renderer.update_scene(self.world.data[row], camera)
        image: NDArray[np.uint8] = self._renderer.render()
        return image

    def close(self) -> None:
        """Free the graphics context."""
        self._renderer.close()
