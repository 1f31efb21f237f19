"""Write an episode as a moving picture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ucpo import stock as stocks
from ucpo.envs.registry import family_of, make_task
from ucpo.errors import UsageError
from ucpo.problem import Floats
from ucpo.stock import Start

if TYPE_CHECKING:
    from PIL import Image

    from ucpo.envs.navigation.env import NavigationTask

Act = Callable[[Floats, Floats], Floats]
"""Actions (1, action) in [-1, 1] for observations (1, obs) and stocks (1, C)."""


@dataclass(frozen=True)
class Watched:
    """What was seen."""

    returns: float
    costs: tuple[float, ...]
    steps: int
    frames: int


def record(
    task_name: str,
    act: Act,
    path: Path | str,
    budget: Sequence[float] | float = 25.0,
    seed: int = 0,
    *,
    costs: Sequence[str] | None = None,
    max_steps: int | None = None,
    every: int = 4,
    pixels: int = 320,
    camera: str | None = None,
    **options: Any,
) -> Watched:
    """Play one episode of a navigation task and write it as an animated GIF.

    Args:
        task_name: For example ``SafetyPointGoal1-v0``.
        act: The policy.
        path: Where the picture goes; must end in ``.gif``.
        budget: What the episode may cost, one number or one per cost.
        seed: Of the layout.
        costs: Names of the costs, as in `ucpo.envs.registry.make_task`.
        max_steps: Environment steps to show at most; the whole episode by default.
        every: Environment steps between pictures.
        pixels: Width and height.
        camera: None draws from above without OpenGL; ``overview``, ``track`` or ``vision`` render.
        options: Passed on to the task.
    """
    target = Path(path)
    if target.suffix.lower() != ".gif":
        raise UsageError(f"a moving picture is written as .gif, got {target.name!r}")
    if every < 1:
        raise UsageError(f"every must be at least 1, got {every}")
    task: Any = make_task(task_name, 1, costs=costs, **options)
    if family_of(task_name) != "navigation":
        raise UsageError(f"only navigation tasks can be watched, {task_name} is not one")
    view = _View(task, pixels, camera)
    first = np.broadcast_to(stocks.initial(budget), len(task.spec.cost_names))
    obs, stock = task.reset(repeat(Start(seed, first)))
    view.look(0.0, np.zeros(len(first)), first)
    returns, paid, steps = 0.0, np.zeros(len(first)), 0
    ended = False
    while not ended and steps != max_steps:
        step = task.step(np.asarray(act(obs, stock)))
        ended = bool(step.terminated[0] or step.truncated[0])
        returns += float(step.reward[0])
        paid += step.costs[0]
        steps += 1
        if not ended:  # a row that ended already shows the next episode
            view.follow(bool(step.costs[0].any()))
            if steps % every == 0:
                view.look(returns, paid, first)
        obs, stock = step.obs, step.stock
    view.write(target, every)
    task.close()
    return Watched(returns, tuple(paid.tolist()), steps, len(view.frames))


class _View:
    """Pictures of the only environment of a task, and the path it has taken."""

    def __init__(self, task: NavigationTask, pixels: int, camera: str | None) -> None:
        self.task = task
        self.pixels = pixels
        self.frames: list[Image.Image] = []
        self.path: list[tuple[float, float]] = []
        self.costly: list[bool] = []
        self.renderer: Any = None
        if camera is not None:
            from ucpo.envs.navigation.rendering import Renderer

            self.renderer = Renderer(task.world, pixels, pixels, camera)

    def follow(self, cost: bool) -> None:
        x, y, _ = self.task.world.position[0].tolist()
        self.path.append((x, y))
        self.costly.append(cost)

    def look(self, returns: float, paid: Floats, first: Floats) -> None:
        from PIL import Image

        from ucpo.envs.navigation.drawing import picture, scene

        if self.renderer is not None:
            self.frames.append(Image.fromarray(self.renderer.image(0)))
            return
        spent = ", ".join(
            f"{name} {cost:.0f} of {-limit:g}"
            for name, cost, limit in zip(self.task.spec.cost_names, paid, first, strict=True)
        )
        caption = f"return {returns:.1f}   {spent}"
        shown = picture(scene(self.task), self.path, self.costly, self.pixels, caption)
        self.frames.append(shown.quantize(64))

    def write(self, target: Path, every: int) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        seconds = every * 10 * self.task.arena.robot.timestep
        self.frames[0].save(
            target,
            save_all=True,
            append_images=self.frames[1:],
            duration=max(20, round(1000 * seconds)),
            loop=0,
            optimize=True,
        )
        if self.renderer is not None:
            self.renderer.close()
