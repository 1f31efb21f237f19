"""The Lagrangian route: the way UCP goes, with exact steps.

Inside, the best policy at given prices, by dynamic programming. Outside, prices that minimise the
dual function: each policy met on the way is a line below which the dual cannot fall, and the next
prices are where the lines met so far let it be lowest (Kelley's cutting planes). The same small
program tells how to mix the policies so that the constraints hold, so the search ends when the
mixture is as good as the dual allows.

One sweep at one price answers for every initial stock at once, so budgets share their lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import linprog

from ucpo.envs.finite_problem import FiniteProblem, Ints
from ucpo.errors import UsageError
from ucpo.exact.augmentation import MAX_STATES, Augmented, augment
from ucpo.exact.dynamics import Visits, best_response
from ucpo.exact.solution import Policy, Solution
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
    prices: Floats  # (C,) where the lines are lowest


def _search(lines: _Lines, row: int, precision: float) -> Solution:
    """Prices and mixture for one initial stock."""
    missed = _meet(lines, row)
    for _ in range(_ROUNDS):
        mixture = _mix(lines, row, missed)
        bound, prices = lines.lowest(row)
        if bound - mixture.value <= precision * (1.0 + abs(bound)):
            return _solution(lines, row, mixture, bound, prices)
        if any(np.array_equal(mixture.prices, tried) for tried in lines.prices):
            break
        lines.draw(mixture.prices)
    raise UsageError(
        f"{lines.augmented.finite.name}: the duality gap from stock "
        f"{lines.augmented.initial_stocks[row].tolist()} stays at {bound - mixture.value:.3g}; ask "
        f"for less than precision={precision:g}, or use the linear program"
    )


def _meet(lines: _Lines, row: int) -> float:
    """Draw lines until a mixture meets the constraints; returns by how little it misses them.

    Prices point where the violation of the best mixture does and rise until either no better
    mixture is found or reward plays no role any more.
    """
    ceiling = _FIRST_CEILING
    while True:
        missed, direction = _least_violation(lines, row)
        if missed <= _MET:
            return missed
        scale = 1.0 + max(abs(float(value[row])) for value in lines.values)
        lines.draw(ceiling * scale * direction)
        if direction @ lines.violations[-1][row] > missed - _MET:
            ceiling *= 10.0
        if ceiling > _LAST_CEILING:
            raise UsageError(
                f"{lines.augmented.finite.name}: no policy meets the constraints from stock "
                f"{lines.augmented.initial_stocks[row].tolist()}; at the highest prices they are "
                f"still missed by {missed:.6g} in units of the utility. Raise the budget or the "
                "tolerance"
            )


def _least_violation(lines: _Lines, row: int) -> tuple[float, Floats]:
    """Least sum of violations of any mixture, and how much each constraint adds to it, (C,)."""
    violations = np.array([violation[row] for violation in lines.violations])  # (lines, C)
    count, C = violations.shape
    answer = linprog(
        np.repeat([0.0, 1.0], [count, C]),
        A_ub=np.hstack([violations.T, -np.eye(C)]),
        b_ub=np.zeros(C),
        A_eq=np.repeat([1.0, 0.0], [count, C])[None],
        b_eq=[1.0],
        method="highs",
        options=_PRECISION,
    )
    return float(answer.fun), np.maximum(-answer.ineqlin.marginals, 0.0)


def _mix(lines: _Lines, row: int, missed: float) -> _Mixture:
    """The best mixture that misses the constraints by no more than it must."""
    values = np.array([value[row] for value in lines.values])
    violations = np.array([violation[row] for violation in lines.violations])  # (lines, C)
    answer = linprog(
        -values,
        A_ub=violations.T,
        b_ub=np.full(violations.shape[1], missed),
        A_eq=np.ones((1, len(values))),
        b_eq=[1.0],
        method="highs",
        options=_PRECISION,
    )
    return _Mixture(
        weights=answer.x,
        value=float(answer.x @ values),
        violations=answer.x @ violations,
        prices=np.maximum(-answer.ineqlin.marginals, 0.0),
    )


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
