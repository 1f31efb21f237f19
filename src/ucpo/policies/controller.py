"""Acting under a budget outside training: a controller that keeps the stock.

It can be given more or less to spend midway, and says what the rest of an episode may cost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ucpo import stock as stocks
from ucpo.envs.adapters import chosen, to_bounds
from ucpo.errors import UsageError
from ucpo.policies.policy import Policy, check_hold
from ucpo.problem import Floats

if TYPE_CHECKING:
    from ucpo.policies.critics import CostCritics


ATOM = 0.5
"""Cost units. Costs are mostly counts, which networks meet only nearly: a prediction less than this
above what is left counts as keeping the budget."""


@dataclass(frozen=True)
class RemainingCost:
    """What the rest of an episode may cost: a distribution for each cost.

    Critics predict *discounted* sums without a time limit; docs/guides/live.md says how far the
    probabilities can be believed.
    """

    quantiles: Floats
    """In order, in cost units, (C, N): at levels (k + 0.5) / N."""
    remaining: Floats
    """What was left of each budget when they were predicted, (C,)."""

    @property
    def mean(self) -> Floats:
        """Expected cost, (C,)."""
        mean: Floats = self.quantiles.mean(-1)
        return mean

    @property
    def holds(self) -> Floats:
        """Predicted probability that the rest costs no more than is left, (C,)."""
        kept = self.quantiles < np.maximum(self.remaining, 0.0)[:, None] + ATOM
        chance: Floats = kept.mean(-1) * (self.remaining >= 0.0)
        return chance

    def quantile(self, level: float) -> Floats:
        """The cost that is not exceeded with this probability, between 0 and 1, (C,)."""
        if not 0.0 <= level <= 1.0:
            raise UsageError(f"the level of a quantile is between 0 and 1, got {level}")
        levels = (np.arange(self.quantiles.shape[1]) + 0.5) / self.quantiles.shape[1]
        return np.array([np.interp(level, levels, row) for row in self.quantiles])


def evenly(steps_left: int, gammas: Floats) -> Floats:
    """From a discounted sum without end to a plain one of some steps, if costs come evenly, (C,).

    Args:
        steps_left: Of the episode.
        gammas: Discount of each cost per step, (C,).
    """
    factors: Floats = np.where(gammas < 1.0, steps_left * (1.0 - gammas), 1.0)
    return factors


class Controller:
    """One episode at a time: `reset`, then `act` and `record` the cost of every step.

    Observations and actions are in the environment's own units, one at a time, unbatched.

    Args:
        policy: What acts.
        budgets: One per cost, in cost units.
        hold: Steps each action is kept for; 1 decides at every step.
        extrapolate: Whether `spend` may leave the range of budgets trained for.
    """

    def __init__(
        self,
        policy: Policy,
        budgets: Sequence[float],
        hold: int = 1,
        extrapolate: bool = False,
    ) -> None:
        check_hold(hold)
        self._policy, self._hold, self._extrapolate = policy, hold, extrapolate
        self._critics: CostCritics | None = None
        self._budgets = np.asarray(budgets, np.float64)
        info = policy.info
        self._low, self._high = np.array(info.action_low), np.array(info.action_high)
        self.reset()

    def reset(self, budget: float | Sequence[float] | None = None) -> None:
        """Begin an episode with nothing spent, if wanted with another budget."""
        if budget is not None:
            self._budgets = np.asarray(self._policy.budgets(budget), np.float64)
        self._spent = np.zeros_like(self._budgets)
        self._stock = stocks.initial(self._budgets.tolist())
        self._calls = 0  # of `act` in this episode
        self._recorded = 0
        self._seen: Floats | None = None  # the newest observation
        self._action: Floats = np.zeros(len(self._low), np.float32)  # as the network says it

    def act(self, obs: Floats) -> Floats | int:
        """The action for one observation, (obs,) -> (action,) or a choice; call it once a step.

        Where actions are held, it is the last one until its steps are over. Observations that are
        not finite are refused either way: what to do without sight is for the caller to decide.
        """
        action = self.decide(obs)
        if self._policy.info.chooses:
            return int(chosen(action, self._low))
        return to_bounds(action, self._low, self._high)

    def decide(self, obs: Floats) -> Floats:
        """The same in [-1, 1], as networks act and as a `VectorTask` is told.

        Where actions are held, it is the last one until its steps are over. Observations that are
        not finite are refused either way: what to do without sight is for the caller to decide.
        """
        flat = np.asarray(obs, np.float32).reshape(-1)
        expected = self._policy.info.observation_size
        if flat.size != expected:
            raise UsageError(
                f"the policy was trained on observations of {expected} numbers, got {flat.size}"
            )
        if not np.isfinite(flat).all():
            first = int(np.flatnonzero(~np.isfinite(flat))[0])
            raise UsageError(
                f"the observation is not finite: entry {first} is {flat[first]}; an action for it "
                "would mean nothing. Repair the sensor's reading, or stop safely without the policy"
            )
        if self._calls % self._hold == 0:
            self._action = self._policy.act(flat[None], self._stock[None])[0]
        self._calls += 1
        self._seen = flat
        return self._action.copy()

    def record(self, cost: float | Sequence[float] | Mapping[str, float]) -> None:
        """Tell what the last step cost: a number, one per cost, or by name."""
        names = self._policy.info.cost_names
        if isinstance(cost, Mapping):
            missing = [name for name in names if name not in cost]
            if missing:
                raise UsageError(f"no cost given for {', '.join(missing)}; got {', '.join(cost)}")
            cost = [cost[name] for name in names]
        paid = np.atleast_1d(np.asarray(cost, np.float64))
        if paid.shape != self._spent.shape or not np.isfinite(paid).all():
            raise UsageError(
                f"record needs a finite cost for each of {', '.join(names)}, got {cost}"
            )
        self._spent += paid
        self._recorded += 1
        discount = self._policy.info.stock_discount
        self._stock = stocks.advance(self._stock, paid.astype(np.float32), discount)

    def spend(self, extra: float | Sequence[float]) -> None:
        """Allow this much more in the episode under way; where negative, less.

        The stock moves at once, so the policy acts from the next step on as under that budget.

        Args:
            extra: In cost units, one number for every cost or one for each.
        """
        names = self._policy.info.cost_names
        given = np.atleast_1d(np.asarray(extra, np.float64))
        if given.shape not in ((1,), self._budgets.shape) or not np.isfinite(given).all():
            raise UsageError(
                f"spend needs a finite number, or one for each of {', '.join(names)}; got {extra}"
            )
        budgets = self._budgets + given
        left, most = budgets - self._spent, np.array(self._policy.info.budget_high)
        if (budgets < 0.0).any():
            raise UsageError(
                f"taking {_said(-given)} away leaves a budget of {_said(budgets)}; take at most "
                f"{_said(self._budgets)}"
            )
        if (left > most + 1e-9).any() and not self._extrapolate:
            raise UsageError(
                f"{_said(left)} would be left to spend, more than the largest budget trained for "
                f"({_said(most)}); give at most {_said(most - self.remaining)}, or make the "
                "controller with extrapolate"
            )
        self._budgets = budgets
        # A discounted stock is inflated with every step, and what is added to it must be too.
        scale = self._policy.info.stock_discount**self._recorded
        self._stock = self._stock - (given / scale).astype(np.float32)

    def remaining_cost(self, steps_left: int | None = None) -> RemainingCost:
        """What the critics expect the rest of the episode to cost, from the newest `act` on.

        Call it after `act` and before that step's `record`. Needs the critics of the policy: runs
        of ucp and its variants have them.

        Args:
            steps_left: Steps until the time limit, this one included, where there is one. Critics
                look beyond it and discount; with it, predictions are scaled as if costs came
                evenly. See `RemainingCost`.
        """
        if self._seen is None:
            raise UsageError("nothing was observed yet: call act before remaining_cost")
        if self._critics is None:
            from ucpo.policies.critics import judging

            self._critics = judging(self._policy)
        seen = (self._seen[None], self._stock[None], np.asarray(self._action)[None])
        quantiles = self._critics.quantiles(*seen)[0].astype(np.float64)
        gammas = self._policy.info.gammas
        if steps_left is not None and gammas is not None:
            quantiles = quantiles * evenly(steps_left, np.array(gammas[1:]))[:, None]
        return RemainingCost(np.maximum(quantiles, 0.0), self.remaining)

    @property
    def spent(self) -> Floats:
        """What was recorded in this episode, (C,)."""
        return self._spent.copy()

    @property
    def budgets(self) -> Floats:
        """What this episode may cost in all, (C,)."""
        return self._budgets.copy()

    @property
    def remaining(self) -> Floats:
        """What is left of each budget, in cost units, (C,); negative when exceeded."""
        return self._budgets - self._spent


def _said(values: Floats) -> str:
    return ", ".join(f"{value:g}" for value in values)
