"""Speed of an evaluation beside that of its environments alone, in one run.

    python benchmarks/evaluation.py [--episodes 1000] [--json]

A policy with networks of the paper's size (random weights: they cost the same) plays episodes at
four budgets through `ucpo.evaluation`. In turns with it, a second batch of the same size makes the
same number of steps with actions that are there already. Seconds are elapsed time; both use the
default number of threads.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator
from itertools import cycle

import numpy as np
import torch

from ucpo import UCP
from ucpo.envs.registry import make_task
from ucpo.evaluation.episodes import Totals, make_jobs, play
from ucpo.stock import Start

BUDGETS = (0.0, 5.0, 15.0, 25.0)


class Clock:
    """An observer that says how long each slice of steps took, and lets others run in between."""

    def __init__(self, slice_steps: int, between: Iterator[float]) -> None:
        self.slice_steps, self.between = slice_steps, between
        self.steps, self.own, self.other = 0, [], []
        self.warm = False  # the first slice compiles and is left out
        self.waited = 0.0
        self.began = time.perf_counter()

    def see(self, moment: object) -> list[dict[str, object]]:
        self.steps += 1
        if self.steps % self.slice_steps == 0:
            own, other = time.perf_counter() - self.began, next(self.between)
            self.waited += other
            if self.warm:
                self.own.append(own)
                self.other.append(other)
            self.warm = True
            self.began = time.perf_counter()
        return []


def environments_alone(task: str, num_envs: int, slice_steps: int) -> Iterator[float]:
    """Seconds of one slice after the other."""
    batch = make_task(task, num_envs)
    random = np.random.default_rng(0)
    seeds = iter(lambda: int(random.integers(2**31)), None)
    batch.reset(Start(seed, np.zeros(1, np.float32)) for seed in seeds)
    size = batch.spec.action_size
    actions = cycle(random.uniform(-1, 1, (100, num_envs, size)).astype(np.float32))
    while True:
        began = time.perf_counter()
        for _ in range(slice_steps):
            batch.step(next(actions))
        yield time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--task", default="SafetyPointGoal1-v0")
    parser.add_argument("--episodes", type=int, default=64, help="per budget; the protocol's: 1000")
    parser.add_argument("--num-envs", type=int, default=64)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    agent = UCP(options.task, seed=0, num_envs=1, replay={"capacity": 1000})
    policy = agent.policy()
    torch.set_num_threads(1)
    task = make_task(options.task, options.num_envs)
    jobs = make_jobs(policy, BUDGETS, options.episodes, 0)
    clock = Clock(50, environments_alone(options.task, options.num_envs, 50))
    observers = {"episodes": Totals(policy, task), "clock": clock}
    began = time.perf_counter()
    episodes = sum(len(rows["episodes"]) for rows in play(policy, task, jobs, observers))
    elapsed = time.perf_counter() - began - clock.waited
    steps = len(clock.own) * clock.slice_steps * options.num_envs
    result = {
        "task": options.task,
        "processors": len(os.sched_getaffinity(0)),
        "num_envs": options.num_envs,
        "hidden": list(policy.info.hidden),
        "episodes": episodes,
        "evaluation_seconds": round(elapsed, 1),
        "evaluation_steps_per_second": round(steps / sum(clock.own)),
        "environment_steps_per_second": round(steps / sum(clock.other)),
        "share": round(sum(clock.other) / sum(clock.own), 3),
        "median_share": round(float(np.median(np.array(clock.other) / clock.own)), 3),
    }
    if options.json:
        print(json.dumps(result))
        return
    for name, value in result.items():
        print(f"{name.replace('_', ' ')}: {value}")


if __name__ == "__main__":
    main()
