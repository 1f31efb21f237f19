"""What the latest finished episodes cost, and whether any are new."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ucpo.envs.interface import Arrays, Episodes
from ucpo.storage import states


class Recent:
    """Costs above the budget and lengths of the latest finished episodes.

    Args:
        costs: How many there are.
        window: Episodes kept.
    """

    def __init__(self, costs: int, window: int = 50) -> None:
        self._window = window
        self._over = np.zeros((0, costs), np.float32)  # may be negative
        self._lengths = np.zeros(0, np.float32)
        self.news = False  # since somebody last looked

    def observe(self, episodes: Episodes) -> None:
        """Note finished episodes."""
        over = (episodes.initial_stock + episodes.costs).astype(np.float32)
        self._over = np.concatenate([self._over, over])[-self._window :]
        lengths = episodes.lengths.astype(np.float32)
        self._lengths = np.concatenate([self._lengths, lengths])[-self._window :]
        self.news = True

    def excess(self, device: torch.device) -> Tensor:
        """Mean cost minus budget, (C,); 0 before any episode."""
        mean = self._over.mean(0) if len(self._over) else np.zeros_like(self._over.sum(0))
        return torch.from_numpy(mean).to(device)

    def length(self) -> float:
        """Mean environment steps of an episode; 1 before any."""
        return float(self._lengths.mean()) if len(self._lengths) else 1.0

    def state(self) -> Arrays:
        """What `restore` needs to go on from here."""
        return {
            "over": self._over.copy(),
            "lengths": self._lengths.copy(),
            "news": np.array(self.news),
        }

    def restore(self, state: Arrays) -> None:
        """Go on from a saved state."""
        states.fit(state, self.state(), "recent episodes", lengths=False)
        self._over, self._lengths = state["over"].copy(), state["lengths"].copy()
        self.news = bool(state["news"])
