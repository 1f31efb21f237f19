"""The weight of the entropy in soft objectives."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ucpo.envs.interface import Arrays
from ucpo.learners.optimisation import Adam
from ucpo.storage import states


class Entropy:
    """The weight alpha of the entropy, fixed or tuned towards a target."""

    def __init__(self, weight: float, *, rate: float = 0.0, target: float = 0.0) -> None:
        self.weight = torch.tensor(weight)
        self._target, self._rate = target, rate
        self._log = self.weight.log()
        self._adam = Adam([self._log]) if rate > 0.0 else None

    def update(self, log_prob: Tensor) -> None:
        """Raise the weight while the policy's entropy is below the target.

        A step down the gradient of ``-exp(log) (log_prob + target)`` in the weight's logarithm.
        """
        if self._adam is None:
            return
        above = log_prob.detach().mean().to(self._log.device) + self._target
        self._log.grad = -self._log.exp() * above
        self._adam.step([self._rate])
        self.weight = self._log.exp()

    def state(self) -> Arrays:
        """What `restore` needs to go on from here."""
        now = {"weight": self.weight.numpy().copy(), "log": self._log.numpy().copy()}
        if self._adam is not None:
            now |= states.within("adam", self._adam.state())
        return now

    def restore(self, state: Arrays) -> None:
        """Go on from a saved state."""
        adam, values = states.part(state, "adam"), {k: state[k] for k in state if "/" not in k}
        number = np.zeros((), np.float32)
        states.fit(values, {"weight": number, "log": number}, "entropy weight")
        if self._adam is not None:
            self._adam.restore(adam)
        self.weight = torch.from_numpy(values["weight"].copy())
        self._log.copy_(torch.from_numpy(values["log"]))
