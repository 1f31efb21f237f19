"""The Lagrangian route: the way UCP goes, with exact steps.

Inside, the best policy at given prices, by dynamic programming. Outside, prices that minimise the
dual function: each policy met on the way is a line below which the dual cannot fall, and the next
prices are the lowest point above all lines met so far (Kelley's cutting planes). The same small
program tells how to mix the policies so that the constraints hold, so the search ends when the
mixture is as good as the dual allows.

One sweep at one price answers for every initial stock at once, so budgets share their lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import linprog

from ucpo.errors import UsageError
from ucpo.exact.augmentation import MAX_STATES, Augmented, augment
from ucpo.exact.dynamics import Visits, best_response
from ucpo.exact.solution import Policy, Solution
from ucpo.finite import FiniteProblem, Ints
from ucpo.problem import Floats, Problem

_PRECISION = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
_FIRST_CEILING, _LAST_CEILING = 1.0, 1e8  # of prices, relative to the largest value
_MET = 1e-8  # what may be left of the violations
_ROUNDS = 1000  # of prices tried at one initial stock


def solve_lagrangian(
    finite: FiniteProblem,
    problem: Problem,
    initial_stocks: Sequence[float] | Sequence[Sequence[float]] | Floats,
    stock_discount: float = 1.0,
    max_states: int = MAX_STATES,
    precision: float = 1e-7,
) -> list[Solution]:
    """The optimum from each initial stock, by searching for the prices.

    Args:
        finite: The process.
        problem: Constraints on costs of the process, by name. Their tolerance counts.
        initial_stocks: Minus the budgets, shape (K,) for a single constraint or (K, C).
        stock_discount: 1 for the undiscounted stock, gamma for the discounted one.
        max_states: Pairs of state and stock at which to give up.
        precision: Duality gap to reach, relative to ``1 + |value|``.

    Raises:
        UsageError: If no policy meets the constraints, or returns are unbounded, or too many
            stocks can be reached.
    """
    augmented = augment(finite, problem, initial_stocks, stock_discount, max_states)
    lines = _Lines(augmented)
    lines.draw(np.zeros(len(problem.constraints)))
    return [_search(lines, row, precision) for row in range(len(augmented.initial_stocks))]


@dataclass
class _Lines:
    """Policies met so far: return and violations of each, from each of the `K` initial stocks."""

    augmented: Augmented
    prices: list[Floats] = field(default_factory=list)  # (C,) each, at which the policy is best
    choices: list[Ints] = field(default_factory=list)  # (n,) each
    values: list[Floats] = field(default_factory=list)  # (K,) each
    violations: list[Floats] = field(default_factory=list)  # (K, C) each, positive: not met

    def draw(self, prices: Floats) -> None:
        """Add the best policy at these prices."""
        known = self.augmented
        near = self.choices[-1] if self.choices else None
        choice, visits = best_response(known, known.reward - known.utility @ prices, near)
        totals = known.starts @ visits.total(np.column_stack([known.reward, known.utility])[choice])
        self.prices.append(prices)
        self.choices.append(choice)
        self.values.append(totals[:, 0])
        self.violations.append(known.initial_utility + totals[:, 1:] - known.tolerance)

    def lowest(self, row: int) -> tuple[float, Floats]:
        """The lowest value of the dual met so far, and its prices."""
        duals = [
            float(value[row] - prices @ violation[row])
            for prices, value, violation in zip(
                self.prices, self.values, self.violations, strict=True
            )
        ]
        least = int(np.argmin(duals))
        return duals[least], self.prices[least]


@dataclass(frozen=True)
class _Mixture:
    """Policies to draw from at the start of an episode."""

    weights: Floats  # (lines,)
    value: float
    violations: Floats  # (C,)
    missed: float  # what is left of the violations, summed
    prices: Floats  # (C,) where the lines are lowest


def _search(lines: _Lines, row: int, precision: float) -> Solution:
    """Prices and mixture for one initial stock."""
    ceiling = _FIRST_CEILING
    for _ in range(_ROUNDS):
        mixture = _mix(lines, row, ceiling * _scale(lines, row))
        bound, prices = lines.lowest(row)
        if mixture.missed <= _MET and bound - mixture.value <= precision * (1 + abs(bound)):
            return _solution(lines, row, mixture, bound, prices)
        settled = any(np.array_equal(mixture.prices, tried) for tried in lines.prices)
        if not settled:
            lines.draw(mixture.prices)
        elif mixture.missed > _MET and ceiling < _LAST_CEILING:
            ceiling *= 10.0
        else:
            break
    stock = lines.augmented.initial_stocks[row].tolist()
    name = lines.augmented.finite.name
    if mixture.missed > _MET:
        raise UsageError(
            f"{name}: no policy meets the constraints from stock {stock}; at the highest prices "
            f"they are still missed by {mixture.missed:.6g} in units of the utility. Raise the "
            "budget or the tolerance"
        )
    raise UsageError(
        f"{name}: the duality gap from stock {stock} stays at {bound - mixture.value:.3g}; ask for "
        f"less than precision={precision:g}, or use the linear program"
    )


def _mix(lines: _Lines, row: int, ceiling: float) -> _Mixture:
    """The best mixture of the policies met; missing a constraint costs the ceiling per unit."""
    values = np.array([value[row] for value in lines.values])
    violations = np.array([violation[row] for violation in lines.violations])  # (lines, C)
    C = violations.shape[1]
    answer = linprog(
        np.concatenate([-values, np.full(C, ceiling)]),
        A_ub=np.hstack([violations.T, -np.eye(C)]),
        b_ub=np.zeros(C),
        A_eq=np.concatenate([np.ones(len(values)), np.zeros(C)])[None],
        b_eq=[1.0],
        method="highs",
        options=_PRECISION,
    )
    weights: Floats = answer.x[:-C]
    return _Mixture(
        weights=weights,
        value=float(weights @ values),
        violations=weights @ violations,
        missed=float(answer.x[-C:].sum()),
        prices=np.maximum(-answer.ineqlin.marginals, 0.0),
    )


def _scale(lines: _Lines, row: int) -> float:
    return 1.0 + max(abs(float(value[row])) for value in lines.values)


def _solution(lines: _Lines, row: int, mixture: _Mixture, bound: float, prices: Floats) -> Solution:
    """One Markov policy that visits every pair as often as the mixture does."""
    known = lines.augmented
    start = known.starts[[row]].toarray()[0]
    visits = np.zeros(len(known.pair_state))
    for line in np.flatnonzero(mixture.weights > 1e-12):
        choice = lines.choices[line]
        counts = np.maximum(Visits(known, choice).counts(start), 0.0)
        visits[choice] += mixture.weights[line] * counts
    fallback = np.zeros(len(known.pair_state))
    fallback[lines.choices[int(np.argmax(mixture.weights))]] = 1.0
    return Solution(
        initial_stock=known.initial_stocks[row],
        value=mixture.value,
        utilities=mixture.violations + known.tolerance,
        prices=prices,
        bound=bound,
        policy=Policy.by_visits(known, visits, fallback),
    )
