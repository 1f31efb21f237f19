"""Plays a policy in the original tasks; run by `original.py` with an interpreter that has them.

    python original_peer.py TASK WEIGHTS.npz BUDGET SEED [SEED ...]

Needs NumPy and safety-gymnasium 1.0.0, nothing of ours, and Python 3.8 or later. Prints a line for
each episode: seed, return, cost, environment steps.
"""

import sys
import warnings

import numpy as np


class Controller:
    """A policy in plain NumPy: observation and stock in, action in the task's own units out."""

    def __init__(self, weights, budget):
        self._weights, self._budget = weights, budget
        self._layers = [
            (weights[f"weight{i}"], weights[f"bias{i}"]) for i in range(int(weights["layers"]))
        ]
        self.reset()

    def reset(self):
        self._stock = np.float32(-self._budget)

    def record(self, cost):
        self._stock = np.float32((self._stock + np.float32(cost)) / self._weights["stock_discount"])

    def act(self, obs):
        kept = self._weights
        hidden = (obs.astype(np.float32).ravel() - kept["shift"]) / kept["scale"]
        if kept["stock_shown"]:
            shown = min(self._stock, kept["stock_ceiling"]) / kept["stock_scale"]
            hidden = np.append(hidden, np.float32(shown))
        for weight, bias in self._layers[:-1]:
            hidden = np.maximum(hidden @ weight + bias, 0.0)
        weight, bias = self._layers[-1]
        action = np.tanh((hidden @ weight + bias)[: len(kept["low"])].astype(np.float64))
        return kept["low"] + 0.5 * (action + 1.0) * (kept["high"] - kept["low"])


def episode(env, controller, seed):
    """Return, cost and environment steps."""
    controller.reset()
    obs, _ = env.reset(seed=seed)
    total = spent = 0.0
    for steps in range(1, 100_000):
        obs, reward, cost, terminated, truncated, _ = env.step(controller.act(obs))
        controller.record(cost)
        total, spent = total + reward, spent + cost
        if terminated or truncated:
            return total, spent, steps
    raise RuntimeError("the episode has no end")


def main():
    warnings.simplefilter("ignore")
    import safety_gymnasium

    task, weights, budget = sys.argv[1], dict(np.load(sys.argv[2])), float(sys.argv[3])
    env, controller = safety_gymnasium.make(task), Controller(weights, budget)
    for seed in map(int, sys.argv[4:]):
        print("episode", seed, *episode(env, controller, seed), flush=True)


if __name__ == "__main__":
    main()
