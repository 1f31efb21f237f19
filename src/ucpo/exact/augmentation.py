"""States and stocks together: a finite process in which utilities have become sums.

A utility of the final stock is the utility of the initial stock plus what each step changes,
``u(Z + cost) - u(Z)``. On pairs of state and stock it therefore adds up like a reward, and linear
programs and value iteration apply as they do to any decision process.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from ucpo.envs.finite_problem import ENDED, FiniteProblem, Ints
from ucpo.errors import UsageError, nearest
from ucpo.exact.stocks import PER_UNIT, Stocks, kink
from ucpo.problem import Floats, Problem

MAX_STATES = 500_000
_NEAR = 1e-4  # cost units within which a stock is taken for one that can be reached

Sparse = Any  # scipy's sparse arrays have no types


@dataclass(frozen=True, repr=False)
class Augmented:
    """`n` augmented states with `m` state-action pairs, sorted by state, for `K` initial stocks.

    With a horizon the time is part of the state and rewards are already discounted (`flow` is 1);
    without one, `flow` is the discount from one step to the next.
    """

    finite: FiniteProblem
    problem: Problem
    stocks: Stocks
    initial_stocks: Floats  # (K, C)
    initial_utility: Floats  # (K, C)
    starts: Sparse  # (K, n) probability of each augmented state at the start
    first_pair: Ints  # (n + 1,)
    pair_state: Ints  # (m,)
    pair_action: Ints  # (m,)
    reward: Floats  # (m,) expected
    utility: Floats  # (m, C) expected change of each constraint's utility
    transitions: Sparse  # (m, n) probability of the next augmented state
    layers: tuple[slice, ...]  # the states of each time; without a horizon, all of them at once
    flow: float
    index: dict[tuple[int, ...], int]  # number of a state by time, process state, keys of stocks

    @property
    def states(self) -> int:
        """Number of augmented states."""
        return len(self.first_pair) - 1

    @property
    def tolerance(self) -> Floats:
        """What each expected utility may be at most, (C,)."""
        return np.array([constraint.tolerance for constraint in self.problem.constraints])

    def find(self, state: int, stock: Sequence[float] | Floats, time: int = 0) -> int:
        """Number of an augmented state, by its stock (C,) in the units of the costs.

        Stocks rounded as float32 does are found too.
        """
        time = time if self.stocks.timed else 0
        units = np.asarray(stock, np.float64).reshape(1, -1) / self.finite.cost_unit
        key = self.stocks.key(units, time)[0]
        exact = self.index.get((time, state, *key.tolist()))
        if exact is not None:
            return exact
        keys, numbers = self._stocks_at.get((time, state), (key[None], np.array([-1])))
        distance = np.abs(keys - key.astype(np.float64)).max(1) / PER_UNIT
        if numbers[0] < 0 or distance.min() > _NEAR:
            raise UsageError(
                f"{self.finite.name}: state {state} with stock {np.asarray(stock).tolist()} at "
                f"time {time} cannot be reached from stocks {self.initial_stocks.tolist()}"
            )
        return int(numbers[np.argmin(distance)])

    @cached_property
    def _stocks_at(self) -> dict[tuple[int, int], tuple[Ints, Ints]]:
        """Keys and numbers of the augmented states at each time and state."""
        places: dict[tuple[int, int], list[int]] = {}
        keys = list(self.index)  # in the order of their numbers
        for number, (time, state, *_) in enumerate(keys):
            places.setdefault((time, state), []).append(number)
        return {
            place: (np.array([keys[each][2:] for each in numbers]), np.array(numbers))
            for place, numbers in places.items()
        }


def augment(
    finite: FiniteProblem,
    problem: Problem,
    initial_stocks: Sequence[float] | Sequence[Sequence[float]] | Floats,
    stock_discount: float = 1.0,
    max_states: int = MAX_STATES,
) -> Augmented:
    """List all that can be reached from the initial stocks.

    Args:
        finite: The process.
        problem: Constraints on costs of the process, by name.
        initial_stocks: Minus the budgets, shape (K,) for a single constraint or (K, C).
        stock_discount: 1 for the undiscounted stock, gamma for the discounted one.
        max_states: Where to give up.
    """
    _refuse_unsound(finite, problem, stock_discount)
    columns = [finite.cost_names.index(name) for name in problem.costs]
    initial = np.asarray(initial_stocks, np.float64).reshape(-1, len(columns))
    if not np.isfinite(initial).all():
        raise UsageError(f"initial stocks must be finite, got {initial.tolist()}")
    costs = finite.table.costs[:, columns] / finite.cost_unit
    stocks = Stocks.of(finite, problem.constraints, costs, stock_discount)
    keys = stocks.key(initial / finite.cost_unit, 0)
    index, waves = _explore(finite, costs, stocks, keys, max_states)

    pairs = np.concatenate([wave.pairs for wave in waves])
    offsets = np.cumsum([0] + [len(wave.action) for wave in waves])
    rows = [wave.rows + offset for wave, offset in zip(waves, offsets[:-1], strict=True)]
    transitions = sparse.csr_array(
        (
            np.concatenate([wave.probability for wave in waves]),
            (np.concatenate(rows), np.concatenate([wave.columns for wave in waves])),
        ),
        (int(offsets[-1]), len(index)),
    )
    sizes = np.cumsum([0] + [len(wave.pairs) for wave in waves]).tolist()
    layers = [slice(low, high) for low, high in pairwise(sizes)]
    return Augmented(
        finite=finite,
        problem=problem,
        stocks=stocks,
        initial_stocks=initial,
        initial_utility=np.column_stack(
            [each.utility(initial[:, c]) for c, each in enumerate(problem.constraints)]
        ),
        starts=_starts(finite, keys, index),
        first_pair=np.concatenate([[0], np.cumsum(pairs)]),
        pair_state=np.repeat(np.arange(len(index)), pairs),
        pair_action=np.concatenate([wave.action for wave in waves]),
        reward=np.concatenate([wave.reward for wave in waves]),
        utility=np.concatenate([wave.utility for wave in waves]),
        transitions=transitions,
        layers=tuple(layers) if stocks.timed else (slice(0, len(index)),),
        flow=1.0 if stocks.timed else finite.gamma,
        index=index,
    )


def _refuse_unsound(finite: FiniteProblem, problem: Problem, stock_discount: float) -> None:
    for name in problem.costs:
        if name not in finite.cost_names:
            raise UsageError(
                f"{finite.name} has no cost {name!r}; {nearest(name, list(finite.cost_names))}"
            )
    if not 0.0 < stock_discount <= 1.0:
        raise UsageError(f"stock_discount must be in (0, 1], got {stock_discount}")
    if finite.horizon is None and stock_discount != finite.gamma:
        raise UsageError(
            f"{finite.name}: without a horizon, stock and reward must be discounted alike, got "
            f"stock_discount={stock_discount:g} and gamma={finite.gamma:g}: the best action would "
            "depend on the time. Give a horizon, or use one discount for both"
        )
    for constraint in problem.constraints:
        if finite.horizon is None and stock_discount < 1.0 and not kink(constraint.utility):
            raise UsageError(
                f"{finite.name}: utility {constraint.utility.name!r} is not proportional to the "
                "stock on either side of 0, so a discounted stock does not determine it without a "
                "horizon; give one, or use an undiscounted stock"
            )


@dataclass(frozen=True)
class _Wave:
    """Augmented states found together, and what they lead to."""

    pairs: Ints  # (states,) how many each has
    action: Ints  # (pairs,)
    reward: Floats  # (pairs,)
    utility: Floats  # (pairs, C)
    successors: Ints  # (entries, 1 + tracked) state and keys of stocks
    rows: Ints  # (entries,) the pair that leads there
    columns: Ints  # (entries,) number of the successor, filled in once it has one
    probability: Floats  # (entries,)

    @classmethod
    def of(
        cls, finite: FiniteProblem, costs: Floats, found: Ints, stocks: Stocks, time: int
    ) -> _Wave:
        table = finite.table
        pair, of_state = _members(table.first_pair, found[:, 0])
        branch, of_pair = _members(table.first_branch, pair)
        after, change = stocks.pay(found[of_state[of_pair], 1:], costs[branch], time)
        probability = table.probability[branch]
        discount = finite.gamma**time if stocks.timed else 1.0
        goes_on = (table.successor[branch] != ENDED) & (probability > 0.0)
        if stocks.timed and time + 1 == finite.horizon:
            goes_on[:] = False
        return cls(
            pairs=np.diff(table.first_pair)[found[:, 0]],
            action=table.action[pair],
            reward=_sum(discount * probability * table.reward[branch], of_pair, len(pair)),
            utility=np.column_stack(
                [_sum(probability * each, of_pair, len(pair)) for each in change.T]
            ),
            successors=np.column_stack([table.successor[branch], after])[goes_on],
            rows=of_pair[goes_on],
            columns=np.zeros(int(goes_on.sum()), np.int64),
            probability=probability[goes_on],
        )


def _explore(
    finite: FiniteProblem, costs: Floats, stocks: Stocks, keys: Ints, max_states: int
) -> tuple[dict[tuple[int, ...], int], list[_Wave]]:
    """Number all augmented states in the order they are reached, by time if there is a horizon."""
    index: dict[tuple[int, ...], int] = {}
    begun = [np.insert(keys, 0, state, axis=1) for state in np.flatnonzero(finite.start)]
    frontier, _ = _number(index, np.unique(np.vstack(begun), axis=0), 0)
    waves: list[_Wave] = []
    while len(frontier):
        time = len(waves) if stocks.timed else 0
        wave = _Wave.of(finite, costs, frontier, stocks, time)
        waves.append(wave)
        found, which = np.unique(wave.successors, axis=0, return_inverse=True)
        frontier, numbers = _number(index, found, time + 1 if stocks.timed else 0)
        wave.columns[:] = numbers[which.reshape(-1)]
        if len(index) > max_states:
            raise UsageError(
                f"{finite.name}: more than {max_states} pairs of state and stock can be reached "
                f"(discount of the stock: {stocks.discount:g}). Give a shorter horizon or fewer "
                "initial stocks, or raise max_states; a discounted stock without a horizon seldom "
                "stays on finitely many values"
            )
    return index, waves


def _starts(finite: FiniteProblem, keys: Ints, index: dict[tuple[int, ...], int]) -> Sparse:
    rows, columns, chances = [], [], []
    for row, key in enumerate(keys.tolist()):
        for state in np.flatnonzero(finite.start).tolist():
            rows.append(row)
            columns.append(index[(0, state, *key)])
            chances.append(finite.start[state])
    return sparse.csr_array((chances, (rows, columns)), (len(keys), len(index)))


def _members(first: Ints, groups: Ints) -> tuple[Ints, Ints]:
    """All members ``first[g]:first[g + 1]`` of the groups in turn, and the place of their group."""
    counts = first[groups + 1] - first[groups]
    group = np.repeat(np.arange(len(groups)), counts)
    return (first[groups] - np.cumsum(counts) + counts)[group] + np.arange(len(group)), group


def _sum(values: Floats, groups: Ints, count: int) -> Floats:
    return np.bincount(groups, values, count).astype(np.float64)


def _number(index: dict[tuple[int, ...], int], keys: Ints, time: int) -> tuple[Ints, Ints]:
    """Give numbers to keys (k, ...); returns those that had none, and the number of each."""
    numbers = np.empty(len(keys), np.int64)
    known = len(index)
    for row, key in enumerate(keys.tolist()):
        numbers[row] = index.setdefault((time, *key), len(index))
    return keys[numbers >= known], numbers
