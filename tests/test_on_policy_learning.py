"""That on-policy methods learn: a minute each, so only in ``make test-all``."""

import pytest

from ucpo.exact import solve
from ucpo.exact.problems import streets
from ucpo.problem import EXCESS, Constraint, Problem
from ucpo.runs.run import Run
from ucpo.stats import summarise

pytestmark = pytest.mark.slow


def trained(task, method, seed=0, **options):
    return Run(task, method=method, seed=seed, **options).learn(show=False)


def summary(run, budgets, episodes=500):
    rows = summarise(run.evaluate(budgets, episodes)).to_dicts()
    return sorted(rows, key=lambda row: row["budget_cost"])


def best_in_streets(budget):
    """Without any excess."""
    constraint = Problem((Constraint("cost", EXCESS, 0.0),))
    return solve(streets(), constraint, [-budget])[0].value


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_on_policy_ucp_is_near_the_optimum_of_streets_at_every_budget(seed):
    for row in summary(trained("Streets-v0", "ucp-ppo", seed), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]):
        assert row["return"] >= 0.95 * best_in_streets(row["budget_cost"])
        assert row["excess_cost"] < 0.05


def test_saute_with_budgets_at_random_is_near_the_optimum_of_streets():
    run = trained("Streets-v0", "ppo-saute-any")
    for row in summary(run, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]):
        assert row["return"] >= 0.95 * best_in_streets(row["budget_cost"])
        assert row["excess_cost"] < 0.1


def test_training_episodes_that_end_once_exceeded_never_cost_more_than_one_unit_too_much():
    run, over = Run("Streets-v0", method="ppo-et-any"), []
    run.learn(show=False, on_episode=lambda e: over.extend((e.costs + e.initial_stock).ravel()))
    assert max(over) == 1.0


@pytest.mark.parametrize("method", ["ucp-ppo", "ppo-saute-any", "ppo-jiang"])
def test_the_two_action_problem_is_solved_exactly(method):
    for row in summary(trained("TwoActions-v0", method), [1.0, 2.0, 4.0], 50):
        assert row["return"] == row["cost_cost"] == row["budget_cost"]


def test_ppo_lagrangian_keeps_the_mean_and_overshoots_in_many_episodes():
    run, costs = (
        Run("TwoActions-v0", method="ppo-lag", budget="1", gamma=0.999, env_steps=300_000),
        [],
    )
    run.learn(show=False, on_episode=lambda e: costs.extend(e.costs.ravel()))
    recent = costs[-5000:]
    assert sum(recent) / len(recent) == pytest.approx(1.0, abs=0.1)
    assert sum(cost > 1.0 for cost in recent) / len(recent) > 0.15
