"""Pictures from MuJoCo's renderer, with what is outside the physics added to its scene."""

from __future__ import annotations

import mujoco
import numpy as np
from numpy.typing import NDArray

from ucpo.envs.navigation.model import COLOURS
from ucpo.envs.navigation.tasks import MARKED
from ucpo.envs.navigation.world import World
from ucpo.errors import UsageError
from ucpo.problem import Floats

CAMERAS = ("overview", "track", "vision")
_EXTRA_GEOMS = 150


class Renderer:
    """Draws one environment of a world at a time."""

    def __init__(self, world: World, width: int, height: int, camera: str = "overview") -> None:
        if camera not in CAMERAS:
            raise UsageError(f"no camera {camera!r}; known: {', '.join(CAMERAS)}")
        self.world = world
        self.camera = camera
        limit = world.model.vis.global_
        limit.offwidth, limit.offheight = max(limit.offwidth, width), max(limit.offheight, height)
        try:
            self._renderer = mujoco.Renderer(
                world.model, height, width, max_geom=world.model.ngeom + _EXTRA_GEOMS
            )
        except Exception as error:  # each backend of MuJoCo fails in its own way
            raise UsageError(
                "rendering needs OpenGL without a screen, which is missing here "
                f"({type(error).__name__}: {error}). Install EGL or OSMesa (libegl1 or libosmesa6 "
                "on Debian) and set MUJOCO_GL=egl or MUJOCO_GL=osmesa before Python starts, or use "
                "the drawing from above, which needs neither (ucpo.envs.navigation.drawing)"
            ) from error

    def image(self, row: int = 0) -> NDArray[np.uint8]:
        """The environment as it stands, shape (height, width, 3)."""
        self._renderer.update_scene(self.world.data[row], self._view(row))
        for objects in self.world.arena.objects:
            if objects.kind in MARKED:
                places = self.world.objects[row, self.world.spans[objects.kind]]
                for index, place in enumerate(places):
                    self._add(objects.kind, index, place, objects.size)
        image: NDArray[np.uint8] = self._renderer.render()
        return image

    def close(self) -> None:
        """Free the graphics context."""
        self._renderer.close()

    def _view(self, row: int) -> mujoco.MjvCamera:
        camera = mujoco.MjvCamera()
        camera.type = mujoco.mjtCamera.mjCAMERA_FREE
        x, y, z = self.world.position[row]
        forward = self.world.rotation[row].reshape(3, 3) @ self.world.arena.robot.forward
        if self.camera == "overview":
            camera.lookat[:] = 0.0, 0.0, 0.0
            camera.azimuth, camera.elevation = 90.0, -55.0
            camera.distance = 3.0 * max(self.world.arena.extent, 1.5)
        elif self.camera == "track":
            camera.lookat[:] = x, y, z
            camera.azimuth, camera.elevation, camera.distance = 90.0, -45.0, 2.8
        else:
            camera.lookat[:] = x + forward[0], y + forward[1], 0.0
            camera.azimuth = np.degrees(np.arctan2(forward[1], forward[0]))
            camera.elevation, camera.distance = -15.0, 1.3
        return camera

    def _add(self, kind: str, index: int, place: Floats, size: float) -> None:
        scene = self._renderer.scene
        if scene.ngeom >= scene.maxgeom:
            return
        shape, sizes = mujoco.mjtGeom.mjGEOM_CYLINDER, [size, 0.01, 0.0]
        if kind == "goal":
            sizes = [size, size / 2, 0.0]
        if kind == "sigwalls":  # the first two stand across the x axis
            shape = mujoco.mjtGeom.mjGEOM_BOX
            sizes = [0.02, size, 0.15] if index < 2 else [size, 0.02, 0.15]
        height = sizes[2] if kind == "sigwalls" else sizes[1]
        mujoco.mjv_initGeom(
            scene.geoms[scene.ngeom],
            shape,
            np.array(sizes),
            np.array([*place, height + 0.005]),
            np.eye(3).ravel(),
            np.array(COLOURS[kind], np.float32),
        )
        scene.ngeom += 1
