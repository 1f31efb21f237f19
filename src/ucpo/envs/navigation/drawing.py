"""Pictures from above, without OpenGL: the robot, the objects, and its path coloured by cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from ucpo.envs.navigation.env import NavigationTask
from ucpo.envs.navigation.model import COLOURS
from ucpo.envs.navigation.robots import Robot
from ucpo.problem import Floats

_PAPER = (250, 250, 247)
_GRID = (232, 232, 228)
_FREE = (70, 90, 120)  # the path where it cost nothing
_COSTLY = (205, 40, 40)
_ROBOT = (219, 69, 56)
_TRIM = (41, 51, 84)
_SMOOTH = 3  # drawn this much larger and shrunk, for smooth edges


@dataclass(frozen=True)
class Shape:
    """One object seen from above."""

    kind: str
    x: float
    y: float
    yaw: float
    size: float


@dataclass(frozen=True)
class Scene:
    """What one environment looks like from above."""

    shapes: tuple[Shape, ...]
    robot: Robot
    x: float
    y: float
    yaw: float
    half_width: float
    """Of the square that is shown."""


def scene(task: NavigationTask, row: int = 0) -> Scene:
    """Look at one environment of a task."""
    world = task.world
    shapes = []
    for objects in task.arena.objects:
        places = world.objects[row, world.spans[objects.kind]]
        yaws = _yaws(task, row, objects.kind, len(places))
        for (x, y), yaw in zip(places, yaws, strict=True):
            shapes.append(Shape(objects.kind, float(x), float(y), float(yaw), objects.size))
    x, y, _ = world.position[row]
    yaw = np.arctan2(world.rotation[row, 3], world.rotation[row, 0])
    return Scene(
        tuple(shapes),
        task.arena.robot,
        float(x),
        float(y),
        float(yaw),
        max(task.arena.extent, 1.5) + 0.4,
    )


def picture(
    seen: Scene,
    path: Sequence[tuple[float, float]] = (),
    costly: Sequence[bool] = (),
    pixels: int = 320,
    caption: str = "",
    half_width: float = 0.0,
) -> Image.Image:
    """Draw a scene, wide enough to show all of the path.

    Args:
        seen: What to draw.
        path: Where the robot has been, oldest first.
        costly: Whether each of those steps cost something.
        pixels: Width and height of the picture.
        caption: A line of text at the top.
        half_width: Of the square that is shown, at least, in metres; so that pictures that belong
            together have one scale.
    """
    pen = _Pen(max(seen.half_width, needed(path), half_width), pixels)
    for shape in sorted(seen.shapes, key=lambda shape: _ORDER.index(shape.kind)):
        pen.shape(shape)
    pen.path(path, costly)
    pen.robot(seen)
    image = pen.image.resize((pixels, pixels), Image.Resampling.LANCZOS)
    if caption:
        text = ImageDraw.Draw(image)
        text.text((6, 4), caption, _TRIM, ImageFont.load_default(max(10, pixels // 26)))
    return image


def needed(path: Sequence[tuple[float, float]]) -> float:
    """Half the width of a square that shows all of a path, in metres."""
    return max((abs(number) for point in path for number in point), default=-0.3) + 0.3


_ORDER = (
    "circle",
    "sigwalls",
    "hazards",
    "goal",
    "buttons",
    "pillars",
    "vases",
    "push_box",
    "gremlins",
)
_BOXES = ("vases", "gremlins", "push_box")


class _Pen:
    def __init__(self, half_width: float, pixels: int) -> None:
        self.side = pixels * _SMOOTH
        self.scale = self.side / (2 * half_width)
        self.image = Image.new("RGB", (self.side, self.side), _PAPER)
        self.ink = ImageDraw.Draw(self.image, "RGBA")
        for line in np.arange(-np.floor(half_width), half_width + 0.1):
            near, far = self.at(line, -half_width), self.at(line, half_width)
            self.ink.line([near, far], _GRID, _SMOOTH)
            self.ink.line([near[::-1], far[::-1]], _GRID, _SMOOTH)

    def at(self, x: float, y: float) -> tuple[float, float]:
        return self.side / 2 + x * self.scale, self.side / 2 - y * self.scale

    def disc(self, x: float, y: float, radius: float, colour: tuple[int, ...]) -> None:
        column, line = self.at(x, y)
        reach = radius * self.scale
        self.ink.ellipse([column - reach, line - reach, column + reach, line + reach], colour)

    def polygon(
        self, x: float, y: float, yaw: float, corners: Floats, colour: tuple[int, ...]
    ) -> None:
        turn = np.array([[np.cos(yaw), -np.sin(yaw)], [np.sin(yaw), np.cos(yaw)]])
        placed = corners @ turn.T + (x, y)
        self.ink.polygon([self.at(*corner) for corner in placed.tolist()], colour)

    def shape(self, shape: Shape) -> None:
        red, green, blue, alpha = (round(255 * part) for part in COLOURS[shape.kind])
        colour = (red, green, blue, alpha)
        if shape.kind == "sigwalls":
            across = shape.x != 0.0
            half = np.array([0.03, shape.size] if across else [shape.size, 0.03])
            self.polygon(shape.x, shape.y, 0.0, _SQUARE * half, (red, green, blue, 160))
        elif shape.kind in _BOXES:
            reach = 1.5 * shape.size if shape.kind == "push_box" else shape.size
            self.polygon(shape.x, shape.y, shape.yaw, _SQUARE * reach, colour)
        else:
            self.disc(shape.x, shape.y, shape.size, colour)

    def path(self, points: Sequence[tuple[float, float]], costly: Sequence[bool]) -> None:
        for (before, after), cost in zip(pairwise(points), costly[1:], strict=False):
            colour = _COSTLY if cost else _FREE
            self.ink.line([self.at(*before), self.at(*after)], colour, 2 * _SMOOTH)

    def robot(self, seen: Scene) -> None:
        forward = np.array(seen.robot.forward[:2])
        side = np.array([-forward[1], forward[0]])
        nose = np.array(
            [0.17 * forward, 0.07 * forward + 0.06 * side, 0.07 * forward - 0.06 * side]
        )
        self.disc(seen.x, seen.y, 0.1, _ROBOT)
        self.polygon(seen.x, seen.y, seen.yaw, nose, _TRIM)


_SQUARE = np.array([[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0], [1.0, -1.0]])


def _yaws(task: NavigationTask, row: int, kind: str, count: int) -> Floats:
    if kind != task.world.mover or not count:
        return np.zeros(count)
    quaternions = task.world.qpos[row, -7 * count :].reshape(count, 7)[:, 3:]
    w, x, y, z = quaternions.T
    yaws: Floats = np.arctan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))
    return yaws
