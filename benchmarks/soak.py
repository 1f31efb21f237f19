"""Many random steps of the MuJoCo tasks: nothing breaks, grows, or depends on the threads.

    python benchmarks/soak.py [TASK ...] [--steps 1000000] [--batch 16]

The steps are shared evenly among the tasks, all thirty by default. Every batch is stepped twice, by
one thread and by several, and everything that comes back must be the same to the last bit. Actions
are held for five steps, so that robots get somewhere. Navigation must not end an episode before its
time, which only happens where the physics fails.
"""

from __future__ import annotations

import argparse
import itertools
import resource
import time

import numpy as np

from ucpo.envs.interface import Step, VectorTask
from ucpo.envs.navigation.names import NAMES as NAVIGATION
from ucpo.envs.registry import make_task
from ucpo.envs.threads import processors
from ucpo.envs.velocity.runners import NAMES as VELOCITY
from ucpo.stock import Start

HELD = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    every = [*NAVIGATION, *VELOCITY]
    parser.add_argument("tasks", nargs="*", default=every, help="all thirty by default")
    parser.add_argument("--steps", type=int, default=1_000_000, help="environment steps in all")
    parser.add_argument("--batch", type=int, default=16, help="environments stepped together")
    options = parser.parse_args()
    each = -(-options.steps // len(options.tasks))
    began, made, episodes = time.perf_counter(), 0, 0
    for name in options.tasks:
        before = memory()
        steps, ended = soak(name, each, options.batch)
        made, episodes = made + steps, episodes + ended
        print(
            f"{name:30} {steps:,} steps, {ended:,} episodes, memory {memory() - before:+.0f} MiB",
            flush=True,
        )
    seconds = time.perf_counter() - began
    print(
        f"{made:,} steps in {episodes:,} episodes, each made twice, in {seconds:.0f} s: no failure"
    )


def soak(name: str, steps: int, batch: int) -> tuple[int, int]:
    """Environment steps and episodes made; raises where something is not as it should be."""
    one, several = (
        make_task(name, batch, threads=threads) for threads in (1, max(2, processors()))
    )
    for task in (one, several):
        begin(task)
    random = np.random.default_rng(0)
    episodes = 0
    for index in range(-(-steps // batch)):
        if index % HELD == 0:
            actions = random.uniform(-1, 1, (batch, one.spec.action_size)).astype(np.float32)
        step = one.step(actions)
        check(step, several.step(actions), f"{name}, step {index} of the batch")
        if name in NAVIGATION and step.terminated.any():
            raise AssertionError(f"{name}: an episode ended before its time at step {index}")
        episodes += len(step.episodes)
    for task in (one, several):
        task.close()
    return -(-steps // batch) * batch, episodes


def begin(task: VectorTask) -> None:
    random = np.random.default_rng(1)
    stock = np.zeros(len(task.spec.cost_names), np.float32)
    task.reset(Start(int(random.integers(2**31)), stock) for _ in itertools.count())


def check(one: Step, other: Step, where: str) -> None:
    for field in ("obs", "successor", "reward", "costs", "terminated", "truncated"):
        mine, theirs = getattr(one, field), getattr(other, field)
        if not np.isfinite(mine).all():
            raise AssertionError(f"{where}: {field} is not finite")
        if not np.array_equal(mine, theirs):
            raise AssertionError(f"{where}: {field} depends on the number of threads")


def memory() -> float:
    """The most memory this process has had, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
