"""Dynamic programming on augmented states: the best answer to given prices, and what it is worth.

Policies here choose one pair per augmented state, `choice` of shape (n,).
"""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import splu

from ucpo.envs.finite_problem import Ints
from ucpo.errors import UsageError
from ucpo.exact.augmentation import Augmented
from ucpo.problem import Floats

_ENOUGH = 1e-11  # change per sweep, relative to the largest value, at which sweeping ends
_BETTER = 1e-12  # relative gain for which an action replaces another: ties must not flicker
_SWEEPS = 50  # before policy iteration takes over
_FIRST_SWEEPS = 10_000  # where only their convergence shows that returns are bounded


def best_response(
    augmented: Augmented, reward: Floats, known: Ints | None = None
) -> tuple[Ints, Visits]:
    """A policy of the greatest value from everywhere, and what follows from it.

    Value iteration finds it (a single sweep backwards in time if there is a horizon); then policy
    iteration removes what the sweeps left over.

    Args:
        augmented: The process.
        reward: Of each pair, (m,).
        known: A policy under which episodes end, (n,). Sweeps that start from its value only rise;
            from 0 they would sink step by step to a high price no policy can avoid for ever.
    """
    choice = _iterate_values(augmented, reward, known)
    while True:
        visits = Visits(augmented, choice)
        better = choice.copy()
        everything = slice(0, augmented.states)
        _improve(augmented, reward, visits.total(reward[choice]), better, everything)
        if (better == choice).all():
            return choice, visits
        choice = better


class Visits:
    """How often a policy visits what, as a factorised system of equations."""

    def __init__(self, augmented: Augmented, choice: Ints) -> None:
        moves = augmented.transitions[choice]
        # Stocks only rise and time only passes, so few states lead back to where they came from.
        # In the order of those loops the matrix is almost triangular and fills in a hundred times
        # less than in the order a general method finds (20 x 20 grid with slips: 11 ms, not 830).
        _, loop = connected_components(moves, directed=True, connection="strong")
        self._order = np.argsort(-loop, kind="stable")
        leaves = sparse.eye_array(augmented.states) - augmented.flow * moves
        leaves = leaves.tocsr()[self._order][:, self._order].tocsc()
        try:
            self._factors = splu(
                leaves, "NATURAL", diag_pivot_thresh=0.0, options={"SymmetricMode": True}
            )
        except RuntimeError:
            raise UsageError(
                f"{augmented.finite.name}: under some policy episodes never end; give a horizon or "
                "a gamma below 1"
            ) from None

    def total(self, gains: Floats) -> Floats:
        """Expected sum of what each state's chosen pair brings, (n,) or (n, columns)."""
        total = np.empty_like(gains)
        total[self._order] = self._factors.solve(gains[self._order])
        return total

    def counts(self, start: Floats) -> Floats:
        """Expected visits of each state, (n,), from a distribution over them."""
        counts = np.empty_like(start)
        counts[self._order] = self._factors.solve(start[self._order], trans="T")
        return counts


def _iterate_values(augmented: Augmented, reward: Floats, known: Ints | None) -> Ints:
    value: Floats = np.zeros(augmented.states)
    choice = augmented.first_pair[:-1].copy()
    if augmented.stocks.timed:
        for layer in reversed(augmented.layers):
            value[layer] = _improve(augmented, reward, value, choice, layer)
        return choice
    if known is not None:
        choice = known.copy()
        value = Visits(augmented, choice).total(reward[choice])
    everything = slice(0, augmented.states)
    must_converge = augmented.flow == 1.0 and known is None
    for _ in range(_FIRST_SWEEPS if must_converge else _SWEEPS):
        before = value
        value = _improve(augmented, reward, before, choice, everything)
        if np.abs(value - before).max() <= _ENOUGH * (1.0 + np.abs(value).max()):
            return choice
    if must_converge:
        raise UsageError(
            f"{augmented.finite.name}: values still change after {_FIRST_SWEEPS} sweeps: without "
            "constraints returns are unbounded, or episodes end too rarely. Give a horizon or a "
            "gamma below 1, or use the linear program"
        )
    return choice


def _improve(
    augmented: Augmented, reward: Floats, value: Floats, choice: Ints, states: slice
) -> Floats:
    """Let `choice` take better pairs in these states; returns the value of the best ones."""
    bounds = augmented.first_pair[states.start : states.stop + 1]
    pairs = slice(bounds[0], bounds[-1])
    worth = reward[pairs] + augmented.flow * (augmented.transitions[pairs] @ value)
    best: Floats = np.maximum.reduceat(worth, bounds[:-1] - bounds[0])
    incumbent = worth[choice[states] - bounds[0]]
    replaced = best > incumbent + _BETTER * (1.0 + np.abs(best))
    if replaced.any():
        state = augmented.pair_state[pairs] - states.start
        winners = np.flatnonzero((worth >= best[state]) & replaced[state])
        chosen = choice[states]  # a view
        chosen[state[winners]] = winners + bounds[0]
    return best
