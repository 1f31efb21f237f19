"""Environment steps per second of processor time of an on-policy training, and where the time goes.

    python benchmarks/on_policy.py [TASK] [METHOD] [ROLLOUTS]

The first rollout, in which code is compiled and caches are filled, does not count.
"""

import sys
import time

import torch

from ucpo.config.files import read_method
from ucpo.runs.run import Run


class Clock:
    """Seconds of processor time, by what they were spent on."""

    def __init__(self):
        self.spent, self._last = {}, time.process_time()

    def spend(self, what):
        now = time.process_time()
        self.spent[what] = self.spent.get(what, 0.0) + now - self._last
        self._last = now


def collect_and_improve(run, begun, clock):
    """One rollout."""
    learner, (obs, stock) = run.learner, begun
    while not learner.rollout.full:
        actions = learner.act(obs, stock)
        clock.spend("acting")
        step = run.task.step(actions, run.config.holding)
        clock.spend("environments")
        learner.remember(obs, stock, actions, step)
        learner.observe(step.episodes)
        clock.spend("remembering")
        obs, stock = step.obs, step.stock
    for _ in learner.improve():
        clock.spend("improving")
    return obs, stock


def main():
    task, method, rollouts = [
        *sys.argv[1:],
        *("SafetyPointGoal1-v0", "ppo-lag", "5")[len(sys.argv) - 1 :],
    ]
    torch.set_num_threads(1)
    single = read_method(method)[1]["starts"] == "single"
    run = Run(task, method=method, **({"budget": "25"} if single else {}))
    begun = collect_and_improve(run, run.training.begin(), Clock())
    before, clock = run.learner.env_steps, Clock()
    for _ in range(int(rollouts)):
        begun = collect_and_improve(run, begun, clock)
    steps, seconds = run.learner.env_steps - before, sum(clock.spent.values())
    print(f"{method} on {task}: {steps / seconds:,.0f} environment steps per second")
    for what, spent in sorted(clock.spent.items(), key=lambda item: -item[1]):
        print(
            f"{what:<14} {spent / steps * 1e6:6.1f} microseconds per step, {spent / seconds:4.0%}"
        )


if __name__ == "__main__":
    main()
