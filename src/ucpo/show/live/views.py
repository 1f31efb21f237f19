"""What a browser needs to draw a task: shapes once an episode, positions at every moment."""

from __future__ import annotations

from typing import Any, Protocol

from ucpo.envs.interface import VectorTask
from ucpo.envs.registry import entry_of

Scenery = dict[str, Any]
"""What does not change within an episode, as JSON."""


class View(Protocol):
    """How the only environment of a task is looked at."""

    def scenery(self) -> Scenery:
        """What is there, with a ``kind`` that says how it is drawn."""

    def moment(self) -> list[float]:
        """Where everything is now; in which order, the scenery says."""

    def place(self) -> tuple[float, float] | None:
        """Where the robot is, for its trail; None where it leaves none."""


def view_of(task: VectorTask) -> View:
    """The view that suits a task."""
    entry = entry_of(task.spec.name)
    kind = entry.view if entry else None
    if kind == "above":
        return FromAbove(task)
    return FromTheSide(task) if kind == "side" else Unseen()


class FromAbove:
    """A navigation task. A moment is x, y and turn of the robot, then of every object."""

    def __init__(self, task: Any) -> None:
        self._task = task

    def scenery(self) -> Scenery:
        """Kinds and sizes of all objects."""
        from ucpo.envs.navigation.drawing import scene

        seen = scene(self._task)
        return {
            "kind": "above",
            "half_width": seen.half_width,
            "objects": [[shape.kind, shape.size] for shape in seen.shapes],
            "forward": list(seen.robot.forward[:2]),
        }

    def moment(self) -> list[float]:
        """Positions in metres, turns in radians."""
        from ucpo.envs.navigation.drawing import scene

        seen = scene(self._task)
        numbers = [seen.x, seen.y, seen.yaw]
        for shape in seen.shapes:
            numbers += [shape.x, shape.y, shape.yaw]
        return [round(number, 3) for number in numbers]

    def place(self) -> tuple[float, float]:
        """Where the robot is, in metres."""
        x, y = self._task.positions()[0].tolist()
        return round(x, 3), round(y, 3)


class FromTheSide:
    """A velocity task. A moment is the speed that is charged, then five numbers for each limb."""

    def __init__(self, task: Any) -> None:
        from ucpo.envs.velocity.outline import Outline

        self._task, self._outline = task, Outline(task)

    def scenery(self) -> Scenery:
        """Thickness of the limbs, and the speed that costs."""
        return {
            "kind": "side",
            "radii": [round(radius, 4) for radius in self._outline.radii.tolist()],
            "floor": self._outline.floor,
            "limit": self._task.runner.speed_limit,
        }

    def moment(self) -> list[float]:
        """Speed in m/s, positions in metres."""
        numbers = [float(self._task.speed()[0]), *self._outline.limbs().ravel().tolist()]
        return [round(number, 3) for number in numbers]

    def place(self) -> None:
        """It leaves no trail."""


class Unseen:
    """A task nobody has said how to draw: what is spent is shown, and nothing else."""

    def scenery(self) -> Scenery:
        """Nothing to be seen."""
        return {"kind": "none"}

    def moment(self) -> list[float]:
        """Nothing that moves."""
        return []

    def place(self) -> None:
        """It leaves no trail."""
