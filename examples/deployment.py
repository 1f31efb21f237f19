"""Use a trained policy step by step, choosing the budget now, long after training.

python examples/deployment.py zoo:SafetyPointGoal1-v0 12
"""

from __future__ import annotations

import sys

import gymnasium

import ucpo  # also registers ucpo/SafetyPointGoal1-v0 and the others with Gymnasium


def main(run: str, budget: float) -> None:
    policy = ucpo.load(run)
    controller = policy.controller(budget=budget)

    # Stands for the system under control: anything that takes actions and reports costs. The
    # controller takes and gives what the system does, in the system's own units.
    system = gymnasium.make(f"ucpo/{policy.info.task}")
    obs, _ = system.reset(seed=0)

    earned, over = 0.0, False
    while not over:
        obs, reward, terminated, truncated, info = system.step(controller.act(obs))
        controller.record(info["cost"])
        earned += float(reward)
        over = terminated or truncated
    print(f"return {earned:.1f} with {controller.remaining[0]:g} of {budget:g} left to spend")


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
