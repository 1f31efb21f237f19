"""Single navigation environments with Gymnasium's interface."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from ucpo.envs.navigation.env import NavigationTask
from ucpo.envs.navigation.tasks import COST_NAMES
from ucpo.errors import UsageError

Observation = NDArray[np.float64]


class NavigationEnv(gymnasium.Env[Observation, NDArray[np.float64]]):
    """One robot among objects.

    ``info["cost"]`` is the total, 0 or 1; ``info["costs"]`` the same by kind of object, for all
    kinds there are; ``info["goal_met"]`` whether the step reached a goal. ``reset(seed=s)`` gives
    the layout the original gives for that seed; without a seed its random numbers go on, as there.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 50}

    def __init__(
        self,
        name: str = "SafetyPointGoal1-v0",
        render_mode: str | None = None,
        width: int = 256,
        height: int = 256,
        camera: str = "overview",
        **options: Any,
    ) -> None:
        """Build one environment.

        Args:
            name: The task.
            render_mode: ``rgb_array``, or None to render nothing.
            width: Of rendered images, in pixels.
            height: Of rendered images, in pixels.
            camera: ``overview``, ``track`` or ``vision``.
            options: Passed on to `NavigationTask`.
        """
        if render_mode not in (None, "rgb_array"):
            raise UsageError(f"render_mode must be None or 'rgb_array', got {render_mode!r}")
        self.render_mode = render_mode
        self.task = NavigationTask(1, name, **options)
        size, own = self.task.spec.observation_size, self.task.arena.robot.sensor_size
        low, high = np.full(size, -np.inf), np.full(size, np.inf)
        low[own:], high[own:] = 0.0, 1.0
        self.observation_space = gymnasium.spaces.Box(low, high, dtype=np.float64)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), dtype=np.float64)
        self._image = (width, height, camera)
        self._renderer: Any = None
        self._seeded = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode."""
        super().reset(seed=seed)
        if seed is not None or not self._seeded:
            chosen = int(self.np_random.integers(2**31)) if seed is None else seed
            self.task.streams[0].seed(chosen)
            self._seeded = True
        self.task.begin_row(0)
        return self.task.observe()[0].copy(), {}

    def step(
        self, action: NDArray[np.float64]
    ) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Make one step."""
        action = np.asarray(action, np.float64)
        if action.shape != (2,):
            raise UsageError(f"an action has shape (2,), got {action.shape}")
        out = self.task.advance(action[None])
        self.task.lengths += 1
        kinds = [kind for kind in COST_NAMES if COST_NAMES[kind][0] in self.task.charged]
        info = {
            "cost": float(self.task.charged["cost"][0]),
            "costs": {kind: float(self.task.charged[COST_NAMES[kind][0]][0]) for kind in kinds},
            "goal_met": bool(self.task.reached[0]),
        }
        return (
            self.task.observation[0].copy(),
            float(out.reward[0]),
            bool(out.terminated[0]),
            bool(out.truncated[0]),
            info,
        )

    def render(self) -> NDArray[np.uint8] | None:
        """An image, (height, width, 3), in render mode ``rgb_array``."""
        if self.render_mode is None:
            return None
        if self._renderer is None:
            from ucpo.envs.navigation.rendering import Renderer

            width, height, camera = self._image
            self._renderer = Renderer(self.task.world, width, height, camera)
        image: NDArray[np.uint8] = self._renderer.image(row=0)
        return image

    def close(self) -> None:
        """Free what the environment holds."""
        self.task.close()
        if self._renderer is not None:
            self._renderer.close()
