"""Environment steps per second of an on-policy training, and where an iteration's time goes.

    python benchmarks/onpolicy.py [TASK ...] [--method ppo-lag] [--rollouts 5] [--cores 1 2]

An iteration collects one rollout and learns from it; the first one, in which code is compiled and
caches are filled, does not count. Times are elapsed ones, so the machine should have nothing else
to do; *learning / floor* is of processor time, which others make longer by less. *Physics* is
MuJoCo and reading its states (two threads, where they pay and there are two cores), *tasks* the
rest of the environments, *floor* the time that learning's matrix products would take at the rate
this thread reaches on 256 x 256 x 256, the faster of PyTorch's and ours.
OmniSafe's PPOLag made 101 environment steps per second on SafetyPointGoal1-v0 (one thread of an
earlier machine; `omnisafe train --algo PPOLag --env-id SafetyPointGoal1-v0` says its own speed).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from ucpo.config.files import read_method
from ucpo.envs.interface import VectorTask
from ucpo.learners.compiled.kernels import ahead
from ucpo.learners.networks import Layers
from ucpo.learners.ppo import PPO
from ucpo.problem import Floats
from ucpo.runs.run import Run

OMNISAFE = 101
PARTS = ("physics", "tasks", "acting", "noting", "learning")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tasks", nargs="*", default=["SafetyPointGoal1-v0", "SafetyCarGoal1-v0"])
    parser.add_argument("--method", default="ppo-lag")
    parser.add_argument("--rollouts", type=int, default=5)
    parser.add_argument("--cores", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(measure(options.tasks[0], options.method, options.rollouts)))
        return
    print(f"{options.method}, microseconds per environment step")
    heads = ("task", "cores", "steps/s", "/ OmniSafe's", *PARTS, "floor", "learning / floor")
    print("| " + " | ".join(heads) + " |\n" + "|---" * len(heads) + "|")
    for task in options.tasks:
        for cores in options.cores:
            found = on_cores(cores, task, options)
            per_step = [1e6 * found[part] / found["steps"] for part in (*PARTS, "floor")]
            speed = found["steps"] / sum(found[part] for part in PARTS)
            row = [task, f"{cores}", f"{speed:,.0f}", f"{speed / OMNISAFE:,.0f}x"]
            row += [f"{value:.1f}" for value in per_step]
            ratio = found["processor"] / found["floor"]
            print("| " + " | ".join([*row, f"{ratio:.2f}"]) + " |", flush=True)


def on_cores(cores: int, task: str, options: argparse.Namespace) -> dict[str, float]:
    """Measure in a process of its own that may use so many processors."""
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < cores:
        raise SystemExit(f"{cores} cores are asked for, this process may use {len(allowed)}")
    rest = ["--method", options.method, "--rollouts", str(options.rollouts), "--child"]
    done = subprocess.run(
        [sys.executable, __file__, task, *rest],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        preexec_fn=lambda: os.sched_setaffinity(0, allowed[:cores]),
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def measure(task: str, method: str, rollouts: int) -> dict[str, float]:
    """Seconds by what they were spent on, and environment steps."""
    cores = len(os.sched_getaffinity(0))
    single = read_method(method)[1]["starts"] == "single"
    run: Any = Run(task, method=method, threads=cores, **({"budget": "25"} if single else {}))
    begun = iteration(run, run.training.begin(), Clock(run))
    before, clock = run.learner.env_steps, Clock(run)
    updates = run.learner.updates
    for _ in range(rollouts):
        begun = iteration(run, begun, clock)
    steps = run.learner.env_steps - before
    rate = product_rate()
    floor = rollouts * products(run.learner, (run.learner.updates - updates) / rollouts) / rate
    return {"steps": steps, "floor": floor, "processor": clock.processor, **clock.spent}


class Clock:
    """Elapsed seconds, by what they were spent on; of learning also those of the processor."""

    def __init__(self, run: Any) -> None:
        self.processor = 0.0
        self.spent, self._last = dict.fromkeys(PARTS, 0.0), time.perf_counter()
        task = run.task
        while not hasattr(task, "world"):  # behind what a method changes about it
            task = next(v for v in vars(task).values() if isinstance(v, VectorTask))
        world = task.world
        step = getattr(world.step, "__wrapped__", world.step)

        def timed(*given: Any) -> None:
            begin = time.perf_counter()
            step(*given)
            spent = time.perf_counter() - begin
            self.spent["physics"] += spent
            self._last += spent  # not of what follows

        timed.__wrapped__ = step  # type: ignore[attr-defined]
        world.step = timed

    def spend(self, what: str) -> None:
        now = time.perf_counter()
        self.spent[what] += now - self._last
        self._last = now


def iteration(run: Any, begun: tuple[Floats, Floats], clock: Clock) -> tuple[Floats, Floats]:
    """One rollout, and what is learned from it."""
    learner, (obs, stock) = run.learner, begun
    clock._last = time.perf_counter()
    while not learner.rollout.full:
        actions = learner.act(obs, stock)
        clock.spend("acting")
        step = run.task.step(actions, run.config.holding)
        clock.spend("tasks")
        learner.remember(obs, stock, actions, step)
        learner.observe(step.episodes)
        clock.spend("noting")
        obs, stock = step.obs, step.stock
    begin = time.process_time()
    for _ in learner.improve():
        clock.spend("learning")
    clock.processor += time.process_time() - begin
    return obs, stock


def products(learner: PPO, updates: float) -> float:
    """Floating-point operations of the matrix products of one rollout's learning.

    Forward, gradient of weights and gradient of hidden layers for each minibatch; forward once more
    for advantages, and once per pass to see how far the policy moved.
    """
    rows = learner.rollout.reward.size
    minibatches = max(1, round(rows / learner.settings.minibatch))
    forward, back = {}, {}
    for name, layers in (
        ("actor", learner.actor.body.layers),
        ("values", learner.values.body.layers),
    ):
        sizes = [i * o for i, o in pairwise(layers.sizes)]
        forward[name] = 2.0 * len(layers.flat) * sum(sizes)
        back[name] = forward[name] + 2.0 * len(layers.flat) * sum(sizes[1:])
    passes = updates / minibatches
    learning = passes * sum((*forward.values(), *back.values()))
    return float(rows * (learning + sum(forward.values()) + passes * forward["actor"]))


def product_rate() -> float:
    """Floating-point operations per second of 256 x 256 x 256: the faster of PyTorch's and ours."""
    square = torch.randn(256, 256)
    layer = Layers(1, [256, 256], torch.Generator())
    times = []
    for product in (lambda: square @ square, lambda: ahead(layer, square[None])):
        taken = []
        for _ in range(200):
            begin = time.perf_counter()
            product()
            taken.append(time.perf_counter() - begin)
        times.append(float(np.median(taken)))
    return 2 * 256**3 / min(times)


if __name__ == "__main__":
    main()
