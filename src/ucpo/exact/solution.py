"""What a solver answers for one initial stock, and what episodes under its policy look like."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from ucpo.errors import UsageError
from ucpo.exact.augmentation import Augmented
from ucpo.finite import ENDED
from ucpo.problem import Floats

_ROUNDING = 10  # decimals at which returns and costs of episodes count as equal


@dataclass(frozen=True)
class Policy:
    """Chances of the actions in each augmented state."""

    augmented: Augmented
    chances: Floats  # (m,) per state-action pair

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
        negligible: Endless episodes are followed until so little probability is left.
        longest: Steps after which to give up on that.

    Returns:
        Sorted by costs and return; probabilities sum to 1.
    """
    augmented = solution.policy.augmented
    finite, table, stocks = augmented.finite, augmented.finite.table, augmented.stocks
    columns = [finite.cost_names.index(name) for name in augmented.problem.costs]
    ended: dict[tuple[float, ...], float] = defaultdict(float)
    alive: dict[tuple[float, ...], float] = {
        (state, 0.0, *(0.0 for _ in columns)): chance
        for state, chance in enumerate(finite.start)
        if chance > 0.0
    }
    for time in range(finite.horizon or longest):
        if sum(alive.values()) <= negligible:
            break
        following: dict[tuple[float, ...], float] = defaultdict(float)
        for (state, total, *paid), mass in alive.items():
            stock = (solution.initial_stock + paid) / stocks.discount**time
            where = augmented.find(int(state), stock, time)
            for pair in range(augmented.first_pair[where], augmented.first_pair[where + 1]):
                chance = mass * float(solution.policy.chances[pair])
                if chance <= 0.0:
                    continue
                source = int(table.first_pair[int(state)] + pair - augmented.first_pair[where])
                for b in range(table.first_branch[source], table.first_branch[source + 1]):
                    costs = stocks.discount**time * table.costs[b, columns]
                    key = (
                        round(total + finite.gamma**time * float(table.reward[b]), _ROUNDING),
                        *np.round(np.add(paid, costs), _ROUNDING).tolist(),
                    )
                    probability = chance * float(table.probability[b])
                    last = finite.horizon is not None and time + 1 == finite.horizon
                    if last or table.successor[b] == ENDED:
                        ended[key] += probability
                    else:
                        following[(int(table.successor[b]), *key)] += probability
        alive = following
    else:
        if alive:
            raise UsageError(f"{finite.name}: episodes do not end within {longest} steps")
    for (_, *key), mass in alive.items():  # the negligible rest
        ended[tuple(key)] += mass
    ordered = sorted(ended.items(), key=lambda item: (item[0][1:], item[0][0]))
    return [Episode(mass, key[0], key[1:]) for key, mass in ordered]
