"""Layouts: the original's for a seed, its rules for all seeds, its distribution over them."""

import json
from pathlib import Path

import numpy as np
import pytest

from ucpo.envs.navigation import layout, parity, robots
from ucpo.envs.navigation.env import NavigationTask
from ucpo.envs.navigation.names import NAMES
from ucpo.envs.navigation.tasks import arena
from ucpo.errors import UsageError

GOLDEN = Path(__file__).parents[2] / "golden"
RECORDED = [name for name in NAMES if (GOLDEN / f"{name}.npz").exists()]


@pytest.mark.parametrize("name", RECORDED)
def test_a_seed_gives_the_layout_and_the_first_observation_of_the_original(name):
    with np.load(GOLDEN / f"{name}.npz") as recorded:
        seeds = json.loads(str(recorded["meta"]))["seeds"]
        task = NavigationTask(len(seeds), name)
        task.begin(np.arange(len(seeds)), seeds)
        for row, seed in enumerate(seeds):
            drawn = layout.draw(task.rules, layout.Stream(seed))
            start = parity.read_layout(task, json.loads(str(recorded[f"s{seed}/layout"])))
            moved = [] if task.arena.aim == "Circle" else [task.world.spans["goal"].start]
            tolerance = 2e-9 if task.arena.aim == "Circle" else 0.0  # the jitter of fixed places
            np.testing.assert_allclose(drawn.robot, start.robot, rtol=0, atol=0)
            np.testing.assert_allclose(
                np.delete(drawn.objects, moved, 0),
                np.delete(start.objects, moved, 0),
                rtol=0,
                atol=tolerance,
            )
            # The goal is drawn once more after the layout, or stands on a button.
            np.testing.assert_allclose(task.world.objects[row], start.objects, rtol=0, atol=2e-9)
            settled = slice(
                3, None
            )  # a Car's first accelerations hang on the last bit of a contact
            np.testing.assert_allclose(
                task.observation[row][settled], recorded[f"s{seed}/obs"][0][settled], atol=1e-6
            )
        task.close()


def test_a_car_starts_with_the_recorded_reading_where_the_quaternion_is_the_recorded_one(
    monkeypatch,
):
    """The last bit decides which wheels touch; the recordings' bits are NumPy 1.23's (docs)."""
    same = []
    for name in (name for name in RECORDED if "Car" in name):
        with np.load(GOLDEN / f"{name}.npz") as recorded:
            for seed in json.loads(str(recorded["meta"]))["seeds"]:
                turned = recorded[f"s{seed}/qpos"][0][3:7]
                monkeypatch.setattr(robots, "yaw_quaternion", lambda yaw, turned=turned: turned)
                task = NavigationTask(1, name)
                task.begin(np.arange(1), [seed])
                reading = recorded[f"s{seed}/obs"][0][:3]
                same.append(np.abs(task.observation[0][:3] - reading).max() < 1e-3)
                task.close()
    assert len(same) - sum(same) <= 2


def test_first_readings_of_a_car_come_as_often_as_in_the_original_without_avx_512():
    """241, 85 and 74 of 400 there (docs/tasks.md); without normalising it would be 235, 19, 146."""
    task = NavigationTask(100, "SafetyCarGoal1-v0")
    found = []
    for first in range(0, 400, 100):
        task.begin(np.arange(100), list(range(first, first + 100)))
        found += task.observation[:, 2].tolist()
    task.close()
    counts = [sum(abs(z - reading) < 0.05 for z in found) for reading in (4.289, 9.529, 0.0)]
    assert counts == pytest.approx([241, 85, 74], abs=4)


# Means of 2000 layouts of the original (Button: 150) with their standard errors: distance robot to
# goal, |x| and |y| of the robot, distance to the nearest hazard, distance to the box.
ORIGINAL = {
    "SafetyPointGoal1-v0": ((1.399, 0.010), (0.544, 0.005), (0.753, 0.003), None),
    "SafetyPointGoal2-v0": ((1.889, 0.016), (0.808, 0.007), (0.854, 0.005), None),
    "SafetyPointPush1-v0": ((1.416, 0.010), (0.563, 0.005), (1.159, 0.007), (1.435, 0.013)),
    "SafetyCarPush2-v0": ((1.880, 0.016), (0.790, 0.007), (1.175, 0.007), (1.939, 0.019)),
    "SafetyPointButton1-v0": ((1.417, 0.043), (0.538, 0.020), (0.853, 0.022), None),
    "SafetyCarButton2-v0": ((1.749, 0.057), (0.732, 0.024), (0.828, 0.019), None),
}


@pytest.mark.parametrize("name", ORIGINAL)
def test_starts_are_distributed_as_in_the_original(name):
    robots, objects, task = _starts(name, 2000)
    nearest = {
        kind: np.linalg.norm(objects[:, span] - robots[:, None], axis=-1).min(-1)
        for kind, span in task.world.spans.items()
    }
    measured = [
        nearest["goal"],
        np.abs(robots).mean(-1),
        nearest["hazards"],
        nearest.get("push_box"),
    ]
    for values, expected in zip(measured, ORIGINAL[name], strict=True):
        if expected is not None:
            mean, error = expected
            both = np.hypot(error, values.std() / np.sqrt(len(values)))
            assert abs(values.mean() - mean) < 4 * both


def test_circle_starts_are_uniform_in_their_square_with_any_heading():
    rules = layout.Rules.of(arena("SafetyPointCircle1-v0"))
    drawn = [layout.draw(rules, layout.Stream(seed)) for seed in range(2000)]
    places = np.array([each.robot for each in drawn])
    turns = np.array([each.robot_yaw for each in drawn])
    for values, low, high in ((places.ravel(), -0.8, 0.8), (turns, 0.0, 2 * np.pi)):
        assert low <= values.min() and values.max() <= high
        shares = np.histogram(values, 8, (low, high))[0] / len(values)
        np.testing.assert_allclose(shares, 1 / 8, atol=4 * np.sqrt(1 / 8 / len(values)))


@pytest.mark.parametrize("name", [name for name in NAMES if "Circle" not in name])
def test_nothing_is_placed_closer_than_the_keepouts_allow(name):
    built = arena(name)
    rules = layout.Rules.of(built)
    radii = rules.keepout[:, None] + rules.keepout[None]
    np.fill_diagonal(radii, 0.0)
    for seed in range(25):
        drawn = layout.draw(rules, layout.Stream(seed))
        places = np.vstack([drawn.robot, drawn.objects])
        gaps = np.linalg.norm(places[:, None] - places[None], axis=-1)
        assert (gaps >= radii).all()
        assert (np.abs(places) <= built.extent - rules.keepout[:, None]).all()


def test_a_new_goal_keeps_away_from_where_everything_is_now():
    task = NavigationTask(1, "SafetyPointGoal2-v0", threads=1)
    task.begin(np.array([0]), [3])
    task.world.position[0, :2] = 0.0  # the robot has moved to the centre
    for _ in range(200):
        task.aim.renew(task.world, 0, task.streams[0], fresh=False)
        goal, *others = task.world.objects[0]
        assert np.linalg.norm(goal) >= 0.705
        assert (np.linalg.norm(others[:10] - goal, axis=-1) >= 0.485).all()
        assert (np.linalg.norm(others[10:] - goal, axis=-1) >= 0.455).all()
        assert np.abs(goal).max() <= 2.0 - 0.305


def test_a_layout_that_was_thrown_away_is_not_half_used():
    # Reading in blocks must not change what is drawn: tiny first blocks against one huge block.
    rules = layout.Rules.of(arena("SafetyPointButton1-v0"))
    expected = layout.draw(rules, layout.Stream(5))
    stream = layout.Stream(5)
    everything = np.random.RandomState(5).random_sample(200_000)
    places, turns = np.zeros((14, 2)), np.zeros(14)
    used, thrown_away, complete = layout._arrange(
        everything, rules.low, rules.high, rules.keepout, places, turns
    )
    assert complete and thrown_away > 0
    np.testing.assert_array_equal(places[1:], expected.objects)
    layout.draw(rules, stream)
    following: list[float] = []
    stream.read(lambda draws: (following.extend(draws[:3]), (3, True))[1], 8)
    np.testing.assert_array_equal(following, everything[used : used + 3])


def test_idle_steps_pass_over_one_draw_each():
    stream = layout.Stream(0)
    stream.idle()
    stream.idle(2)
    drawn: list[float] = []
    stream.read(lambda draws: (drawn.append(draws[0]), (1, True))[1], 4)
    original = np.random.RandomState(0)
    for _ in range(3):
        original.binomial(10, 1.0)
    assert drawn[0] == original.random_sample()


def test_a_stream_is_the_legacy_generator_whatever_is_drawn_when():
    stream, original = layout.Stream(11), np.random.RandomState(11)
    for turn in range(400):
        drawn: list[float] = []
        stream.read(lambda draws, into=drawn: (into.extend(draws[:5]), (5, True))[1], 7)
        assert drawn == original.random_sample(5).tolist()
        assert stream.choice(4) == original.choice(4)
        assert stream.choice(3) == original.choice(3)
        stream.idle(turn)
        original.binomial(10, 1.0, size=turn)


def test_a_stream_goes_on_from_a_saved_state():
    stream, other = layout.Stream(1), layout.Stream(2)
    stream.choice(4)
    stream.idle(1000)
    other.set_state(stream.get_state())
    assert [stream.choice(100) for _ in range(500)] == [other.choice(100) for _ in range(500)]


def test_an_arena_without_room_says_so():
    rules = layout.Rules.of(arena("SafetyPointGoal2-v0", counts={"hazards": 100}, extent=1.0))
    with pytest.raises(UsageError, match="fewer of them or a larger extent"):
        layout.draw(rules, layout.Stream(0))


def test_a_goal_without_room_is_reported_and_not_forced():
    rules = layout.Rules.of(arena("SafetyPointGoal0-v0"))
    crowded = np.zeros((2, 2))
    wide = layout.Rules(rules.low, rules.high, np.array([9.0, 0.305]))
    assert layout.redraw(wide, layout.Stream(0), 1, crowded) is None


def _starts(name, count):
    task = NavigationTask(1, name, threads=1)
    robots, objects = [], []
    for seed in range(count):
        task.begin(np.array([0]), [seed])
        robots.append(task.world.position[0, :2].copy())
        objects.append(task.world.objects[0].copy())
    return np.array(robots), np.array(objects), task
