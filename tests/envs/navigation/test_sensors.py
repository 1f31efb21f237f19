"""Lidar and rotation matrices."""

import numpy as np
import pytest

from ucpo.envs.navigation import sensors

LEVEL = np.eye(3).ravel()


def one_lidar(points, reach=3.0, position=(0.0, 0.0, 0.0), rotation=LEVEL):
    reading = np.ones(16)
    points = np.asarray(points, float).reshape(-1, 2)
    spans = np.array([(0, len(points))])
    sensors.lidar(points, spans, np.array(position), rotation, reach, reading)
    return reading


def test_an_object_straight_ahead_lights_the_bins_on_both_sides():
    reading = one_lidar([(1.0, 0.0)])
    np.testing.assert_allclose(reading[[0, 15]], 2 / 3)
    assert np.count_nonzero(reading) == 2


def test_an_object_in_the_middle_of_a_bin_lights_its_neighbours_by_half():
    reading = one_lidar([(1.5 * np.cos(np.pi / 16), 1.5 * np.sin(np.pi / 16))])
    np.testing.assert_allclose(reading[[0, 1, 15]], [0.5, 0.25, 0.25])
    assert np.count_nonzero(reading) == 3


def test_an_object_out_of_reach_is_not_seen():
    assert not one_lidar([(3.0, 0.0)]).any()
    assert one_lidar([(3.0, 0.0)], reach=6.0)[0] == 0.5


def test_a_direction_that_rounds_to_a_full_turn_stays_in_range():
    reading = one_lidar([(1.0, -1e-17)])
    assert np.isfinite(reading).all() and reading[0] == pytest.approx(2 / 3)


def test_a_robot_reads_as_objects_one_by_one_would():
    random = np.random.default_rng(0)
    n, spans = 40, np.array([(0, 1), (1, 9), (9, 12)])
    objects = random.uniform(-3, 3, (n, 12, 2))
    position = random.uniform(-1, 1, (n, 3))
    quaternions = random.normal(size=(n, 4))
    quaternions /= np.linalg.norm(quaternions, axis=-1, keepdims=True)
    rotation, reading = np.zeros((n, 9)), np.zeros((n, 48))
    for row in range(n):
        sensors.rotation_matrix(quaternions[row], rotation[row])
        sensors.lidar(objects[row], spans, position[row], rotation[row], 3.0, reading[row])
        for block, (first, last) in enumerate(spans):
            expected = np.zeros(16)
            for place in objects[row, first:last]:
                ego = (np.append(place, 0.0) - position[row]) @ rotation[row].reshape(3, 3)
                distance = np.hypot(ego[0], ego[1])
                angle = np.angle(complex(ego[0], ego[1])) % (2 * np.pi)
                bin_ = int(angle / (np.pi / 8)) % 16
                share = angle / (np.pi / 8) - int(angle / (np.pi / 8))
                value = max(0.0, 3.0 - distance) / 3.0
                expected[bin_] = max(expected[bin_], value)
                expected[(bin_ + 1) % 16] = max(expected[(bin_ + 1) % 16], share * value)
                expected[(bin_ - 1) % 16] = max(expected[(bin_ - 1) % 16], (1 - share) * value)
            np.testing.assert_allclose(
                reading[row, 16 * block : 16 * block + 16], expected, rtol=0, atol=1e-12
            )


def test_rotation_matrices_turn_the_axes():
    matrices = np.zeros((2, 9))
    half = np.sqrt(0.5)
    sensors.rotation_matrix(np.array([1.0, 0, 0, 0]), matrices[0])
    sensors.rotation_matrix(np.array([half, 0, 0, half]), matrices[1])
    np.testing.assert_allclose(matrices[0].reshape(3, 3), np.eye(3))
    np.testing.assert_allclose(
        matrices[1].reshape(3, 3), [[0, -1, 0], [1, 0, 0], [0, 0, 1]], atol=1e-15
    )
