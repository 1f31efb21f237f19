"""That the agent learns: minutes each, so only in ``make test-all``."""

import numpy as np
import pytest

from ucpo import UCP
from ucpo.envs.illustration import courier_optimum
from ucpo.stats import summarise

pytestmark = pytest.mark.slow


def summary(agent, budgets, episodes=1000):
    return summarise(agent.evaluate(budgets, episodes)).to_dicts()


@pytest.fixture(scope="module")
def ucp():
    return UCP("Courier-v0", seed=0).learn(show=False)


def test_one_agent_is_close_to_the_optimum_at_every_budget_seen_and_unseen(ucp):
    budgets = [0.0, 4.0, 10.0, 16.0, 3.0, 7.5, 15.0]  # the last three are between the levels
    best = courier_optimum([20])
    rows = summary(ucp, budgets)
    for row in rows:
        budget = row["budget_near_misses"]
        assert row["return"] >= 0.9 * best[int(budget)]
        assert row["cost_near_misses"] <= budget + 1.0
    returns = [row["return"] for row in sorted(rows, key=lambda row: row["budget_near_misses"])]
    assert returns == sorted(returns)


def test_the_excess_utility_keeps_budgets_the_mean_utility_overruns(ucp):
    mean = UCP("Courier-v0", seed=0, method="ucp-mean").learn(show=False)
    for risky, averse in zip(summary(mean, [5.0, 10.0]), summary(ucp, [5.0, 10.0]), strict=True):
        assert averse["excess_near_misses"] < 0.6 * risky["excess_near_misses"]
        assert abs(risky["cost_near_misses"] - risky["budget_near_misses"]) < 1.0


def test_tightening_one_of_two_budgets_lowers_its_own_cost():
    agent = UCP("Courier2-v0", seed=0, budget_range="0:10", budget_levels=6).learn(show=False)
    loose, first, second = summary(agent, [[8.0, 8.0], [2.0, 8.0], [8.0, 2.0]])
    assert first["cost_near_misses"] <= 3.0 < loose["cost_near_misses"] - 1.0
    assert second["cost_fines"] <= 3.0 < loose["cost_fines"] - 1.0
    # The budget left alone goes on being spent.
    assert first["cost_fines"] > 0.6 * loose["cost_fines"]
    assert second["cost_near_misses"] > 0.6 * loose["cost_near_misses"]


def test_the_two_action_problem_is_solved_exactly():
    agent = UCP("TwoActions-v0", seed=0, budget_range="0:5", budget_levels=6)
    agent.learn(40_000, show=False)
    for row in summary(agent, [1.0, 2.0, 4.0], 20):
        assert row["return"] == row["cost_cost"] == np.floor(row["budget_cost"])
