"""How long checkpoints hold up a training at the paper's size, and how long resuming takes.

    python benchmarks/checkpoints.py FOLDER

The replay is full: a million transitions of SafetyPointGoal1 (60 observations, 2 actions, 1 cost).
"""

import shutil
import sys
import time
from pathlib import Path

import numpy as np

from ucpo import UCP
from ucpo.runs.checkpoints import Checkpoints
from ucpo.runs.folder import RunFolder
from ucpo.runs.resume import Saver

ROWS = 125_000  # of 8 transitions each


def timed(what, action):
    began = time.perf_counter()
    made = action()
    print(f"{what:<55} {time.perf_counter() - began:7.3f} s", flush=True)
    return made


def add(replay, rows, generator):
    """Fill in rows of plausible size."""
    like = replay.rows(0, 1)
    new = {
        name: generator.random((rows, *column.shape[1:]), np.float32).astype(column.dtype)
        for name, column in like.items()
    }
    replay.restore(replay.rows_written, new)


def main():
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "runs/benchmark-checkpoints")
    shutil.rmtree(folder, ignore_errors=True)
    agent = UCP("SafetyPointGoal1-v0")
    agent.training.begin()
    generator = np.random.default_rng(0)
    replay = agent.learner.replay
    print(
        f"{replay.rows_kept * 8:,} transitions, {replay.rows_kept * replay.row_bytes / 1e6:.0f} MB"
    )
    folder.mkdir(parents=True)
    run = RunFolder(folder)
    run.write_config(agent.config)
    saver = Saver(agent.training, run, None, lambda: False)
    agent.learner.updates, steps = 1, 0
    while replay.rows_written < ROWS:
        add(replay, 2_500, generator)
        agent.learner.env_steps += 20_000
        began = time.perf_counter()
        saver._checkpoints.keep_up()
        steps = max(steps, time.perf_counter() - began)
    print(f"{'longest pause for segments of 20 000 transitions':<55} {steps:7.3f} s")
    timed("checkpoint with a full replay", saver.write)
    stalls = []
    for _ in range(10):
        add(replay, 1_000, generator)
        agent.learner.env_steps += 8_000
        began = time.perf_counter()
        saver._checkpoints.keep_up()
        saver.write()
        stalls.append(time.perf_counter() - began)
    print(f"{'longest of 10 more, each after 8 000 new transitions':<55} {max(stalls):7.3f} s")
    everything = Checkpoints(folder / "other", replay, minutes=5.0)
    (folder / "other").mkdir()
    timed("all rows at once (never happens in a run)", everything.keep_up)
    run.close()
    shutil.rmtree(folder / "other")
    made = timed("resuming, reading the replay included", lambda: UCP.resume(folder))
    assert made.learner.replay.rows_written == replay.rows_written
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(f"on the disk: {size / 1e6:.0f} MB")
    made._resumed.folder.close()
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
