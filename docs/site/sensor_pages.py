"""A page for each task, with the meaning of each number observed, and one that leads to them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import mujoco

from ucpo.envs.navigation.names import NAMES, summary
from ucpo.envs.navigation.sensors import BINS
from ucpo.envs.navigation.tasks import Arena, arena
from ucpo.envs.velocity import runners
from ucpo.envs.velocity.world import build

PICTURES = Path(__file__).parents[1] / "pictures"
BODY = (
    ("accelerometer", 3, "acceleration along the robot's x, y and z axes, gravity included, m/s²"),
    ("velocimeter", 3, "velocity along the robot's axes, m/s"),
    ("gyro", 3, "turning rate about the robot's axes, rad/s"),
    ("magnetometer", 3, "direction of a fixed field in the robot's axes: where it is heading"),
)
BALL = (
    ("ball, turning rate", 3, "of the ball the Car's rear rests on, rad/s"),
    ("ball, rotation", 9, "the ball's rotation matrix, row by row"),
)
SEEN = {
    "goal": "the goal",
    "hazards": "hazards",
    "vases": "vases",
    "buttons": "all buttons, lit or not (0 in the pause after a success)",
    "gremlins": "gremlins",
    "pillars": "pillars",
    "push_box": "the box",
    "circle": "the centre of the circle",
}
LEAD = """# Each task and its sensors

Each task has a page made from the task itself when this site is built: a picture, what each number
of an observation is, and what a step can cost. [Navigation](tasks.md) and [velocity](velocity.md)
say how the tasks work.

![A robot among hazards, and its sixteen lidar readings](pictures/lidar.png)

*Lidar: sixteen directions, counter-clockwise from the robot's x axis (its nose). A reading is 0 for
nothing within reach and 1 for an object at the robot's own place; the nearest object of the kind
counts. An object also lights the two neighbouring directions, the more the nearer it is to their
edge, so that readings change smoothly as the robot turns. Drawn by `python docs/pictures/make.py`.*
"""

Block = tuple[str, int, str]


def names() -> list[str]:
    """All tasks of the literature."""
    return [*(name for name in NAMES if not name.endswith("0-v0")), *runners.NAMES]


def lead() -> str:
    """What leads to the pages of tasks."""
    rows = ["| task | numbers observed | what to do |", "|---|---|---|"]
    for name in names():
        size = sum(size for _, size, _ in _blocks(name))
        rows.append(f"| [{name}](tasks/{name}.md) | {size} | {_summary(name)} |")
    return LEAD + "\n" + "\n".join(rows) + "\n"


def page(name: str) -> str:
    """The page of one task."""
    return (_velocity(name) if name in runners.NAMES else _navigation(name)) + "\n"


def _summary(name: str) -> str:
    return runners.summary(name) if name in runners.NAMES else summary(name)


def _blocks(name: str) -> Iterator[Block]:
    return velocity_blocks(name) if name in runners.NAMES else navigation_blocks(arena(name))


def navigation_blocks(place: Arena) -> Iterator[Block]:
    """Name, size and meaning of each part of an observation, in order."""
    yield from BODY
    if place.robot.name == "Car":
        yield from BALL
    for objects in place.objects:
        if objects.observed:
            lit = objects.kind == "goal" and place.aim == "Button"
            seen = "the lit button" if lit else SEEN[objects.kind]
            what = f"closeness of {seen}, 0 beyond {place.reach:g} m"
            yield f"lidar, {objects.kind.replace('_', ' ')}", BINS, what


def velocity_blocks(name: str) -> Iterator[Block]:
    """The same for a velocity task, from the joints of its model."""
    runner = runners.RUNNERS[name]
    model = build(runner)
    joints = [model.joint(i) for i in range(model.njnt)]
    hidden = runner.hidden
    for joint in joints:
        for part, size, unit in _positions(joint):
            shown = size - min(size, hidden)
            hidden -= size - shown
            if shown:
                left_out = " (x and y are not observed)" if shown < size else ""
                yield f"{joint.name}{part}", shown, f"{unit}{left_out}"
    for joint in joints:
        for part, size, unit in _velocities(joint):
            yield f"{joint.name}{part}, rate", size, unit
    if runner.sees_forces:
        bodies = model.nbody
        yield "inertia", 10 * bodies, "of each body, about the centre of mass, 10 numbers each"
        yield "body velocities", 6 * bodies, "of each body, turning and moving, 6 numbers each"
        yield "actuator forces", model.nv, "of each degree of freedom"
        yield "contact forces", 6 * bodies, "on each body, torque and force, 6 numbers each"


def _navigation(name: str) -> str:
    place = arena(name)
    lines = [f"# {name}", "", f"{summary(name)}.", ""]
    lines += [f"![{name} from above](../pictures/{name}.png)", ""]
    counted = ", ".join(
        f"{each.count} {each.kind.replace('_', ' ')}" for each in place.objects if each.count
    )
    lines += [f"{place.max_episode_steps} steps; {counted}.", ""]
    lines += [f"Costs by name: {', '.join(f'`{cost}`' for cost in place.cost_names)}."]
    charged = [f"`{each.kind}`" for each in place.objects if each.constrained]
    lines += [f"The total, `cost`, is 1 when any of {', '.join(charged)} charges.", ""]
    lines += ["## What is observed", "", "[Lidar](../sensors.md) has sixteen directions.", ""]
    return "\n".join([*lines, _table(navigation_blocks(place)), "", *_train(name)])


def _velocity(name: str) -> str:
    runner = runners.RUNNERS[name]
    lines = [f"# {name}", "", f"{runners.summary(name)}.", ""]
    lines += [f"![{name} and the entries of its joints](../pictures/{name}.png)", ""]
    lines += [f"{runners.MAX_EPISODE_STEPS} steps; a step faster than the limit costs 1.", ""]
    lines += ["## What is observed", ""]
    clipped = runner.velocity_clip
    if clipped is not None:
        lines += [f"Rates are clipped to ±{clipped:g}.", ""]
    return "\n".join([*lines, _table(velocity_blocks(name)), "", *_train(name)])


def _train(name: str) -> list[str]:
    """How to use a task, and what comes of it."""
    commands = [f"ucpo watch {name} --budget 25", f"ucpo train {name} --seed 0"]
    return [
        "## Use it",
        "",
        "```sh",
        *commands,
        "```",
        "",
        "[Results](../results.md) has what came of it.",
    ]


def _table(blocks: Iterator[Block]) -> str:
    rows, first = ["| entries | sensor | meaning |", "|---|---|---|"], 0
    for sensor, size, meaning in blocks:
        entries = f"{first}" if size == 1 else f"{first} to {first + size - 1}"
        rows.append(f"| {entries} | {sensor} | {meaning} |")
        first += size
    return "\n".join(rows)


def _positions(joint: mujoco.MjModel) -> list[tuple[str, int, str]]:
    if joint.type[0] == mujoco.mjtJoint.mjJNT_FREE:
        return [(", place", 3, "m"), (", rotation", 4, "a unit quaternion")]
    return [("", 1, "m" if joint.type[0] == mujoco.mjtJoint.mjJNT_SLIDE else "rad")]


def _velocities(joint: mujoco.MjModel) -> list[tuple[str, int, str]]:
    if joint.type[0] == mujoco.mjtJoint.mjJNT_FREE:
        return [(", place", 3, "m/s"), (", rotation", 3, "rad/s")]
    return [("", 1, "m/s" if joint.type[0] == mujoco.mjtJoint.mjJNT_SLIDE else "rad/s")]
