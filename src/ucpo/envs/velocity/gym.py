"""Single velocity environments with Gymnasium's interface."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from ucpo.envs.velocity.env import COST_NAMES, VelocityTask
from ucpo.errors import UsageError

Observation = NDArray[np.float64]


class VelocityEnv(gymnasium.Env[Observation, NDArray[np.float32]]):
    """One robot that runs.

    ``info["cost"]`` is 1 if the step was too fast, otherwise 0; ``info["costs"]`` holds the other
    costs by name; ``x_position``, ``x_velocity`` (m/s over the step) and the same along y say where
    and how fast. ``reset(seed=s)`` draws the noise the original draws for that seed; without a seed
    its random numbers go on, as there. As there, actions are not clipped: MuJoCo clamps them, and
    the price of control is that of what was asked for.
    """

    metadata = {"render_modes": ["rgb_array"]}

    def __init__(
        self,
        name: str = "SafetyHopperVelocity-v1",
        render_mode: str | None = None,
        width: int = 256,
        height: int = 256,
        **options: Any,
    ) -> None:
        """Build one environment.

        Args:
            name: The task.
            render_mode: ``rgb_array``, or None to render nothing.
            width: Of rendered images, in pixels.
            height: Of rendered images, in pixels.
            options: Passed on to `VelocityTask`.
        """
        if render_mode not in (None, "rgb_array"):
            raise UsageError(f"render_mode must be None or 'rgb_array', got {render_mode!r}")
        self.render_mode = render_mode
        self.task = VelocityTask(1, name, **options)
        spec = self.task.spec
        self.metadata = self.metadata | {"render_fps": round(1.0 / self.task.world.seconds)}
        self.observation_space = gymnasium.spaces.Box(
            -np.inf, np.inf, (spec.observation_size,), dtype=np.float64
        )
        self.action_space = gymnasium.spaces.Box(
            np.array(spec.action_low, np.float32),
            np.array(spec.action_high, np.float32),
            dtype=np.float32,
        )
        self._image = (width, height)
        self._renderer: Any = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode."""
        super().reset(seed=seed)
        self.task.begin_row(0, self.np_random)
        return self.task.observation[0].copy(), {}

    def step(
        self, action: NDArray[np.float32]
    ) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Make one step."""
        task = self.task
        action = np.asarray(action)
        if action.shape != self.action_space.shape:
            raise UsageError(
                f"an action has shape {self.action_space.shape}, got one of shape {action.shape}"
            )
        out = task.drive(action[None])
        task.lengths += 1
        costs = {name: float(task.charge(name)[0]) for name in COST_NAMES}
        (x, y), (vx, vy) = task.world.position[0].tolist(), task.velocity[0].tolist()
        info = {
            "cost": costs.pop("cost"),
            "costs": costs,
            "x_position": x,
            "y_position": y,
            "x_velocity": vx,
            "y_velocity": vy,
        }
        return (
            task.observation[0].copy(),
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
            from ucpo.envs.velocity.rendering import Renderer

            self._renderer = Renderer(self.task.world, *self._image)
        image: NDArray[np.uint8] = self._renderer.image(row=0)
        return image

    def close(self) -> None:
        """Free what the environment holds."""
        self.task.close()
        if self._renderer is not None:
            self._renderer.close()
