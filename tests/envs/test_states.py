"""Saved in mid-episode and restored elsewhere, tasks go on as if nothing had happened."""

import itertools
import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from ucpo.envs.adapters import GymnasiumTask
from ucpo.envs.navigation.names import NAMES as NAVIGATION
from ucpo.envs.registry import make_task
from ucpo.envs.velocity.runners import NAMES as VELOCITY
from ucpo.errors import UsageError
from ucpo.stock import Start

TASKS = (*VELOCITY, *(name for name in NAVIGATION if not name.endswith("0-v0")))
SMALL = ("Courier-v0", "Courier2-v0", "TwoActions-v0")
BEFORE, AFTER, ENVS = 90, 200, 2


def build(name):
    limit = {} if name in SMALL else {"max_episode_steps": 150}  # so that episodes end in between
    return make_task(name, ENVS, **limit)


def starts(first, costs):
    for seed in itertools.count(first):
        yield Start(seed, np.full(costs, -0.1 * seed, np.float32))


def actions(task, steps, seed):
    """Forward on the whole, so that robots run, and into things."""
    random = np.random.default_rng(seed)
    return np.clip(random.normal(0.4, 0.7, (steps, ENVS, task.spec.action_size)), -1.0, 1.0)


def play(task, chosen):
    """Everything seen, as arrays; the state of a step is all its fields."""
    seen = []
    for action in chosen:
        step = task.step(action)
        episodes = step.episodes
        seen.append(
            [
                *(step.obs, step.stock, step.successor, step.successor_stock, step.initial_stock),
                *(step.reward, step.costs, step.terminated, step.truncated),
                *(episodes.returns, episodes.costs, episodes.lengths, episodes.seeds),
            ]
        )
    return [
        np.concatenate([np.ravel(values) for values in field]) for field in zip(*seen, strict=True)
    ]


def go_on(folder):
    """What the new process does: restore each task and continue it."""
    for name in (*TASKS, *SMALL):
        task = build(name)
        with np.load(folder / f"{name}-before.npz") as file:
            state = dict(file)
        begun = int(state.pop("begun"))
        obs, stock = task.set_state(state, starts(begun, len(task.spec.cost_names)))
        seen = play(task, actions(task, AFTER, 1))
        np.savez(folder / f"{name}-after.npz", obs, stock, *seen)
        task.close()


def test_a_restored_task_goes_on_bit_for_bit_in_a_new_process(tmp_path):
    expected = {}
    for name in (*TASKS, *SMALL):
        task = build(name)
        task.reset(starts(0, len(task.spec.cost_names)), stock_discount=0.999)
        before = [task.step(action) for action in actions(task, BEFORE, 0)]
        begun = ENVS + sum(len(step.episodes) for step in before)
        np.savez(tmp_path / f"{name}-before.npz", begun=begun, **task.get_state())
        seen = play(task, actions(task, AFTER, 1))
        expected[name] = [before[-1].obs, before[-1].stock, *seen]
        task.close()
    subprocess.run([sys.executable, __file__, str(tmp_path)], check=True)
    for name, arrays in expected.items():
        with np.load(tmp_path / f"{name}-after.npz") as file:
            continued = [file[f"arr_{index}"] for index in range(len(arrays))]
        for one, other in zip(arrays, continued, strict=True):
            np.testing.assert_array_equal(one, other, err_msg=name)
        assert len(arrays[-1]), f"no episode of {name} ended: autoreset was not tested"


def test_saving_does_not_disturb_the_episodes_under_way():
    one, other = build("SafetyPointGoal2-v0"), build("SafetyPointGoal2-v0")
    for task in (one, other):
        task.reset(starts(0, 1))
        play(task, actions(task, 20, 0))
    one.get_state()
    chosen = actions(one, 20, 1)
    for left, right in zip(play(one, chosen), play(other, chosen), strict=True):
        np.testing.assert_array_equal(left, right)


def test_sleeping_objects_sleep_on():
    one, other = build("SafetyPointGoal2-v0"), build("SafetyPointGoal2-v0")
    one.reset(starts(0, 1))
    for _ in range(20):
        one.step(np.zeros((ENVS, 2)))
    assert one.world.data[0].ntree_awake == 1
    other.set_state(one.get_state(), starts(2, 1))
    assert other.world.data[0].ntree_awake == 1


def test_a_state_of_another_batch_is_refused():
    task = make_task("SafetyHopperVelocity-v1", 3)
    with pytest.raises(UsageError, match="no state before its first reset"):
        task.get_state()
    task.reset(starts(0, 1))
    with pytest.raises(UsageError, match="3 environments with observations of size 11"):
        make_task("SafetyHopperVelocity-v1", 2).set_state(task.get_state(), starts(0, 1))


def test_foreign_environments_say_that_they_cannot():
    task = GymnasiumTask(lambda: gymnasium.make("ucpo/SafetyHopperVelocity-v1"), 1, name="Foreign")
    task.reset(starts(0, 1))
    with pytest.raises(UsageError, match="Foreign cannot save an episode under way"):
        task.get_state()
    task.close()


if __name__ == "__main__":
    go_on(Path(sys.argv[1]))
