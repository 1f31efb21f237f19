"""An environment with actions to choose from, whose best policy is known for every budget."""

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete


class Errands(gymnasium.Env):
    """Eight errands, each on foot (1 earned), by taxi (3 earned, 1 spent) or lost (1 spent).

    The taxi as long as the budget allows earns 8 + 2 budgets.
    """

    observation_space = Box(0.0, 1.0, (1,))
    action_space = Discrete(3, start=5)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.done = 0
        return self._observe(), {}

    def step(self, action):
        assert self.action_space.contains(action)
        self.done += 1
        reward, cost = {5: (1.0, 0.0), 6: (3.0, 1.0), 7: (0.0, 1.0)}[int(action)]
        return self._observe(), reward, self.done == 8, False, {"cost": cost}

    def _observe(self):
        return np.array([self.done / 8], np.float32)


gymnasium.register("Errands-v0", entry_point=Errands, max_episode_steps=8)
