"""Exact solutions of small problems: what the best policy within a budget is worth.

The problem is to maximise ``E[sum gamma^t reward_t]`` subject to ``E[u(Z)] <= tolerance`` for each
constraint, where ``Z = z0 + sum d^t cost_t`` is the final stock, ``z0`` is minus the budget and
``d`` the discount of the stock: 1 (undiscounted) or gamma (discounted). An episode ends when its
process does or at the horizon, whichever comes first. Policies see the state, the stock
(``Z_t = (z0 + sum_{k<t} d^k cost_k) / d^t``, as in `ucpo.stock`) and, with a horizon, the time.

What is exact, and what is refused with a `UsageError`:

- With a horizon: any gamma, either stock, any utility.
- Without a horizon, reward and stock must have the same discount. (Otherwise the best action
  depends on how much the future of either still counts, that is on the time.)
- Without a horizon and with a discount below 1, utilities must be proportional to the stock on
  either side of 0, as `mean` and `excess` are: then ``u(d^t Z_t) = d^t u(Z_t)`` and the state need
  not contain the time. Other utilities need a horizon, or an undiscounted stock.
- Finitely many stocks must be reachable. Undiscounted stocks that are neither exhausted nor ample
  (see `ucpo.exact.stocks`) are on a lattice, so they are. Discounted ones without a horizon are
  only by luck (two actions, gamma = 1/2); the search gives up at `max_states`.
- Without a horizon and with gamma 1, episodes must be able to end, and the Lagrangian route needs
  returns to be bounded even without constraints.

`solve` (linear program) and `solve_lagrangian` (prices, as UCP) take and return the same.
"""

from ucpo.envs.finite_problem import Branch, FiniteProblem
from ucpo.exact.augmentation import Augmented, augment
from ucpo.exact.lagrangian import solve_lagrangian
from ucpo.exact.program import solve
from ucpo.exact.solution import Episode, Policy, Solution, episodes, visits

__all__ = [
    "Augmented",
    "Branch",
    "Episode",
    "FiniteProblem",
    "Policy",
    "Solution",
    "augment",
    "episodes",
    "solve",
    "solve_lagrangian",
    "visits",
]
