"""The occupancy-measure linear program.

The variables are how often (discounted) each augmented state is visited and each action taken
there. What flows into a state flows out of it; expected return and expected utilities are linear.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import sparse
from scipy.optimize import OptimizeResult, linprog

from ucpo.envs.finite_problem import FiniteProblem
from ucpo.errors import UsageError
from ucpo.exact.augmentation import MAX_STATES, Augmented, Sparse, augment
from ucpo.exact.solution import Policy, Solution
from ucpo.problem import Floats, Problem

_PRECISION = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
_INFEASIBLE, _UNBOUNDED = 2, 3


def solve(
    finite: FiniteProblem,
    problem: Problem,
    initial_stocks: Sequence[float] | Sequence[Sequence[float]] | Floats,
    stock_discount: float = 1.0,
    max_states: int = MAX_STATES,
) -> list[Solution]:
    """The optimum from each initial stock, by one linear program each.

    Args:
        finite: The process.
        problem: Constraints on costs of the process, by name. Their tolerance counts.
        initial_stocks: Minus the budgets, shape (K,) for a single constraint or (K, C).
        stock_discount: 1 for the undiscounted stock, gamma for the discounted one.
        max_states: Pairs of state and stock at which to give up.

    Raises:
        UsageError: If no policy meets the constraints, or returns are unbounded, or too many
            stocks can be reached.
    """
    stocks = np.asarray(initial_stocks, np.float64).reshape(-1, len(problem.constraints))
    return [
        _solve(augment(finite, problem, stock[None], stock_discount, max_states))
        for stock in stocks
    ]


def _solve(augmented: Augmented) -> Solution:
    flow = _flow(augmented)
    start = augmented.starts.toarray()[0]
    initial = augmented.initial_utility[0]
    answer = linprog(
        -augmented.reward,
        A_ub=augmented.utility.T,
        b_ub=augmented.tolerance - initial,
        A_eq=flow,
        b_eq=start,
        method="highs-ipm",  # twice as fast as the simplex method on grids; ends in a vertex too
        options=_PRECISION,
    )
    if answer.status != 0:
        raise UsageError(_reason(augmented, answer, flow, start))
    visits: Floats = np.maximum(answer.x, 0.0)
    prices: Floats = np.maximum(-answer.ineqlin.marginals, 0.0)
    value = float(augmented.reward @ visits)
    return Solution(
        initial_stock=augmented.initial_stocks[0],
        value=value,
        utilities=initial + augmented.utility.T @ visits,
        prices=prices,
        bound=float(-start @ answer.eqlin.marginals + prices @ (augmented.tolerance - initial)),
        policy=Policy.by_visits(augmented, visits, _cheapest(augmented, answer.lower.marginals)),
    )


def _flow(augmented: Augmented) -> Sparse:
    """What flows out of each state minus what flows into it, (n, m) sparse."""
    pairs = len(augmented.pair_state)
    out = sparse.csr_array(
        (np.ones(pairs), (augmented.pair_state, np.arange(pairs))), (augmented.states, pairs)
    )
    return (out - augmented.flow * augmented.transitions.T).tocsc()


def _cheapest(augmented: Augmented, reduced_costs: Floats) -> Floats:
    """Chances for states without visits: the pair that would be the first to get some."""
    choice = np.lexsort((reduced_costs, augmented.pair_state))[augmented.first_pair[:-1]]
    chances = np.zeros(len(reduced_costs))
    chances[choice] = 1.0
    return chances


def _reason(augmented: Augmented, answer: OptimizeResult, flow: Sparse, start: Floats) -> str:
    name = augmented.finite.name
    if answer.status == _UNBOUNDED:
        return (
            f"{name}: returns are unbounded, some reward can be had for ever within the "
            "constraints; give a horizon or a gamma below 1"
        )
    if answer.status != _INFEASIBLE:
        return f"{name}: the linear program was not solved: {answer.message}"
    # What is the least that the constraints can jointly be missed by? One slack for each.
    C = len(augmented.tolerance)
    cost = np.concatenate([np.zeros(flow.shape[1]), np.ones(C)])
    nearest = linprog(
        cost,
        A_ub=np.hstack([augmented.utility.T, -np.eye(C)]),
        b_ub=augmented.tolerance - augmented.initial_utility[0],
        A_eq=sparse.hstack([flow, sparse.csc_array((flow.shape[0], C))]),
        b_eq=start,
        method="highs",
    )
    if nearest.status != 0:
        return f"{name}: no policy ends with certainty; give a horizon or a gamma below 1"
    missed = ", ".join(
        f"{cost} by {slack:.6g}"
        for cost, slack in zip(augmented.problem.costs, nearest.x[-C:], strict=True)
        if slack > 0.0
    )
    return (
        f"{name}: no policy meets the constraints from stock "
        f"{augmented.initial_stocks[0].tolist()}; the nearest misses {missed} in units of the "
        "utility. Raise the budget or the tolerance"
    )
