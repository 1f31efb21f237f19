"""kill -9 at any moment, and full disks: a run that is resumed ends as one that never stopped.

Processes train; they are killed at random moments, many of them while a checkpoint is being
written, and the run is resumed until it is done. What it leaves must be what an uninterrupted run
leaves, bit for bit.
"""

import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import threading
import time

import pytest

from tests.runs.test_resume import COURIER, SMALL, assert_same
from ucpo import UCP
from ucpo.runs.checkpoints import checkpoints
from ucpo.storage import files

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
CONTEXT.set_forkserver_preload(["ucpo.runs.run"])  # a new process then takes no time to start


def learn(run, options, seed, begun):
    """What the processes do: begin or go on, and dawdle while writing, so that kills hit that."""
    chance = random.Random(seed)

    def slow(function):
        def slowed(*args):
            time.sleep(0.02 * (chance.random() < 0.2))
            return function(*args)

        return slowed

    os.fsync, os.write = slow(os.fsync), slow(os.write)
    files._RETRY = 0.05
    if (run / "config.toml").is_file():
        agent = resume(run)
        begun.set()
        agent.learn(show=False)
    else:
        agent = UCP(**options)
        begun.set()
        agent.learn(run=run, show=False)


def resume(run):
    """Resume; a disk that happens to be full at this moment is tried again, as a user would."""
    while True:
        try:
            return UCP.resume(run)
        except OSError:
            time.sleep(0.05)


def newest(run):
    """Number of the newest checkpoint, 0 without one."""
    names = [path.stem for path in run.glob("checkpoint/manifest-*.json")]
    return max((int(name.removeprefix("manifest-")) for name in names), default=0)


def torture(run, options, rounds, chance):
    """Kill and resume until so many kills are done, then let it finish; kills that hit a write."""
    hits = 0
    for number in range(rounds + 1):
        begun = CONTEXT.Event()
        process = CONTEXT.Process(target=learn, args=(run, options, number, begun))
        process.start()
        assert begun.wait(60)
        if number < rounds:
            goal = newest(run) + chance.randrange(3)  # by what was done, however busy the machine
            while newest(run) < goal and process.is_alive():
                time.sleep(0.001)
            time.sleep(chance.uniform(0.0, 0.05))
            assert process.is_alive(), "the run ended before all kills: make it longer"
            process.kill()
            process.join()
            if run.is_dir() and not (run / "config.toml").is_file():  # it had hardly begun
                shutil.rmtree(run)
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
    hits = compare(task, tmp_path, rounds=20, env_steps=4_000)
    assert hits >= 3, "hardly a kill hit the writing of a file"


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 4 MB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounting = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)]
    if subprocess.run(mounting, check=False, capture_output=True).returncode:
        pytest.skip("no right to mount a file system here")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


OPTIONS = {"task": "Courier-v0", "checkpoint_steps": 40, **COURIER, "env_steps": 800}


def fill(folder):
    """Take all the room there is."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size in (2**16, 2**12, 1):
            try:
                while file.write(b"?" * size) == size:
                    pass
            except OSError:
                continue
    return ballast


def at_step(agent, env_steps, act):
    """Do something in the middle of a training."""
    original = agent.learner.remember

    def remember(*args):
        original(*args)
        if agent.learner.env_steps == env_steps:
            act()

    agent.learner.remember = remember


def test_a_full_disk_pauses_the_run_and_changes_nothing(tmp_path, small_disk, monkeypatch, caplog):
    monkeypatch.setattr(files, "_RETRY", 0.1)
    UCP(**OPTIONS).learn(run=tmp_path / "whole", show=False)
    run, steps = small_disk / "run", []
    agent = UCP(**OPTIONS)

    def make_room():
        while "the disk is full" not in caplog.text:
            time.sleep(0.01)
        newest = next(checkpoints(run))
        newest.state()
        steps.append((newest.env_steps, agent.learner.env_steps))
        (small_disk / "ballast").unlink()

    thread = threading.Thread(target=make_room)
    at_step(agent, 420, lambda: (fill(small_disk), thread.start()))
    agent.learn(run=run, show=False)
    thread.join()
    assert steps == [(400, 440)]  # paused at the checkpoint it could not write
    assert_same(tmp_path / "whole", run)


def test_a_run_ended_while_the_disk_is_full_goes_on_from_its_last_checkpoint(
    tmp_path, small_disk, monkeypatch, caplog
):
    UCP(**OPTIONS).learn(run=tmp_path / "whole", show=False)
    run, agent = small_disk / "run", UCP(**OPTIONS)

    def interrupt():
        while "the disk is full" not in caplog.text:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    at_step(agent, 420, lambda: (fill(small_disk), thread.start()))
    with pytest.raises(OSError, match="No space left"):
        agent.learn(run=run, show=False)
    thread.join()
    (small_disk / "ballast").unlink()
    agent = UCP.resume(run)
    assert agent.learner.env_steps == 400
    agent.learn(show=False)
    assert_same(tmp_path / "whole", run)


def test_writes_that_fail_halfway_change_nothing(tmp_path, monkeypatch):
    UCP(**OPTIONS).learn(run=tmp_path / "whole", show=False)
    chance, original, failures = random.Random(0), os.write, []

    def write(descriptor, data):
        if chance.random() < 0.2:
            failures.append(original(descriptor, data[: len(data) // 2]))
            raise OSError(28, "No space left on device")
        return original(descriptor, data)

    monkeypatch.setattr(files, "_RETRY", 0.0)
    agent = UCP(**OPTIONS)
    at_step(agent, 40, lambda: monkeypatch.setattr(os, "write", write))
    agent.learn(run=tmp_path / "run", show=False)
    monkeypatch.undo()
    assert len(failures) > 10
    assert_same(tmp_path / "whole", tmp_path / "run")


@pytest.mark.slow
def test_kills_while_the_disk_fills_up(tmp_path, small_disk):
    """A second process takes and gives back all the room while the run is killed and resumed."""
    options = {**OPTIONS, "env_steps": 3000}
    UCP(**options).learn(run=tmp_path / "whole", show=False)
    done = threading.Event()

    def breathe():
        chance = random.Random(0)
        while not done.wait(chance.uniform(0.0, 0.3)):
            fill(small_disk)
            done.wait(chance.uniform(0.0, 0.3))
            (small_disk / "ballast").unlink()

    thread = threading.Thread(target=breathe)
    thread.start()
    try:
        torture(small_disk / "run", options, 20, random.Random(1))
    finally:
        done.set()
        thread.join()
    assert_same(tmp_path / "whole", small_disk / "run")
