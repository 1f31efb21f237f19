"""Write episodes as moving pictures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ucpo import stock as stocks
from ucpo.envs.registry import entry_of, make_task
from ucpo.errors import UsageError
from ucpo.problem import Floats
from ucpo.show import films
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
    seconds_per_frame: float
    """Of simulated time."""


def record(
    task_name: str,
    act: Act,
    path: Path | str,
    budget: Sequence[float] | float = 25.0,
    seed: int = 0,
    **how: Any,
) -> Watched:
    """Play one episode of a navigation or velocity task and write it as a GIF or an MP4.

    Args:
        task_name: For example ``SafetyPointGoal1-v0``.
        act: The policy.
        path: Where the picture goes; ends in ``.gif``, or ``.mp4`` with ``ucpo[video]``.
        budget: What the episode may cost, one number or one per cost.
        seed: Of the episode.
        how: What `play` takes.
    """
    return compare(task_name, act, path, [budget], seed, **how)[0]


def compare(
    task_name: str,
    act: Act,
    path: Path | str,
    budgets: Sequence[Sequence[float] | float],
    seed: int = 0,
    **how: Any,
) -> list[Watched]:
    """The same episode under several budgets, side by side in a film; arguments as in `record`."""
    target = Path(path)
    write = films.writer(target)  # refuses what cannot be written before anything is played
    played = [play(task_name, act, budget, seed, **how) for budget in budgets]
    write(_side_by_side([frames for _, frames in played]), played[0][0].seconds_per_frame)
    return [watched for watched, _ in played]


def play(
    task_name: str,
    act: Act,
    budget: Sequence[float] | float = 25.0,
    seed: int = 0,
    *,
    costs: Sequence[str] | None = None,
    max_steps: int | None = None,
    every: int = 4,
    pixels: int = 320,
    camera: str | None = None,
    **options: Any,
) -> tuple[Watched, list[Image.Image]]:
    """Play one episode and return what was seen, and pictures of it.

    Args:
        task_name: Of a navigation or velocity task.
        act: The policy.
        budget: What the episode may cost, one number or one per cost.
        seed: Of the episode.
        costs: Names of the costs, as in `ucpo.envs.registry.make_task`.
        max_steps: Environment steps to show at most; the whole episode by default.
        every: Environment steps between pictures.
        pixels: Width and height.
        camera: Navigation: None draws from above without OpenGL; ``overview``, ``track`` or
            ``vision`` render. Velocity tasks are always rendered, from the side.
        options: Passed on to the task.
    """
    if every < 1:
        raise UsageError(f"every must be at least 1, got {every}")
    if not 32 <= pixels <= 4096:
        raise UsageError(f"pixels must be 32 to 4096, got {pixels}")
    entry = entry_of(task_name)
    if entry is None or entry.view is None:
        raise UsageError(f"only navigation and velocity tasks can be watched, not {task_name}")
    task: Any = make_task(task_name, 1, costs=costs, **options)
    artist = _artist(task, entry.view, pixels, camera)
    first = np.broadcast_to(stocks.initial(budget), len(task.spec.cost_names))
    obs, stock = task.reset(repeat(Start(seed, first)))
    frames = [artist.picture(0.0, np.zeros(len(first)), first)]
    returns, paid, steps = 0.0, np.zeros(len(first)), 0
    ended = False
    while not ended and steps != max_steps:
        step = task.step(np.asarray(act(obs, stock)))
        ended = bool(step.terminated[0] or step.truncated[0])
        returns += float(step.reward[0])
        paid += step.costs[0]
        steps += 1
        if not ended:  # a row that ended already shows the next episode
            artist.follow(bool(step.costs[0].any()))
            if steps % every == 0:
                frames.append(artist.picture(returns, paid, first))
        obs, stock = step.obs, step.stock
    artist.close()
    task.close()
    seconds = every * float(task.world.seconds)
    return Watched(returns, tuple(paid.tolist()), steps, len(frames), seconds), frames


class _Artist(Protocol):
    """Makes pictures of the only environment of a task."""

    def follow(self, cost: bool) -> None: ...
    def picture(self, returns: float, paid: Floats, first: Floats) -> Image.Image: ...
    def close(self) -> None: ...


class _FromAbove:
    """Draws a navigation task and the path its robot has taken."""

    def __init__(self, task: NavigationTask, pixels: int) -> None:
        self.task = task
        self.pixels = pixels
        self.path: list[tuple[float, float]] = []
        self.costly: list[bool] = []

    def follow(self, cost: bool) -> None:
        x, y, _ = self.task.world.position[0].tolist()
        self.path.append((x, y))
        self.costly.append(cost)

    def picture(self, returns: float, paid: Floats, first: Floats) -> Image.Image:
        from ucpo.envs.navigation.drawing import picture, scene

        spent = ", ".join(
            f"{name} {cost:.0f} of {-limit:g}"
            for name, cost, limit in zip(self.task.spec.cost_names, paid, first, strict=True)
        )
        caption = f"return {returns:.1f}   {spent}"
        return picture(scene(self.task), self.path, self.costly, self.pixels, caption).quantize(64)

    def close(self) -> None:
        pass


class _Rendered:
    """Shows what MuJoCo's renderer shows."""

    def __init__(self, renderer: Any) -> None:
        self.renderer = renderer

    def follow(self, cost: bool) -> None:
        pass

    def picture(self, returns: float, paid: Floats, first: Floats) -> Image.Image:
        from PIL import Image

        return Image.fromarray(self.renderer.image(0))

    def close(self) -> None:
        self.renderer.close()


def _artist(task: Any, view: str, pixels: int, camera: str | None) -> _Artist:
    if view == "side":
        from ucpo.envs.velocity.rendering import Renderer as FromTheSide

        if camera is not None:
            raise UsageError(f"{task.spec.name} is shown from the side; leave out the camera")
        return _Rendered(FromTheSide(task.world, pixels, pixels))
    if camera is None:
        return _FromAbove(task, pixels)
    from ucpo.envs.navigation.rendering import Renderer

    return _Rendered(Renderer(task.world, pixels, pixels, camera))


def _side_by_side(episodes: list[list[Image.Image]]) -> list[Image.Image]:
    """Pictures of several episodes in one; those that end early stay as they ended."""
    from PIL import Image

    if len(episodes) == 1:
        return episodes[0]
    joined = []
    for moment in range(max(map(len, episodes))):
        now = [frames[min(moment, len(frames) - 1)].convert("RGB") for frames in episodes]
        size = (sum(picture.width for picture in now), max(picture.height for picture in now))
        whole, left = Image.new("RGB", size, "white"), 0
        for picture in now:
            whole.paste(picture, (left, 0))
            left += picture.width
        joined.append(whole.quantize(64))
    return joined
