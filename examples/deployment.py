"""Use a trained policy step by step, choosing the budget now, long after training.

ucpo train Courier-v0 --run runs/courier
python examples/deployment.py runs/courier 12
"""

from __future__ import annotations

import sys

import numpy as np

from ucpo import load, make_task
from ucpo.stock import initial, starts


def main(run: str, budget: float) -> None:
    controller = load(run).controller(budget=budget)

    # Stands for the system under control: anything that takes actions and reports costs.
    system = make_task("Courier-v0", num_envs=1)
    obs, _ = system.reset(starts(lambda: initial(budget), np.random.default_rng(0)))

    earned = 0.0
    while True:
        action = controller.act(obs[0])
        step = system.step(action[None])
        controller.record(step.costs[0])
        earned += step.reward[0]
        if step.terminated[0] or step.truncated[0]:
            break
        obs = step.obs
    print(f"return {earned:.1f} with {controller.remaining[0]:g} of {budget:g} left to spend")


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
