"""Acting under a budget outside training: a controller that keeps the stock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ucpo import stock as stocks
from ucpo.envs.adapters import chosen, to_bounds
from ucpo.errors import UsageError
from ucpo.policies.policy import Policy, check_hold
from ucpo.problem import Floats


class Controller:
    """One episode at a time: `reset`, then `act` and `record` the cost of every step.

    Observations and actions are in the environment's own units, one at a time, unbatched.

    Args:
        policy: What acts.
        budgets: One per cost, in cost units.
        hold: Steps each action is kept for; 1 decides at every step.
    """

    def __init__(self, policy: Policy, budgets: Sequence[float], hold: int = 1) -> None:
        check_hold(hold)
        self._policy, self._hold = policy, hold
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
        self._action: Floats = np.zeros(len(self._low))  # or the number of a choice

    def act(self, obs: Floats) -> Floats | int:
        """The action for one observation, (obs,) -> (action,) or a choice; call it once a step.

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
            action = self._policy.act(flat[None], self._stock[None])[0]
            chooses = self._policy.info.chooses
            self._action = (
                chosen(action, self._low) if chooses else to_bounds(action, self._low, self._high)
            )
        self._calls += 1
        return int(self._action) if self._policy.info.chooses else self._action.copy()

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
        discount = self._policy.info.stock_discount
        self._stock = stocks.advance(self._stock, paid.astype(np.float32), discount)

    @property
    def remaining(self) -> Floats:
        """What is left of each budget, in cost units, (C,); negative when exceeded."""
        return self._budgets - self._spent
