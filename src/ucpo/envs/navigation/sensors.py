"""What a robot senses of the objects around it, for whole batches at once."""

from __future__ import annotations

import numpy as np
from numba import njit

from ucpo.envs.interface import Ints
from ucpo.problem import Floats

BINS = 16


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
        objects: Positions, shape (n, objects, 2).
        spans: First and last (exclusive) object of each block, shape (blocks, 2).
        position: Of the robots, shape (n, 3).
        rotation: Of the robots, row-major, shape (n, 9).
        reach: Distance at which readings begin.
        reading: Where the result goes, shape (n, 16 * blocks).
    """
    reading[:] = 0.0
    width = 2 * np.pi / BINS
    for n in range(len(objects)):
        for block in range(len(spans)):
            for i in range(spans[block, 0], spans[block, 1]):
                dx = objects[n, i, 0] - position[n, 0]
                dy = objects[n, i, 1] - position[n, 1]
                dz = -position[n, 2]
                x = rotation[n, 0] * dx + rotation[n, 3] * dy + rotation[n, 6] * dz
                y = rotation[n, 1] * dx + rotation[n, 4] * dy + rotation[n, 7] * dz
                near = max(0.0, reach - np.sqrt(x * x + y * y)) / reach
                angle = np.arctan2(y, x)
                turn = (angle + 2 * np.pi if angle < 0.0 else angle) / width
                home = int(turn)
                ahead = turn - home
                first = block * BINS
                own = first + home % BINS
                left = first + (home + 1) % BINS
                right = first + (home - 1) % BINS
                reading[n, own] = max(reading[n, own], near)
                reading[n, left] = max(reading[n, left], ahead * near)
                reading[n, right] = max(reading[n, right], (1.0 - ahead) * near)


@njit(cache=True, nogil=True)
def rotation_matrices(quaternions: Floats, matrices: Floats) -> None:
    """Row-major rotation matrices of unit quaternions (w, x, y, z), (n, 4) into (n, 9)."""
    for n in range(len(quaternions)):
        w, x, y, z = quaternions[n]
        matrices[n, 0] = w * w + x * x - y * y - z * z
        matrices[n, 1] = 2.0 * (x * y - w * z)
        matrices[n, 2] = 2.0 * (x * z + w * y)
        matrices[n, 3] = 2.0 * (x * y + w * z)
        matrices[n, 4] = w * w - x * x + y * y - z * z
        matrices[n, 5] = 2.0 * (y * z - w * x)
        matrices[n, 6] = 2.0 * (x * z - w * y)
        matrices[n, 7] = 2.0 * (y * z + w * x)
        matrices[n, 8] = w * w - x * x - y * y + z * z
