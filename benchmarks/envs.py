"""Speed of the navigation tasks, resets included, beside the limit that the physics sets.

The velocity tasks follow in a table of their own (`envs_velocity.py`).

    python benchmarks/envs.py [TASK ...] [--batch 64] [--peer-python PATH]

Per task: environment steps per second with a batch of 1 and a whole batch on one thread, the limit
of one thread that makes nothing but MuJoCo's steps (ten per environment step; same model, states,
actions and motion of gremlins; in turns with the environment), the share of that limit that the
batch reaches, and the time of a reset. With an interpreter that has safety-gymnasium 1.0.0, the
original too. All of these are seconds of processor time, which other programs on the machine
disturb less.

Only the columns of threads are elapsed time: the batch with the threads that are used by default,
and what all threads gain over one, which has each of the processors in turn, for they need not be
equally fast. As that says little on a busy machine, the last column is what
they would gain if every thread had a processor: time of one thread alone over that of the calling
thread when it has help. That takes shares of equal length for granted and sees no waiting for the
interpreter lock, so it means nothing where MuJoCo is called through its Python functions.
"""

from __future__ import annotations

import argparse
import itertools
import platform
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean, median

import envs_velocity
import mujoco
import numpy as np

from ucpo.envs.navigation.env import NavigationTask
from ucpo.envs.navigation.names import NAMES
from ucpo.envs.navigation.world import GREMLIN_PATH, SUBSTEPS, World
from ucpo.envs.threads import processors
from ucpo.problem import Floats
from ucpo.stock import Start

SLICE = 25  # batch steps between turns of the environment and of bare physics

PEER = """
import sys, time, warnings
warnings.simplefilter("ignore")
import numpy as np, safety_gymnasium
name, steps, resets = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
env = safety_gymnasium.make(name)
env.reset(seed=0)
begin = time.process_time()
for _ in range(resets):
    env.reset()
reset = (time.process_time() - begin) / resets
actions = np.random.default_rng(0).uniform(-1, 1, (steps, 2))
begin = time.process_time()
for action in actions:
    env.step(action)
print("peer", (time.process_time() - begin) / steps, reset)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    every = [name for name in NAMES if not name.endswith("0-v0")] + list(envs_velocity.NAMES)
    parser.add_argument("tasks", nargs="*", default=every, help="all twenty-two by default")
    parser.add_argument("--peer-python", type=Path, help="interpreter that has the original")
    parser.add_argument("--batch", type=int, default=8, help="environments stepped together")
    parser.add_argument("--slices", type=int, default=40, help="turns per measurement")
    parser.add_argument("--no-sleep", action="store_true", help="compute resting objects too")
    options = parser.parse_args()
    running = [name for name in options.tasks if name in envs_velocity.NAMES]
    options.tasks = [name for name in options.tasks if name not in running]
    if options.tasks:
        navigation(options)
    if running:
        envs_velocity.report(running, options.slices, options.batch)


def navigation(options: argparse.Namespace) -> None:
    """Print the table of the navigation tasks."""
    sleep, batch = False if options.no_sleep else None, options.batch
    print(
        f"MuJoCo {mujoco.__version__}, Python {platform.python_version()}, "
        f"{processors()} processors"
    )
    print(
        f"| task | batch 1 | batch {batch} | physics only | share | reset [ms] | original "
        f"| its reset [ms] | speed-up per core | default threads | {processors()} threads / 1 "
        "| if free |\n" + "|---" * 12 + "|"
    )
    shares, speedups, gains = [], [], []
    for name in options.tasks:
        alone = measure(name, 1, options.slices, sleep)
        whole = measure(name, batch, options.slices, sleep)
        shares.append(whole.share)
        gains.append(whole.gain_if_free)
        row = [name, *(f"{value:,.0f}" for value in (alone.own, whole.own, whole.limit))]
        row += [f"{whole.share:.2f}", f"{1e3 * reset_time(name):.2f}"]
        if options.peer_python:
            peer, peer_reset = original(options.peer_python, name)
            speedups.append(whole.own / peer)
            row += [f"{peer:,.0f}", f"{1e3 * peer_reset:,.0f}", f"{speedups[-1]:.0f}x"]
        row += ["-"] * (9 - len(row))
        row += [f"{whole.default:,.0f}", f"{whole.gain:.2f}", f"{whole.gain_if_free:.2f}"]
        print("| " + " | ".join(row) + " |", flush=True)
    print(
        f"geometric mean of the shares {geometric_mean(shares):.2f}, smallest {min(shares):.2f}; "
        f"of what threads would gain {geometric_mean(gains):.2f}, {min(gains):.2f}"
    )
    if speedups:
        print(f"geometric mean of the speed-ups {geometric_mean(speedups):.1f}")


@dataclass(frozen=True)
class Measured:
    """Environment steps per second, and ratios, which are medians over turns."""

    own: float
    limit: float
    default: float
    share: float
    gain: float
    gain_if_free: float


def measure(name: str, num_envs: int, slices: int, sleep: bool | None) -> Measured:
    """Let one thread, bare physics, the default threads and all threads take turns."""
    one, default, every = (
        prepared(name, num_envs, threads, sleep) for threads in (1, None, processors())
    )
    random = np.random.default_rng(0)
    bare = [mujoco.MjData(one.world.model) for _ in range(num_envs)]
    taken = []
    for _ in range(slices + 2):
        actions = random.uniform(-1, 1, (SLICE, num_envs, 2))
        for copy, data in zip(bare, one.world.data, strict=True):
            mujoco.mj_copyData(copy, one.world.model, data)
        alone, _ = play(one, actions)
        limit = step_physics(one.world, bare, actions, time.thread_time)
        alone_elapsed = play_alone(one, actions)
        _, default_elapsed = play(default, actions)
        helped, helped_elapsed = play(every, actions)
        taken.append((alone, limit, alone_elapsed, default_elapsed, helped, helped_elapsed))
    for task in (one, default, every):
        task.close()
    alone, limit, alone_elapsed, default_elapsed, helped, helped_elapsed = np.transpose(taken[2:])
    steps = SLICE * num_envs
    return Measured(
        own=steps / alone.mean(),
        limit=steps / limit.mean(),
        default=steps / default_elapsed.mean(),
        share=median(limit / alone),
        gain=median(alone_elapsed / helped_elapsed),
        gain_if_free=median(alone / helped),
    )


def prepared(name: str, num_envs: int, threads: int | None, sleep: bool | None) -> NavigationTask:
    """A task with episodes at all ages, so that resets come as often as in a long run."""
    task = NavigationTask(num_envs, name, sleep=sleep, threads=threads)
    random = np.random.default_rng(0)
    task.reset(Start(int(random.integers(2**31)), np.zeros(1)) for _ in itertools.count())
    task.lengths[:] = random.integers(task.arena.max_episode_steps, size=num_envs)
    return task


def play(task: NavigationTask, actions: Floats) -> tuple[float, float]:
    """Seconds of the calling thread, and elapsed ones, that some steps take."""
    began, elapsed = time.thread_time(), time.perf_counter()
    for each in actions:
        task.step(each)
    return time.thread_time() - began, time.perf_counter() - elapsed


def play_alone(task: NavigationTask, actions: Floats) -> float:
    """Elapsed seconds that some steps take one thread, on a processor like the mean of all."""
    return envs_velocity.on_each_processor(lambda: play(task, actions)[1])


def step_physics(
    world: World, bare: list[mujoco.MjData], actions: Floats, clock: Callable[[], float]
) -> float:
    """Seconds of MuJoCo's steps alone, gremlins moving as in the task."""
    seconds = 0.0
    for row, data in enumerate(bare):
        gremlins = world.arena.of("gremlins").count
        if not gremlins:
            begin = clock()
            for action in actions[:, row]:
                data.ctrl[:] = action
                mujoco.mj_step(world.model, data, SUBSTEPS)
            seconds += clock() - begin
            continue
        guides = data.mocap_pos[-gremlins:]
        turn = data.time + world.model.opt.timestep * np.arange(len(actions) * SUBSTEPS)
        circle = GREMLIN_PATH * np.stack([np.sin(turn), np.cos(turn), np.zeros_like(turn)], -1)
        paths = guides + (circle - circle[0])[:, None]
        begin = clock()
        for substep, path in enumerate(paths):
            if substep % SUBSTEPS == 0:
                data.ctrl[:] = actions[substep // SUBSTEPS, row]
            guides[:] = path
            mujoco.mj_step(world.model, data)
        seconds += clock() - begin
    return seconds


def reset_time(name: str, resets: int = 300) -> float:
    """Mean seconds of a reset."""
    task = NavigationTask(1, name, threads=1)
    row = np.array([0])
    task.begin(row, [0])
    begin = time.process_time()
    for seed in range(resets):
        task.begin(row, [seed])
    return (time.process_time() - begin) / resets


def original(python: Path, name: str) -> tuple[float, float]:
    """Steps per second of the original, one reset per episode included, and seconds of a reset."""
    limit = 500 if "Circle" in name else 1000
    command = [str(python), "-c", PEER, name, "400", "3"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    step, reset = (float(word) for word in answer.rsplit("peer", 1)[1].split())
    return limit / (limit * step + reset), reset


if __name__ == "__main__":
    main()
