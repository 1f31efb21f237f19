"""What a robot senses, and what rewards and costs are measured by, row by row.

The thread that steps a row does this too, from a loop that is compiled elsewhere and knows it by
its address only (`ucpo.envs.native.RowWork`). So arrays come as addresses, in a record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numba import carray, cfunc, from_dtype, njit, types  # type: ignore[attr-defined]

from ucpo.envs.interface import Arrays, Ints
from ucpo.envs.native import RowWork, pointer
from ucpo.problem import Floats

BINS = 16
SANE = 1e6
"""Velocity no simulation reaches before it blows up."""
CIRCLE = 1.5
"""Radius of the circle that pays best in the Circle tasks."""
GOAL_HEIGHT = 0.16
"""Of the goal's centre in Push, where distances are three-dimensional."""
MEASURES = 6
TO_GOAL, TO_BOX, BOX_TO_GOAL, TO_HAZARD, VASE_SPEED, CIRCLING = range(MEASURES)
"""Places of what is measured, in m and m/s: distances from the robot to the goal and to the nearest
hazard in the plane, from the robot to the box and from there to the goal in space; the speed of the
fastest vase; and that of the robot around the origin, less the further from the circle."""
READ = ("qpos", "qvel", "sensors", "position", "rotation")
WRITTEN = ("objects", "observation", "measures", "broken")
_COUNTS = (
    *("positions", "velocities", "sensed", "places", "observed", "own", "blocks"),
    *("first_mover", "movers", "vases", "boxes", "first_hazard", "last_hazard", "goal"),
)
_SCENE = np.dtype(
    [(name, np.int64) for name in (*READ, *WRITTEN, "spans", *_COUNTS)] + [("reach", np.float64)],
    align=True,
)


class Scene:
    """Arrays of a batch of n environments, and what becomes of a row of them once it is read.

    Args:
        arrays: By name, READ: MuJoCo's `qpos`, with the objects that move at the end, `qvel` and
            sensors, positions of the robots (n, 3) and rotations, row-major, (n, 9). And WRITTEN:
            places of objects (n, objects, 2), of those that move; observations (n, own sensors +
            16 per kind observed), which stay as they were where physics failed; measures (n,
            MEASURES); and whether physics failed, `broken` (n,).
        kinds: Slices of objects by kind.
        mover: The kind that moves, if any does.
        observed: Kinds with a block of lidar each.
        reach: Distance at which its readings begin.
    """

    def __init__(
        self,
        arrays: Arrays,
        kinds: Mapping[str, slice],
        mover: str | None,
        observed: Sequence[str],
        reach: float,
    ) -> None:
        spans = np.array([(kinds[kind].start, kinds[kind].stop) for kind in observed])
        self._kept_alive = arrays = {**arrays, "spans": spans}
        assert all(array.flags.c_contiguous for array in arrays.values())
        none = slice(0, 0)
        moving, hazards = kinds.get(mover or "", none), kinds.get("hazards", none)
        goal = kinds.get("goal", none)
        record = np.zeros(1, _SCENE)
        for name, array in arrays.items():
            record[name] = array.ctypes.data
        record["reach"] = reach
        record["positions"], record["velocities"], record["sensed"], record["places"] = (
            arrays[name].shape[1] for name in ("qpos", "qvel", "sensors", "objects")
        )
        record["observed"], record["blocks"] = arrays["observation"].shape[1], len(spans)
        record["own"] = arrays["observation"].shape[1] - BINS * len(spans)
        record["first_mover"], record["movers"] = moving.start, moving.stop - moving.start
        record["vases"] = record["movers"] if mover == "vases" else 0
        record["boxes"] = record["movers"] if mover == "push_box" else 0
        record["first_hazard"], record["last_hazard"] = hazards.start, hazards.stop
        record["goal"] = goal.start if goal.stop > goal.start else -1
        self._record = record
        self.look = RowWork(_look.address or 0, record.ctypes.data)
        """Fills in what is written of a row, as long as this object lives."""


@njit(cache=True, nogil=True)
def lidar(
    objects: Floats, spans: Ints, position: Floats, rotation: Floats, reach: float, reading: Floats
) -> None:
    """Closeness of the nearest object per direction, 0 (out of reach) to 1, one block per kind.

    An object also lights the two neighbouring directions, more the nearer its own direction is to
    their edge, so that a reading changes smoothly as the robot turns. Directions count
    counter-clockwise from the robot's x axis. Objects lie on the floor and the robot's frame is
    three-dimensional, so a tilted robot mixes in its height.

    Args:
        objects: Positions, shape (objects, 2).
        spans: First and last (exclusive) object of each block, shape (blocks, 2).
        position: Of the robot, shape (3,).
        rotation: Of the robot, row-major, shape (9,).
        reach: Distance at which readings begin.
        reading: Where the result goes, shape (16 * blocks,).
    """
    reading[:] = 0.0
    width = 2 * np.pi / BINS
    for block in range(len(spans)):
        for i in range(spans[block, 0], spans[block, 1]):
            dx = objects[i, 0] - position[0]
            dy = objects[i, 1] - position[1]
            dz = -position[2]
            x = rotation[0] * dx + rotation[3] * dy + rotation[6] * dz
            y = rotation[1] * dx + rotation[4] * dy + rotation[7] * dz
            near = max(0.0, reach - np.sqrt(x * x + y * y)) / reach
            angle = np.arctan2(y, x)
            turn = (angle + 2 * np.pi if angle < 0.0 else angle) / width
            home = int(turn)
            ahead = turn - home
            first = block * BINS
            own = first + home % BINS
            left = first + (home + 1) % BINS
            right = first + (home - 1) % BINS
            reading[own] = max(reading[own], near)
            reading[left] = max(reading[left], ahead * near)
            reading[right] = max(reading[right], (1.0 - ahead) * near)


@njit(cache=True, nogil=True)
def rotation_matrix(quaternion: Floats, matrix: Floats) -> None:
    """The row-major rotation matrix of a unit quaternion (w, x, y, z), (4,) into (9,)."""
    w, x, y, z = quaternion
    matrix[0] = w * w + x * x - y * y - z * z
    matrix[1] = 2.0 * (x * y - w * z)
    matrix[2] = 2.0 * (x * z + w * y)
    matrix[3] = 2.0 * (x * y + w * z)
    matrix[4] = w * w - x * x + y * y - z * z
    matrix[5] = 2.0 * (y * z - w * x)
    matrix[6] = 2.0 * (x * z - w * y)
    matrix[7] = 2.0 * (y * z + w * x)
    matrix[8] = w * w - x * x - y * y + z * z


@njit(cache=True, nogil=True)
def nearest(objects: Floats, first: int, last: int, position: Floats) -> float:
    """Distance in the plane to the nearest of objects (objects, 2) from the first to the last."""
    found = np.inf
    for i in range(first, last):
        dx = objects[i, 0] - position[0]
        dy = objects[i, 1] - position[1]
        found = min(found, np.sqrt(dx * dx + dy * dy))
    return float(found)


@njit(cache=True, nogil=True)
def distance(place: Floats, x: float, y: float, z: float) -> float:
    """In space, from a place (3,) to another."""
    return float(np.sqrt((place[0] - x) ** 2 + (place[1] - y) ** 2 + (place[2] - z) ** 2))


@njit(cache=True, nogil=True)
def top_speed(qvel: Floats, count: int) -> float:
    """Linear speed of the fastest of the `count` free bodies at the end of `qvel`."""
    speed = 0.0
    first = len(qvel) - 6 * count
    for i in range(count):
        x, y, z = qvel[first + 6 * i : first + 6 * i + 3]
        speed = max(speed, np.sqrt(x * x + y * y + z * z))
    return speed


@njit(cache=True, nogil=True, error_model="numpy")
def circling(position: Floats, rotation: Floats, velocity: Floats, radius: float) -> float:
    """Counter-clockwise speed around the origin, less the further from the circle.

    Args:
        position: Of the robot, shape (3,).
        rotation: Of the robot, row-major, shape (9,).
        velocity: Of the robot in its own frame, shape (3,).
        radius: Of the circle.
    """
    x, y = position[0], position[1]
    u = v = 0.0
    for i in range(3):
        u += rotation[i] * velocity[i]
        v += rotation[3 + i] * velocity[i]
    away = np.sqrt(x * x + y * y)
    return float((-u * y + v * x) / away / (1.0 + abs(away - radius)))


@njit(cache=True, nogil=True)
def _row(address: int, size: int, row: int) -> Floats:
    numbers: Floats = carray(pointer(address + 8 * size * row), (size,), np.float64)
    return numbers


@cfunc(types.void(types.CPointer(from_dtype(_SCENE)), types.int64), cache=True)  # type: ignore[no-untyped-call]
def _look(scene, row):  # type: ignore[no-untyped-def]
    at = carray(scene, 1)[0]
    qpos = _row(at.qpos, at.positions, row)
    objects = _row(at.objects, 2 * at.places, row).reshape(at.places, 2)
    first = len(qpos) - 7 * at.movers
    for i in range(at.movers):
        objects[at.first_mover + i, 0] = qpos[first + 7 * i]
        objects[at.first_mover + i, 1] = qpos[first + 7 * i + 1]

    sensors, qvel = _row(at.sensors, at.sensed, row), _row(at.qvel, at.velocities, row)
    position, rotation = _row(at.position, 3, row), _row(at.rotation, 9, row)
    measures = _row(at.measures, MEASURES, row)
    measures[CIRCLING] = circling(position, rotation, sensors[3:6], CIRCLE)
    measures[TO_HAZARD] = nearest(objects, at.first_hazard, at.last_hazard, position)
    measures[VASE_SPEED] = top_speed(qvel, at.vases)
    if at.goal >= 0:
        goal = objects[at.goal]
        measures[TO_GOAL] = nearest(objects, at.goal, at.goal + 1, position)
        if at.boxes:
            box = qpos[-7:-4]
            measures[TO_BOX] = distance(box, position[0], position[1], position[2])
            measures[BOX_TO_GOAL] = distance(box, goal[0], goal[1], GOAL_HEIGHT)

    broken = carray(pointer(at.broken + row), (1,), np.bool_)
    broken[0] = False
    for speed in qvel:
        if not abs(speed) < SANE:  # nor is what is not a number
            broken[0] = True
    if broken[0]:
        return

    observation = _row(at.observation, at.observed, row)
    if at.own == 12:
        observation[:12] = sensors[:12]
    else:
        observation[:15] = sensors[:15]
        rotation_matrix(sensors[15:19], observation[15:24])
    spans = carray(pointer(at.spans), (at.blocks, 2), np.int64)
    lidar(objects, spans, position, rotation, at.reach, observation[at.own :])
