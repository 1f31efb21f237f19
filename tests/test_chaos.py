"""kill -9 at any moment, and full disks: a run that is resumed ends as one that never stopped.

Processes train; they are killed at random moments, many of them while a checkpoint is being
written, and the run is resumed until it is done. What it leaves must be what an uninterrupted run
leaves, bit for bit.
"""

import multiprocessing
import os
import random
import time

import pytest

from tests.test_resuming import COURIER, SMALL, assert_same
from ucpo import UCP, files

NAVIGATION = {
    **SMALL,
    "env_steps": 1200,
    "num_envs": 2,
    "random_steps": 100,
    "replay": {"batch": 16, "capacity": 500, "n_step": 3},
    "budget_range": "0:20",
}
TASKS = {"Courier-v0": COURIER, "SafetyPointGoal1-v0": NAVIGATION}
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["ucpo.run"])  # a new process then takes no time to start


def learn(run, options, seed, begun):
    """What the processes do: begin or go on, and dawdle while writing, so that kills hit that."""
    chance = random.Random(seed)

    def slow(function):
        def slowed(*args):
            time.sleep(0.02 * (chance.random() < 0.2))
            return function(*args)

        return slowed

    os.fsync, os.write = slow(os.fsync), slow(os.write)
    if (run / "config.toml").is_file():
        agent = UCP.resume(run)
        begun.set()
        agent.learn(show=False)
    else:
        agent = UCP(**options)
        begun.set()
        agent.learn(run=run, show=False)


def torture(run, options, rounds, chance):
    """Kill and resume until so many kills are done, then let it finish; kills that hit a write."""
    hits = 0
    for number in range(rounds + 1):
        begun = CONTEXT.Event()
        process = CONTEXT.Process(target=learn, args=(run, options, number, begun))
        process.start()
        assert begun.wait(60)
        if number < rounds:
            time.sleep(chance.uniform(0.0, 0.25))
            assert process.is_alive(), "the run ended before all kills: make it longer"
            process.kill()
            if run.is_dir() and not (run / "config.toml").is_file():  # nothing but an empty folder
                (run / files.LOCK_FILE).unlink(missing_ok=True)
                run.rmdir()
        process.join()
        hits += bool(list(run.rglob("*" + files.PARTIAL)))
    assert process.exitcode == 0
    return hits


def compare(task, tmp_path, rounds, **more):
    options = {"task": task, "checkpoint_steps": 40, **TASKS[task], **more}
    UCP(**options).learn(run=tmp_path / "whole", show=False)
    hits = torture(tmp_path / "killed", options, rounds, random.Random(rounds))
    assert_same(tmp_path / "whole", tmp_path / "killed")
    return hits


@pytest.mark.parametrize("task", TASKS)
def test_a_run_survives_some_kills(task, tmp_path):
    compare(task, tmp_path, rounds=3, env_steps=TASKS[task]["env_steps"] // 2)


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_a_run_survives_twenty_kills(task, tmp_path):
    hits = compare(task, tmp_path, rounds=20, env_steps=12_000)
    assert hits >= 3, "hardly a kill hit the writing of a file"
