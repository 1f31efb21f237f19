"""What the paper's whole table costs: speeds measured here, the schedule of its runs simulated.

The table is 22 tasks, 13 methods and 5 seeds. Each kind of method is trained for some seconds on a
task of each kind, with the settings `ucpo train` has by default. A step of another task of the kind
takes longer by as much as its environment does, which is measured for all 22. To that comes the
evaluation, 1000 episodes at each of a run's budgets. Runs go to workers in the order of the plan,
as `ucpo sweep` hands them out.

    python benchmarks/sweep.py
"""

from __future__ import annotations

import argparse
import heapq
import time
from collections.abc import Sequence
from itertools import count

import numpy as np

from ucpo import Run
from ucpo.config.files import resolve
from ucpo.envs import threads
from ucpo.envs.navigation.names import NAMES as NAVIGATION
from ucpo.envs.registry import family_of, make_task
from ucpo.envs.velocity.runners import NAMES as VELOCITY
from ucpo.stock import Start

ANY_BUDGET = ("ucp", "ucp-ds", "ucp-mean")
ONE_BUDGET = ("ucp-nr", "ucp-nr-mean", "ucp-na")
BASELINES = ("ppo-lag", "ppo-saute", "ppo-et", "sac-lag", "sac-pid", "td3-lag", "td3-pid")
SEEDS, EPISODES, EPISODE_STEPS = 5, 1000, 1000
KINDS = {"ucp": "ucp", "ppo": "ppo-lag", "sac": "sac-lag", "td3": "td3-lag"}  # who stands for whom
PLACES = {
    "Goal": "SafetyPointGoal1-v0",  # for buttons and boxes too
    "Circle": "SafetyPointCircle1-v0",
    "Velocity": "SafetyHalfCheetahVelocity-v1",
}
WORKERS = (2, 16, 64, 256)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=4.0, help="of training for each speed")
    seconds = parser.parse_args().seconds
    threads.limit(1)  # as the workers of a sweep
    speeds = {
        (kind, place): speed(task, method, seconds)
        for place, task in PLACES.items()
        for kind, method in KINDS.items()
    }
    playing = {place: evaluation_speed(task) for place, task in PLACES.items()}
    print("environment steps a second, one core")
    for (kind, place), value in speeds.items():
        print(f"  {kind:4} {PLACES[place]:30} {value:10,.0f}")
    for place, value in playing.items():
        print(f"  evaluation {PLACES[place]:23} {value:10,.0f}")
    stepping = {task: stepping_seconds(task) for task in tasks()}
    runs = table(speeds, playing, stepping)
    print(f"{len(runs):,} runs, {sum(runs) / 3600:,.0f} hours of one core")
    for workers in WORKERS:
        print(f"  {workers:4} workers: {makespan(runs, workers) / 86400:6.2f} days")


def speed(task: str, method: str, seconds: float) -> float:
    """Environment steps a second once a training learns."""
    how = {"method": method, "family": family_of(task), "budget": () if method == "ucp" else 25}
    config = resolve(task, **how)
    rollout = config.num_envs * config.ppo.rollout
    every = rollout if config.learner == "ppo" else 50 * config.num_envs * config.hold
    run = Run(
        task,
        method=method,
        budget=how["budget"],
        log_every=every,
        random_steps=min(config.random_steps, 2_000),
    )
    seen: list[tuple[float, float]] = []
    begun = time.perf_counter()

    def note(row: dict[str, float]) -> None:
        if row["updates"] > 20:
            seen.append((time.perf_counter(), row["env_steps"]))

    run.learn(
        show=False,
        on_log=note,
        stop=lambda: len(seen) > 1 and time.perf_counter() - begun > seconds,
    )
    (first, before), (last, after) = seen[0], seen[-1]
    return (after - before) / (last - first)


def evaluation_speed(task: str) -> float:
    """Environment steps a second while a policy that learned nothing is evaluated."""
    run = Run(task, num_envs=64)
    begun = time.perf_counter()
    played = run.evaluate([25.0], episodes=64)
    return float(played["length"].sum()) / (time.perf_counter() - begun)


def stepping_seconds(task: str) -> float:
    """Of one core for an environment step, 64 environments at a time with random actions."""
    played = make_task(task, 64)
    chance = np.random.default_rng(0)
    stocks = np.full(len(played.spec.cost_names), -25.0, np.float32)
    played.reset(Start(seed, stocks) for seed in count())
    actions = chance.uniform(-1.0, 1.0, (64, played.spec.action_size)).astype(np.float32)
    played.step(actions)  # compiles
    begun, steps = time.perf_counter(), 0
    while time.perf_counter() - begun < 0.3:
        played.step(actions)
        steps += 64
    played.close()
    return (time.perf_counter() - begun) / steps


def tasks() -> list[str]:
    """Those of the paper; level 0 is not among them."""
    return [task for task in (*NAVIGATION, *VELOCITY) if "0-v0" not in task]


def table(
    speeds: dict[tuple[str, str], float], playing: dict[str, float], stepping: dict[str, float]
) -> list[float]:
    """Seconds of one core for each run of the paper's table, in the order of a plan."""
    runs = []
    for task in tasks():
        place = next((name for name in PLACES if name in task), "Goal")
        for method in (*ANY_BUDGET, *ONE_BUDGET, *BASELINES):
            budgets = 4 if method in ANY_BUDGET else 1
            budget: Sequence[int] | int = () if budgets == 4 else 25
            config = resolve(task, method=method, family=family_of(task), budget=budget)
            longer = stepping[task] - stepping[PLACES[place]]
            training = config.env_steps * (1.0 / speeds[config.learner, place] + longer)
            played = budgets * EPISODES * EPISODE_STEPS * (1.0 / playing[place] + longer)
            runs += [training + played] * SEEDS
    return runs


def makespan(runs: Sequence[float], workers: int) -> float:
    """Seconds until all are done, each taken by whoever is free first."""
    free = [0.0] * workers
    for seconds in runs:
        heapq.heappush(free, heapq.heappop(free) + seconds)
    return max(free)


if __name__ == "__main__":
    main()
