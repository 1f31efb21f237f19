"""Train on an environment of your own: all it needs is a cost in ``info``.

A boiler keeps a room warm while the weather changes; warmth is rewarded, gas is the cost. Run it:

    python examples/custom_environment.py
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box

from ucpo import UCP
from ucpo.stats import summarise


class Boiler(gymnasium.Env[Any, Any]):
    """One day in half-hour steps. The action is the gas burnt, in cubic metres."""

    observation_space = Box(-np.inf, np.inf, (3,))
    action_space = Box(0.0, 1.0, (1,))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.half_hour, self.indoors, self.outdoors = 0, 15.0, self.np_random.uniform(-5.0, 10.0)
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        gas = float(action[0])
        self.half_hour += 1
        self.outdoors += self.np_random.normal(0.0, 1.0)
        self.indoors += 4.0 * gas - 0.1 * (self.indoors - self.outdoors)
        comfort = 1.0 - min(abs(self.indoors - 21.0) / 10.0, 1.0)
        # The day ends for good and the observation shows when: terminated, not truncated.
        return self._observe(), comfort, self.half_hour == 48, False, {"cost": gas}

    def _observe(self) -> Any:
        return np.array(
            [self.indoors / 20.0, self.outdoors / 20.0, self.half_hour / 48.0], np.float32
        )


def main(env_steps: int = 120_000) -> None:
    agent = UCP(
        Boiler,
        seed=0,
        budget_range="4:24",  # cubic metres of gas a day
        budget_levels=11,
        gamma=1.0,
        random_steps=4_000,
        networks={"hidden": [64, 64], "quantiles": 32},
        replay={"batch": 128},
        critic={"rate": 1e-3, "polyak": 0.02},
        actor={"rate": 1e-3},
        multiplier={"rate": 1e-2, "start": 8_000},
    )
    agent.learn(env_steps, run="runs/boiler")
    episodes = agent.evaluate(budgets=[6, 11, 16, 21], episodes=100)
    print(summarise(episodes)[["budget_cost", "return", "cost_cost", "excess_cost"]])


if __name__ == "__main__":
    main()
