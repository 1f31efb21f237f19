"""Which stocks must be told apart, and what paying a cost changes.

A stock belongs to the state only as far as it matters for the future:

- a linear utility needs no stock at all;
- one with a single kink at 0 (`excess`) is linear again once the budget is used up, or while it is
  so ample that no future can use it up; each of the two is one stock, if costs are not negative.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ucpo.envs.finite_problem import FiniteProblem, Ints
from ucpo.errors import UsageError
from ucpo.problem import Constraint, Floats, Utility

PER_UNIT = 10**9  # of keys; stocks nearer than this part of a cost unit are the same one
_EXHAUSTED, _AMPLE = 2**62, -(2**62)  # keys of the stocks that share their future
_LARGEST = 2**61


def kink(utility: Utility) -> tuple[float, float] | None:
    """Slopes below and above 0 if the utility is linear on either side of 0, else None.

    Those are the positively homogeneous utilities of degree 1: the utility of a discounted stock is
    the discounted utility of the stock. Decided on a wide range of probes, not proved.
    """
    probe = np.concatenate([np.geomspace(1e-6, 1e6, 73), np.linspace(0.05, 50.0, 400)])
    low, zero, high = (float(value) for value in utility(np.array([-1.0, 0.0, 1.0])))
    straight = np.allclose(utility(probe), high * probe, rtol=1e-9, atol=1e-12)
    straight &= np.allclose(utility(-probe), low * probe, rtol=1e-9, atol=1e-12)
    return (-low, high) if straight and zero == 0.0 else None


@dataclass(frozen=True)
class Stocks:
    """The stocks of all constraints. Stocks and costs are in cost units, `time` counts steps.

    Keys are whole numbers, one for each stock that is tracked.
    """

    constraints: tuple[Constraint, ...]
    unit: float
    discount: float
    timed: bool
    slopes: tuple[tuple[float, float] | None, ...]  # per constraint, of kinked utilities
    tracked: tuple[int, ...]  # the constraints whose stock matters
    merged: tuple[bool, ...]  # per constraint: exhausted and ample stocks are one each
    reach: Floats  # (times, C) the most that can still be paid, as the stock at that time counts it

    @classmethod
    def of(
        cls,
        finite: FiniteProblem,
        constraints: tuple[Constraint, ...],
        costs: Floats,
        discount: float,
    ) -> Stocks:
        """How stocks move when branches of the process pay `costs`, shape (B, C)."""
        slopes = tuple(kink(constraint.utility) for constraint in constraints)
        return cls(
            constraints=constraints,
            unit=finite.cost_unit,
            discount=discount,
            timed=finite.horizon is not None,
            slopes=slopes,
            tracked=tuple(c for c, slope in enumerate(slopes) if not slope or len({*slope}) > 1),
            merged=tuple(
                slope is not None and bool(least >= 0.0)
                for slope, least in zip(slopes, costs.min(0), strict=True)
            ),
            reach=_reach(finite.horizon, np.maximum(costs.max(0), 0.0), discount),
        )

    def key(self, stock: Floats, time: int) -> Ints:
        """Keys of stocks (k, C), shape (k, tracked); infinite ones stand for merged stocks."""
        keys = np.empty((len(stock), len(self.tracked)), np.int64)
        for place, column in enumerate(self.tracked):
            finite = np.isfinite(stock[:, column])
            rounded = np.round(np.where(finite, stock[:, column], 0.0) * PER_UNIT)
            if (np.abs(rounded) > _LARGEST).any():
                raise UsageError(
                    "stocks grow beyond all bounds without a horizon; give the process one"
                )
            keys[:, place] = rounded
            if self.merged[column]:
                reach = self.reach[time, column]
                keys[stock[:, column] + reach <= 1.0 / PER_UNIT, place] = _AMPLE
                keys[(rounded >= 0.0) & (stock[:, column] > -np.inf), place] = _EXHAUSTED
        return keys

    def pay(self, keys: Ints, costs: Floats, time: int) -> tuple[Ints, Floats]:
        """Keys after paying costs (k, C), and by how much each utility changes, (k, C).

        With a horizon the change is in terms of the final stock; without one it is to be discounted
        by the number of steps before, as rewards are.
        """
        weight = self.unit * (self.discount**time if self.timed else 1.0)
        after, change = np.zeros_like(costs), np.zeros_like(costs)
        for column, constraint in enumerate(self.constraints):
            cost, slope, utility = costs[:, column], self.slopes[column], constraint.utility
            if column in self.tracked:
                key = keys[:, self.tracked.index(column)]
                stock = np.select([key == _AMPLE, key == _EXHAUSTED], [-np.inf, np.inf], key)
                stock[np.isfinite(stock)] /= PER_UNIT
                after[:, column] = (stock + cost) / self.discount
                here = np.where(np.isfinite(stock), stock, 0.0)
                change[:, column] = utility(weight * (here + cost)) - utility(weight * here)
                if slope:
                    ample = stock == -np.inf
                    change[ample, column] = slope[0] * weight * cost[ample]
            else:
                assert slope is not None
                change[:, column] = slope[1] * weight * cost
        return self.key(after, time + 1 if self.timed else 0), change


def _reach(horizon: int | None, largest: Floats, discount: float) -> Floats:
    left = np.array([np.inf]) if horizon is None else horizon - np.arange(horizon + 1.0)
    steps = left if discount == 1.0 else (1.0 - discount**left) / (1.0 - discount)
    return np.where(largest > 0.0, steps[:, None] * np.where(largest > 0.0, largest, 1.0), 0.0)
