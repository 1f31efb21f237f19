"""Problems written down completely: finitely many states, actions and outcomes.

These are the problems `ucpo.exact` solves and `ucpo.envs.finite` turns into tasks to train on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ucpo.errors import UsageError
from ucpo.problem import Floats

Ints = NDArray[np.int64]

ENDED = -1  # successor of a branch that ends the episode
_ROUNDING = 1e-9  # what probabilities may miss of 1, and costs of a multiple of their unit


@dataclass(frozen=True)
class Branch:
    """One thing that may happen after an action."""

    probability: float
    successor: int | None
    """The next state; None ends the episode."""
    reward: float = 0.0
    costs: tuple[float, ...] = ()
    """One per cost of the problem; none at all stands for zeros."""


@dataclass(frozen=True, slots=True)
class Table:
    """The branches as arrays: `B` branches of `M` state-action pairs, sorted by state and action.

    Pairs of state `s` are ``first_pair[s]:first_pair[s + 1]``; branches of a pair likewise.
    """

    first_pair: Ints  # (states + 1,)
    action: Ints  # (M,)
    first_branch: Ints  # (M + 1,)
    probability: Floats  # (B,)
    successor: Ints  # (B,) or ENDED
    reward: Floats  # (B,)
    costs: Floats  # (B, C)


@dataclass(frozen=True)
class FiniteProblem:
    """A decision process with rewards and costs, written down branch by branch."""

    branches: Mapping[tuple[int, int], Sequence[Branch]]
    """What may happen, by state and action. An action missing in a state cannot be taken there."""
    start: Sequence[float]
    """Probability of each state at the start; its length is the number of states."""
    cost_names: tuple[str, ...] = ("cost",)
    gamma: float = 1.0
    """Discount of the reward per step."""
    horizon: int | None = None
    """Steps after which every episode ends; the optimal policy then depends on the time."""
    cost_unit: float = 1.0
    """Costs are whole multiples of it, so that finitely many stocks can be reached."""
    name: str = "finite"

    def __post_init__(self) -> None:
        if not 0.0 < self.gamma <= 1.0:
            raise UsageError(f"{self.name}: gamma must be in (0, 1], got {self.gamma}")
        if self.horizon is not None and self.horizon < 1:
            raise UsageError(f"{self.name}: the horizon must be at least 1, got {self.horizon}")
        if not self.cost_unit > 0.0:
            raise UsageError(f"{self.name}: cost_unit must be positive, got {self.cost_unit}")
        if not _is_distribution(self.start):
            raise UsageError(f"{self.name}: start must be probabilities summing to 1")
        idle = set(range(self.states)) - {state for state, _ in self.branches}
        if idle:
            raise UsageError(f"{self.name}: no action in state {min(idle)}; give it at least one")
        for (state, action), branches in self.branches.items():
            self._check(f"{self.name}: action {action} in state {state}", state, action, branches)

    @property
    def states(self) -> int:
        """Number of states, numbered from 0."""
        return len(self.start)

    @property
    def actions(self) -> int:
        """Number of actions, numbered from 0; not each need be possible everywhere."""
        return 1 + max(action for _, action in self.branches)

    @cached_property
    def table(self) -> Table:
        """The branches as arrays."""
        pairs = sorted(self.branches)
        flat = [branch for pair in pairs for branch in self.branches[pair]]
        states = [state for state, _ in pairs]
        return Table(
            first_pair=np.searchsorted(states, np.arange(self.states + 1)).astype(np.int64),
            action=np.array([action for _, action in pairs], np.int64),
            first_branch=np.cumsum([0] + [len(self.branches[pair]) for pair in pairs]),
            probability=np.array([branch.probability for branch in flat]),
            successor=np.array(
                [ENDED if branch.successor is None else branch.successor for branch in flat],
                np.int64,
            ),
            reward=np.array([branch.reward for branch in flat], np.float64),
            costs=np.array([branch.costs or (0.0,) * len(self.cost_names) for branch in flat]),
        )

    def _check(self, where: str, state: int, action: int, branches: Sequence[Branch]) -> None:
        if not 0 <= state < self.states or action < 0:
            raise UsageError(f"{where}: states are 0 to {self.states - 1}, actions 0 and up")
        if not _is_distribution([branch.probability for branch in branches]):
            raise UsageError(f"{where}: the probabilities of its branches must sum to 1")
        for branch in branches:
            if branch.successor is not None and not 0 <= branch.successor < self.states:
                raise UsageError(f"{where}: there is no state {branch.successor} to go to")
            if len(branch.costs) not in (0, len(self.cost_names)):
                raise UsageError(
                    f"{where}: needs one cost for each of {', '.join(self.cost_names)}, "
                    f"got {branch.costs}"
                )
            if not np.isfinite([branch.reward, *branch.costs]).all():
                raise UsageError(f"{where}: rewards and costs must be finite, got {branch}")
            units = np.asarray(branch.costs) / self.cost_unit
            if (np.abs(units - np.round(units)) > _ROUNDING * np.maximum(1, np.abs(units))).any():
                raise UsageError(
                    f"{where}: costs must be whole multiples of cost_unit={self.cost_unit:g}, "
                    f"got {branch.costs}; round them, or choose a cost_unit that divides them all"
                )


def _is_distribution(probabilities: Sequence[float]) -> bool:
    values = np.asarray(probabilities, np.float64)
    return len(values) > 0 and bool((values >= 0.0).all() and abs(values.sum() - 1.0) <= _ROUNDING)
