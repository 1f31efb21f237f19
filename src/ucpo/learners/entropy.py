"""The weight of the entropy in soft objectives."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ucpo.envs.interface import Arrays
from ucpo.storage import states


class Entropy:
    """The weight alpha of the entropy, fixed or tuned towards a target."""

    def __init__(self, weight: float, *, rate: float = 0.0, target: float = 0.0) -> None:
        self.weight = torch.tensor(weight)
        self._target = target
        self._log = self.weight.log().requires_grad_(rate > 0.0)
        self._optimiser = torch.optim.Adam([self._log], lr=rate) if rate > 0.0 else None

    def update(self, log_prob: Tensor) -> None:
        """Raise the weight while the policy's entropy is below the target."""
        if self._optimiser is None:
            return
        loss = -self._log.exp() * (log_prob.detach().mean().to(self._log.device) + self._target)
        self._optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self._optimiser.step()
        self.weight = self._log.detach().exp()

    def state(self) -> Arrays:
        """What `restore` needs to go on from here."""
        now = {"weight": self.weight.numpy().copy(), "log": self._log.detach().numpy().copy()}
        if self._optimiser is not None:
            now |= states.within("adam", states.of_optimiser(self._optimiser, [self._log]))
        return now

    def restore(self, state: Arrays) -> None:
        """Go on from a saved state."""
        adam, values = states.part(state, "adam"), {k: state[k] for k in state if "/" not in k}
        number = np.zeros((), np.float32)
        states.fit(values, {"weight": number, "log": number}, "entropy weight")
        if self._optimiser is not None:
            states.set_optimiser(self._optimiser, [self._log], adam, "entropy weight")
        self.weight = torch.from_numpy(values["weight"].copy())
        with torch.no_grad():
            self._log.copy_(torch.from_numpy(values["log"]))
