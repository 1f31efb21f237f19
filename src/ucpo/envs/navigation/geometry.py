"""Distances and speeds that rewards and costs are made of, compiled for small batches.

NumPy's overhead per operation is larger than the arithmetic on eight rows; these loops are not.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ucpo.problem import Floats


@njit(cache=True, nogil=True)
def nearest(objects: Floats, first: int, last: int, position: Floats) -> Floats:
    """Planar distance from each robot to the nearest of some objects.

    Args:
        objects: Positions, shape (n, objects, 2).
        first: The first object to look at.
        last: The one after the last.
        position: Of the robots, shape (n, 3).
    """
    distance = np.full(len(objects), np.inf)
    for n in range(len(objects)):
        for i in range(first, last):
            dx = objects[n, i, 0] - position[n, 0]
            dy = objects[n, i, 1] - position[n, 1]
            distance[n] = min(distance[n], np.sqrt(dx * dx + dy * dy))
    return distance


@njit(cache=True, nogil=True)
def top_speed(qvel: Floats, count: int) -> Floats:
    """Linear speed of the fastest of the `count` free bodies at the end of `qvel`, shape (n,)."""
    speed = np.zeros(len(qvel))
    first = qvel.shape[1] - 6 * count
    for n in range(len(qvel)):
        for i in range(count):
            x, y, z = qvel[n, first + 6 * i : first + 6 * i + 3]
            speed[n] = max(speed[n], np.sqrt(x * x + y * y + z * z))
    return speed


@njit(cache=True, nogil=True)
def push_distances(position: Floats, box: Floats, goal: Floats, height: float) -> Floats:
    """Robot to box and box to goal in space, shape (n, 2); the goal's centre is at `height`."""
    distances = np.empty((len(position), 2))
    for n in range(len(position)):
        x, y, z = box[n]
        distances[n, 0] = np.sqrt(
            (x - position[n, 0]) ** 2 + (y - position[n, 1]) ** 2 + (z - position[n, 2]) ** 2
        )
        distances[n, 1] = np.sqrt((x - goal[n, 0]) ** 2 + (y - goal[n, 1]) ** 2 + (z - height) ** 2)
    return distances


@njit(cache=True, nogil=True)
def circling(position: Floats, rotation: Floats, velocity: Floats, radius: float) -> Floats:
    """Counter-clockwise speed around the origin, less the further from the circle, shape (n,).

    Args:
        position: Of the robots, shape (n, 3).
        rotation: Of the robots, row-major, shape (n, 9).
        velocity: Of the robots in their own frames, shape (n, 3).
        radius: Of the circle.
    """
    speed = np.empty(len(position))
    for n in range(len(position)):
        x, y = position[n, 0], position[n, 1]
        u = v = 0.0
        for i in range(3):
            u += rotation[n, i] * velocity[n, i]
            v += rotation[n, 3 + i] * velocity[n, i]
        distance = np.sqrt(x * x + y * y)
        speed[n] = (-u * y + v * x) / distance / (1.0 + abs(distance - radius))
    return speed
