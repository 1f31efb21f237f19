"""What a solver answers for one initial stock, and what episodes under its policy look like."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from ucpo.envs.finite_problem import ENDED
from ucpo.errors import UsageError
from ucpo.exact.augmentation import Augmented
from ucpo.problem import Floats

_ROUNDING = 10  # decimals at which returns and costs of episodes count as equal


@dataclass(frozen=True, repr=False)
class Policy:
    """Chances of the actions in each augmented state."""

    augmented: Augmented
    chances: Floats  # (m,) per state-action pair

    @classmethod
    def by_visits(cls, augmented: Augmented, visits: Floats, elsewhere: Floats) -> Policy:
        """Shares of how often each pair is visited (m,); `elsewhere`, the chances given (m,)."""
        total = np.add.reduceat(visits, augmented.first_pair[:-1])[augmented.pair_state]
        visited = total > 0.0
        return cls(augmented, np.where(visited, visits / np.where(visited, total, 1.0), elsewhere))

    def __call__(self, state: int, stock: Floats | float, time: int = 0) -> Floats:
        """Chances of all actions of the process, shape (actions,), at a stock of shape (C,).

        The stock is the one an agent would see: inflated by the discount if that is below 1.
        """
        where = self.augmented.find(state, np.atleast_1d(stock), time)
        pairs = slice(self.augmented.first_pair[where], self.augmented.first_pair[where + 1])
        chances = np.zeros(self.augmented.finite.actions)
        chances[self.augmented.pair_action[pairs]] = self.chances[pairs]
        return chances


@dataclass(frozen=True)
class Solution:
    """The optimum from one initial stock."""

    initial_stock: Floats  # (C,)
    value: float
    """Expected return of `policy`, discounted by gamma."""
    utilities: Floats  # (C,)
    """Expected utility of the final stock under `policy`; at most the tolerance."""
    prices: Floats  # (C,)
    """Multipliers: how much a unit of tolerance is worth. Not unique where the value has a kink."""
    bound: float
    """No policy that meets the constraints has a higher expected return (Lagrangian duality)."""
    policy: Policy

    @property
    def gap(self) -> float:
        """Duality gap: by how much the policy could at most be improved."""
        return self.bound - self.value


def visits(solution: Solution, negligible: float = 1e-12) -> Floats:
    """How often an episode is in each state of the process, on average, (states,).

    Without a horizon visits are discounted by gamma.
    """
    augmented = solution.policy.augmented
    shape = (augmented.states, len(augmented.pair_state))
    chosen = sparse.csr_array(
        (solution.policy.chances, (augmented.pair_state, np.arange(shape[1]))), shape
    )
    moves = (chosen @ augmented.transitions).T.tocsr()
    row = np.flatnonzero((augmented.initial_stocks == solution.initial_stock).all(1))[0]
    here = augmented.starts[[row]].toarray()[0]
    counts = np.zeros(augmented.states)
    while here.sum() > negligible:
        counts += here
        here = augmented.flow * (moves @ here)
    state = [key[1] for key in augmented.index]  # dicts keep the order of numbering
    return np.bincount(state, counts, augmented.finite.states).astype(np.float64)


@dataclass(frozen=True)
class Episode:
    """One way an episode may go, up to differences in the order of events."""

    probability: float
    total: float
    """Return, discounted by gamma."""
    costs: tuple[float, ...]
    """Constrained costs, discounted as the stock is."""


def episodes(
    solution: Solution, negligible: float = 1e-12, longest: int = 100_000
) -> list[Episode]:
    """The distribution of return and costs under the solution's policy, exactly.

    Args:
        solution: Of a small problem: every combination of state, return and costs is followed.
        negligible: Endless episodes are followed until so little probability is left, or what
            is left is discounted to so little.
        longest: Steps after which to give up on that.

    Returns:
        Sorted by costs and return; probabilities sum to 1.
    """
    follow = _Following(solution)
    finite, columns = follow.augmented.finite, len(solution.initial_stock)
    ended: dict[tuple[float, ...], float] = defaultdict(float)
    alive = {
        (follow.augmented.find(state, solution.initial_stock), *(0.0,) * (1 + columns)): chance
        for state, chance in enumerate(finite.start)
        if chance > 0.0
    }
    time = 0
    while sum(alive.values()) * follow.augmented.flow**time > negligible:
        if time == longest:
            raise UsageError(f"{finite.name}: episodes do not end within {longest} steps")
        following: dict[tuple[float, ...], float] = defaultdict(float)
        for (where, *so_far), mass in alive.items():
            for chance, successor, gains in follow.steps(int(where), time):
                key = tuple(np.round(np.add(so_far, gains), _ROUNDING).tolist())
                if successor is None:
                    ended[key] += mass * chance
                else:
                    following[(successor, *key)] += mass * chance
        alive, time = following, time + 1
    for (_, *so_far), mass in alive.items():  # the negligible rest
        ended[tuple(so_far)] += mass
    ordered = sorted(ended.items(), key=lambda item: (item[0][1:], item[0][0]))
    return [Episode(mass, total, tuple(costs)) for (total, *costs), mass in ordered]


class _Following:
    """What may come after an augmented state under a policy."""

    def __init__(self, solution: Solution) -> None:
        self.augmented = solution.policy.augmented
        self._chances = solution.policy.chances
        self._keys = list(self.augmented.index)  # in the order of their numbers
        finite = self.augmented.finite
        self._columns = [finite.cost_names.index(name) for name in self.augmented.problem.costs]

    def steps(self, where: int, time: int) -> Iterator[tuple[float, int | None, Floats]]:
        """Probability, next augmented state, and discounted reward and costs (1 + C,)."""
        known, finite, table = self.augmented, self.augmented.finite, self.augmented.finite.table
        _, state, *key = self._keys[where]
        last = finite.horizon is not None and time + 1 == finite.horizon
        for place, pair in enumerate(range(*known.first_pair[where : where + 2])):
            source = table.first_pair[state] + place
            branches = slice(*table.first_branch[source : source + 2])
            costs = table.costs[branches][:, self._columns]
            keys = np.tile(np.array(key, np.int64), (len(costs), 1))
            after, _ = known.stocks.pay(keys, costs / finite.cost_unit, time)
            for row, branch in enumerate(range(branches.start, branches.stop)):
                chance = float(self._chances[pair] * table.probability[branch])
                successor = int(table.successor[branch])
                ends = last or successor == ENDED
                if chance > 0.0:
                    later = (time + 1 if known.stocks.timed else 0, successor, *after[row].tolist())
                    gains = np.append(
                        finite.gamma**time * table.reward[branch],
                        known.stocks.discount**time * costs[row],
                    )
                    yield chance, None if ends else known.index[later], gains
