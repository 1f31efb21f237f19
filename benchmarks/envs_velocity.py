"""Speed of the velocity tasks, resets included, beside the plain Gymnasium environments.

    python benchmarks/envs_velocity.py [TASK ...]

Per task: environment steps per second with batches of 1 and 8 on one thread and of 8 on all, of one
of Gymnasium's own v4 environments (same physics and random actions, reset when it ends) and of
nothing but MuJoCo's steps; then the ratio of a batch of 8 on one thread to Gymnasium's environment.
All but the column of threads count seconds of one processor, which a busy machine disturbs less;
the contestants take turns within the same run.
"""

from __future__ import annotations

import argparse
import itertools
import os
import platform
import time
import warnings
from collections.abc import Callable
from statistics import geometric_mean, median

import gymnasium
import mujoco
import numpy as np

from ucpo.envs.velocity.env import VelocityTask
from ucpo.envs.velocity.runners import NAMES
from ucpo.stock import Start

SLICE = 200  # environment steps per turn
HEADER = (
    "| task | batch 1 | batch 8 | batch 8, default threads | Gymnasium v4 | physics only "
    "| batch 8 / Gymnasium |\n" + "|---" * 7 + "|"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tasks", nargs="*", default=list(NAMES), help="all six by default")
    parser.add_argument("--turns", type=int, default=25, help="turns of each contestant")
    options = parser.parse_args()
    report(options.tasks, options.turns)


def report(tasks: list[str], turns: int) -> None:
    """Print the table."""
    threads = len(os.sched_getaffinity(0))
    print(
        f"MuJoCo {mujoco.__version__}, Gymnasium {gymnasium.__version__}, "
        f"Python {platform.python_version()}, {threads} processors"
    )
    print(HEADER)
    ratios = []
    for name in tasks:
        contestants = [
            own(name, 1, 1, time.thread_time),
            own(name, 8, 1, time.thread_time),
            own(name, 8, None, time.perf_counter),
            plain(name),
            bare(name),
        ]
        taken = np.array([[turn() for turn in contestants] for _ in range(turns + 1)])[1:]
        speeds = SLICE / taken.mean(0)
        ratios.append(median(taken[:, 3] / taken[:, 1]))
        cells = [name, *(f"{speed:,.0f}" for speed in speeds), f"{ratios[-1]:.2f}"]
        print("| " + " | ".join(cells) + " |", flush=True)
    print(f"geometric mean of the ratios {geometric_mean(ratios):.2f}, smallest {min(ratios):.2f}")


def own(
    name: str, num_envs: int, threads: int | None, clock: Callable[[], float]
) -> Callable[[], float]:
    """Takes a turn with our task and says how many seconds it took."""
    task = VelocityTask(num_envs, name, threads=threads)
    random = np.random.default_rng(0)
    task.reset(Start(seed, np.zeros(1, np.float32)) for seed in itertools.count())

    def turn() -> float:
        actions = random.uniform(-1, 1, (SLICE // num_envs, num_envs, task.spec.action_size))
        began = clock()
        for each in actions:
            task.step(each)
        return clock() - began

    return turn


def plain(name: str) -> Callable[[], float]:
    """The same with Gymnasium's environment."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        env = gymnasium.make(f"{name[6:-11]}-v4", disable_env_checker=True)
    random = np.random.default_rng(0)
    high = env.action_space.high
    env.reset(seed=0)

    def turn() -> float:
        actions = random.uniform(-high, high, (SLICE, len(high))).astype(np.float32)
        began = time.thread_time()
        for action in actions:
            _, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                env.reset()
        return time.thread_time() - began

    return turn


def bare(name: str) -> Callable[[], float]:
    """The same with MuJoCo's steps alone, in states that a task goes through."""
    task = VelocityTask(1, name, threads=1)
    random = np.random.default_rng(0)
    task.reset(Start(seed, np.zeros(1, np.float32)) for seed in itertools.count())
    model, data, skip = task.world.model, task.world.data[0], task.runner.frame_skip
    limit = np.array(task.spec.action_high)

    def turn() -> float:
        seconds = 0.0
        for action in random.uniform(-1, 1, (SLICE, 1, len(limit))):
            copy = task.world.get_state(0)["physics"]
            data.ctrl[:] = action[0] * limit
            began = time.thread_time()
            mujoco.mj_step(model, data, skip)
            seconds += time.thread_time() - began
            mujoco.mj_setState(model, data, copy, mujoco.mjtState.mjSTATE_INTEGRATION)
            task.step(action)
        return seconds

    return turn


if __name__ == "__main__":
    main()
