"""What the navigation tasks are made of: one table of arenas, and how a user may change one.

An arena is data. Its objects stand in the order in which they are placed, turned and observed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from ucpo.envs.navigation.names import NAMES, time_limit
from ucpo.envs.navigation.robots import ROBOTS, Robot
from ucpo.errors import UsageError, nearest

WALL = 1.125
"""Distance of the Circle tasks' walls from the centre."""

MARKED = ("goal", "hazards", "circle", "sigwalls")
"""Kinds nothing collides with; they exist outside the physics."""
FIXED = ("buttons", "pillars")
"""Kinds that collide and never move."""
FREE = ("vases", "push_box")
"""Kinds that collide and are moved."""
DRAGGED = ("gremlins",)
"""Kinds that collide and follow a path of their own."""

COST_NAMES = {
    "hazards": ("hazards",),
    "vases": ("vases", "vases_contact", "vases_velocity"),
    "buttons": ("buttons",),
    "gremlins": ("gremlins",),
    "pillars": ("pillars",),
    "sigwalls": ("out_of_boundary",),
}
"""The costs each kind of object can give; if it is constrained, the first is in the total."""


@dataclass(frozen=True)
class Objects:
    """Some objects of one kind."""

    kind: str
    count: int
    keepout: float
    """Radius kept free when the layout is drawn; not the size of the object."""
    size: float
    constrained: bool = False
    """Whether its cost is part of the total."""
    locations: tuple[tuple[float, float], ...] = ()
    """Where they stand, if that is not drawn at random."""

    @property
    def observed(self) -> bool:
        """Whether it has a lidar block of its own."""
        return self.kind != "sigwalls"


@dataclass(frozen=True)
class Arena:
    """One task: a robot, what it is rewarded for, and the objects around it."""

    robot: Robot
    aim: str
    """``Goal``, ``Button``, ``Push`` or ``Circle``."""
    extent: float
    """Half-width of the square in which the layout is drawn."""
    objects: tuple[Objects, ...]
    max_episode_steps: int = time_limit("")
    reach: float = 3.0
    """Distance at which the lidar begins to see."""
    robot_keepout: float = 0.4

    def of(self, kind: str) -> Objects:
        """The objects of a kind; none of them is an entry with a count of zero."""
        found = [objects for objects in self.objects if objects.kind == kind]
        return found[0] if found else Objects(kind, 0, 0.0, 0.0)

    @property
    def cost_names(self) -> tuple[str, ...]:
        """Costs this arena can give, the total first."""
        kinds = [objects.kind for objects in self.objects if objects.count]
        return ("cost", *(name for kind in kinds for name in COST_NAMES.get(kind, ())))

    @property
    def observation_size(self) -> int:
        """The robot's own sensors and 16 lidar bins per observed kind."""
        return self.robot.sensor_size + 16 * sum(objects.observed for objects in self.objects)


def _goal(robot: Robot, level: int) -> Arena:
    hazards, vases, extent = ((0, 0, 1.0), (8, 1, 1.5), (10, 10, 2.0))[level]
    return Arena(
        robot,
        "Goal",
        extent,
        _present(
            Objects("goal", 1, 0.305, 0.3),
            Objects("hazards", hazards, 0.18, 0.2, constrained=True),
            Objects("vases", vases, 0.15, 0.1, constrained=level == 2),
        ),
    )


def _button(robot: Robot, level: int) -> Arena:
    hazards, gremlins, extent = ((0, 0, 1.0), (4, 4, 1.5), (8, 6, 1.8))[level]
    return Arena(
        robot,
        "Button",
        extent,
        _present(
            Objects("buttons", 4, 0.2, 0.1, constrained=level > 0),
            Objects("goal", 1, 0.4, 0.2),
            Objects("hazards", hazards, 0.18, 0.2, constrained=True),
            Objects("gremlins", gremlins, 0.4, 0.1, constrained=True),
        ),
    )


def _push(robot: Robot, level: int) -> Arena:
    hazards, pillars, extent = ((0, 0, 1.0), (2, 1, 1.5), (4, 4, 2.0))[level]
    return Arena(
        robot,
        "Push",
        extent,
        _present(
            Objects("goal", 1, 0.4, 0.3),
            Objects("hazards", hazards, 0.4, 0.3, constrained=True),
            Objects("pillars", pillars, 0.3, 0.2, constrained=level == 2),
            Objects("push_box", 1, robot.box_size, robot.box_size),
        ),
    )


def _circle(robot: Robot, level: int) -> Arena:
    walls = ((WALL, 0.0), (-WALL, 0.0), (0.0, WALL), (0.0, -WALL))[: 2 * level]
    return Arena(
        robot,
        "Circle",
        0.8,
        _present(
            Objects("circle", 1, 0.0, 1.5, locations=((0.0, 0.0),)),
            Objects("sigwalls", len(walls), 0.0, 3.5, constrained=True, locations=walls),
        ),
        max_episode_steps=time_limit("Circle"),
        reach=6.0,
        robot_keepout=0.0,
    )


def _present(*objects: Objects) -> tuple[Objects, ...]:
    return tuple(each for each in objects if each.count)


AIMS = {"Goal": _goal, "Button": _button, "Push": _push, "Circle": _circle}


def arena(
    name: str,
    counts: Mapping[str, int] | None = None,
    constrained: Collection[str] | None = None,
    extent: float | None = None,
    max_episode_steps: int | None = None,
) -> Arena:
    """The arena of a task, as it is or changed.

    Args:
        name: For example ``SafetyPointGoal1-v0``.
        counts: How many of a kind there are instead, e.g. ``{"hazards": 4}``. Kinds the task has.
        constrained: Kinds whose costs make up the total, instead of the task's own.
        extent: Half-width of the square objects are placed in.
        max_episode_steps: Environment steps after which an episode is truncated.
    """
    match = re.fullmatch(r"Safety(Point|Car)(Goal|Button|Push|Circle)([012])-v0", name)
    if match is None:
        raise UsageError(f"no navigation task {name!r}; {nearest(name, list(NAMES))}")
    built = AIMS[match[2]](ROBOTS[match[1]], int(match[3]))
    for kind, count in (counts or {}).items():
        built = _recount(built, name, kind, count)
    if constrained is not None:
        for kind in constrained:
            _need_kind(built, name, kind, [each for each in COST_NAMES if built.of(each).count])
        objects = tuple(
            replace(each, constrained=each.kind in constrained) for each in built.objects
        )
        built = replace(built, objects=objects)
    if extent is not None:
        built = replace(built, extent=extent)
    if max_episode_steps is not None:
        built = replace(built, max_episode_steps=max_episode_steps)
    return built


def _recount(built: Arena, name: str, kind: str, count: int) -> Arena:
    countable = [
        each.kind for each in built.objects if each.kind in ("hazards", *FIXED, "vases", *DRAGGED)
    ]
    _need_kind(built, name, kind, countable)
    if not 0 <= count <= 100 or (kind == "buttons" and count == 0):
        raise UsageError(f"{name} cannot have {count} {kind}; choose a number from 1 to 100")
    objects = tuple(
        replace(each, count=count) if each.kind == kind else each for each in built.objects
    )
    return replace(built, objects=objects)


def _need_kind(built: Arena, name: str, kind: str, known: list[str]) -> None:
    if kind not in known:
        hint = nearest(kind, known) if known else "it has none that can be chosen"
        raise UsageError(f"{name} has no {kind!r} to change; {hint}")
