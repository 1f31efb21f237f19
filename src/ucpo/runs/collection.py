"""Where a learner's decisions are made, and what came of them."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from ucpo.envs.interface import Hold, Step, VectorTask
from ucpo.learners.interface import Learner
from ucpo.problem import Floats


class Decision(NamedTuple):
    """One decision in every environment."""

    obs: Floats  # (n, obs) what was seen
    stock: Floats  # (n, C)
    actions: Floats  # (n, action) what was done
    step: Step  # what came of it


class Source(Protocol):
    """Makes decisions, one after the other."""

    @property
    def settled(self) -> bool:
        """Whether all that was collected has been handed on: a moment to save, or to stop."""

    def decide(self, left: int) -> Decision:
        """The next decision; `left` environment steps are missing to the goal of the training."""


class Here:
    """The learner itself acts on a task of this process.

    Args:
        learner: What acts.
        task: The batch of environments, with episodes under way.
        begun: What it says to act on: observations (n, obs) and stocks (n, C).
        hold: How long decisions are kept.
    """

    settled = True

    def __init__(
        self, learner: Learner, task: VectorTask, begun: tuple[Floats, Floats], hold: Hold
    ) -> None:
        self._learner, self._task, self._hold = learner, task, hold
        self._obs, self._stock = begun

    def decide(self, left: int) -> Decision:
        """Act everywhere."""
        obs, stock = self._obs, self._stock
        actions = self._learner.act(obs, stock)
        step = self._task.step(actions, self._hold)
        self._obs, self._stock = step.obs, step.stock
        return Decision(obs, stock, actions, step)
