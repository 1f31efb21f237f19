"""Speed of the velocity tasks, resets included, beside bare physics and Gymnasium's environments.

    python benchmarks/envs_velocity.py [TASK ...] [--batch 64]

Per task: environment steps per second with a batch of 1 and a whole batch on one thread, of one of
Gymnasium's own v4 environments (same physics and random actions, reset when it ends) and of nothing
but MuJoCo's steps, from the very states of the batch; then the ratio of the batch to Gymnasium's
environment and its share of what physics allows. All of these count seconds of one thread, which a
busy machine disturbs less; the contestants take turns within the same run. The columns of threads
are those of `envs.py`.
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

from ucpo.envs.threads import processors
from ucpo.envs.velocity.env import VelocityTask
from ucpo.envs.velocity.runners import NAMES
from ucpo.problem import Floats
from ucpo.stock import Start

SLICE = 200  # environment steps per turn, at least


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tasks", nargs="*", default=list(NAMES), help="all six by default")
    parser.add_argument("--turns", type=int, default=25, help="turns of each contestant")
    parser.add_argument("--batch", type=int, default=8, help="environments stepped together")
    options = parser.parse_args()
    report(options.tasks, options.turns, options.batch)


def report(tasks: list[str], turns: int, batch: int) -> None:
    """Print the table."""
    print(
        f"MuJoCo {mujoco.__version__}, Gymnasium {gymnasium.__version__}, "
        f"Python {platform.python_version()}, {processors()} processors"
    )
    print(
        f"| task | batch 1 | batch {batch} | Gymnasium v4 | physics only | batch {batch} / "
        f"Gymnasium | share | default threads | {processors()} threads / 1 | if free |\n"
        + "|---" * 10
        + "|"
    )
    ratios, shares, gains = [], [], []
    for name in tasks:
        alone, gymnasiums = Own(name, 1, 1), plain(name)
        one, default, every = (Own(name, batch, threads) for threads in (1, None, processors()))
        taken = []
        for _ in range(turns + 1):
            own, _, limit = one.turn(beside_physics=True)
            elapsed = one.turn_alone()
            helped, helped_elapsed, _ = every.turn()
            _, default_elapsed, _ = default.turn()
            single = alone.turn()[0]
            gain = elapsed / helped_elapsed, own / helped
            taken.append((single, own, gymnasiums(), limit, default_elapsed, *gain))
        table = np.array(taken)[1:]
        ratios.append(median(table[:, 2] / table[:, 1]))
        shares.append(median(table[:, 3] / table[:, 1]))
        gains.append(median(table[:, 6]))
        speeds = 1.0 / table[:, :5].mean(0)
        cells = [name, *(f"{speed:,.0f}" for speed in speeds[:4])]
        cells += [f"{ratios[-1]:.2f}", f"{shares[-1]:.2f}", f"{speeds[4]:,.0f}"]
        cells += [f"{median(table[:, 5]):.2f}", f"{gains[-1]:.2f}"]
        print("| " + " | ".join(cells) + " |", flush=True)
    print(
        f"geometric mean of the ratios {geometric_mean(ratios):.2f}, smallest {min(ratios):.2f}; "
        f"of the shares {geometric_mean(shares):.2f}, {min(shares):.2f}; "
        f"of what threads would gain {geometric_mean(gains):.2f}, {min(gains):.2f}"
    )


class Own:
    """Our task, taking turns."""

    def __init__(self, name: str, num_envs: int, threads: int | None) -> None:
        self.task = VelocityTask(num_envs, name, threads=threads)
        self.random = np.random.default_rng(0)
        self.task.reset(Start(seed, np.zeros(1, np.float32)) for seed in itertools.count())
        self.bare = [mujoco.MjData(self.task.world.model) for _ in range(num_envs)]

    def turn(self, beside_physics: bool = False) -> tuple[float, float, float]:
        """Seconds per step: of the calling thread, elapsed, and of bare physics if asked for."""
        task, size = self.task, self.task.spec.action_size
        steps = -(-SLICE // task.num_envs)
        own = elapsed = limit = 0.0
        for actions in self.random.uniform(-1, 1, (steps, task.num_envs, size)):
            if beside_physics:
                limit += self._physics(actions)
            began, began_elapsed = time.thread_time(), time.perf_counter()
            task.step(actions)
            own += time.thread_time() - began
            elapsed += time.perf_counter() - began_elapsed
        made = steps * task.num_envs
        return own / made, elapsed / made, limit / made

    def turn_alone(self) -> float:
        """Elapsed seconds per step of one thread, on a processor like the mean of all."""
        return on_each_processor(lambda: self.turn()[1])

    def _physics(self, actions: Floats) -> float:
        """Seconds of MuJoCo's steps alone, from where the task is. It stays there."""
        world = self.task.world
        controls = actions * np.array(self.task.spec.action_high)
        for copy, data in zip(self.bare, world.data, strict=True):
            mujoco.mj_copyData(copy, world.model, data)
        began = time.thread_time()
        for data, control in zip(self.bare, controls, strict=True):
            data.ctrl[:] = control
            mujoco.mj_step(world.model, data, world.runner.frame_skip)
        return time.thread_time() - began


def on_each_processor(measure: Callable[[], float]) -> float:
    """The mean of what is measured by this thread on one processor after the other."""
    if not hasattr(os, "sched_setaffinity"):
        return measure()
    allowed = os.sched_getaffinity(0)
    found = []
    for processor in allowed:
        os.sched_setaffinity(0, {processor})
        found.append(measure())
    os.sched_setaffinity(0, allowed)
    return float(np.mean(found))


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
        return (time.thread_time() - began) / SLICE

    return turn


if __name__ == "__main__":
    main()
