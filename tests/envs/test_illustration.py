import numpy as np
import pytest

from ucpo.envs.illustration import (
    Courier,
    TwoActions,
    courier_mean_optimum,
    courier_optimum,
    two_actions_mean_optimum,
    two_actions_optimum,
)
from ucpo.envs.registry import make_task
from ucpo.errors import UsageError
from ucpo.stock import initial, starts


def play(task, act, budgets, episodes, seed=0):
    """Episodes of a policy `act(obs, stock)` that begin with the given budgets."""
    obs, stock = task.reset(starts(lambda: initial(budgets), np.random.default_rng(seed)))
    returns, costs = [], []
    while len(returns) < episodes:
        step = task.step(act(obs, stock))
        obs, stock = step.obs, step.stock
        returns += step.episodes.returns.tolist()
        costs += step.episodes.costs.tolist()
    return np.array(returns), np.array(costs)


def test_staying_while_the_stock_is_at_most_minus_one_gives_the_optimum_with_certainty():
    def act(obs, stock):
        return np.where(stock <= -1.0, 1.0, -1.0)

    for budget in (0.0, 1.0, 3.5):
        returns, costs = play(TwoActions(4), act, budget, 20)
        assert set(returns) == {two_actions_optimum(budget)}
        assert costs.max() <= budget


@pytest.mark.parametrize("gamma", [0.5, 0.9])
def test_the_risk_neutral_optimum_has_a_discounted_return_of_exactly_one(gamma):
    stay = two_actions_mean_optimum(gamma)
    # G = stay (1 + gamma G)
    assert np.isclose(stay / (1.0 - stay * gamma), 1.0)


def test_the_courier_below_the_safe_speed_pays_nothing():
    returns, costs = play(Courier(16), lambda obs, stock: np.zeros((16, 1)), 5.0, 32)
    assert costs.max() == 0.0
    assert set(returns) == {20.0}


def test_a_courier_at_full_speed_has_an_incident_as_often_as_the_risk_says():
    returns, costs = play(Courier(64), lambda obs, stock: np.ones((64, 1)), 5.0, 2000)
    assert set(returns) == {40.0}
    # 40 steps of expected risk 1/2, variance 1/4 each
    assert abs(costs.mean() - 20.0) < 4 * np.sqrt(10.0 / 2000)


def test_episodes_are_functions_of_their_seed():
    one, two = (play(Courier(n), lambda obs, z: np.ones((len(obs), 1)), 0, 8) for n in (1, 8))
    assert one[1].tolist() == two[1].tolist()


def optimal(values):
    """The policy dynamic programming finds, from values by steps left and whole budget left."""

    def act(obs, stock):
        left = np.rint(obs[:, 1] * 40).astype(int)
        budget = np.floor(-stock[:, 0]).astype(int).clip(0)
        worth = values[left - 1, budget] - values[left - 1, np.maximum(budget - 1, 0)]
        return np.where((budget > 0) & (obs[:, 0] * worth < 0.5), 1.0, 0.0)[:, None]

    return act


@pytest.mark.parametrize("budget", [0, 3, 10, 20])
def test_the_value_of_dynamic_programming_is_reached_by_its_policy(budget):
    values = np.array([courier_optimum([20], steps) for steps in range(41)])
    returns, costs = play(Courier(64), optimal(values), float(budget), 3000)
    error = returns.std() / np.sqrt(len(returns))
    assert costs.max() <= budget
    assert abs(returns.mean() - values[40, budget]) <= 4 * error + 1e-6


def test_no_threshold_policy_beats_dynamic_programming():
    best = courier_optimum([10])[10]
    for threshold in np.linspace(0.1, 1.0, 10):

        def act(obs, stock, threshold=threshold):
            return ((obs[:, :1] < threshold) & (stock <= -1.0)).astype(float)

        returns, _ = play(Courier(64), act, 10.0, 1000)
        assert returns.mean() < best


def test_the_mean_optimum_spends_the_budget_on_average_and_earns_more():
    threshold = np.sqrt(2 * 10 / 40)
    returns, costs = play(
        Courier(64), lambda obs, stock: (obs[:, :1] < threshold).astype(float), 10.0, 3000
    )
    assert abs(costs.mean() - 10.0) < 4 * costs.std() / np.sqrt(3000)
    assert abs(returns.mean() - courier_mean_optimum(10.0)) < 4 * returns.std() / np.sqrt(3000)
    assert courier_mean_optimum(10.0) > courier_optimum([10])[10]


def test_two_costs_are_separate_risks_of_separate_streets():
    task = make_task("Courier2-v0", 16)
    obs, _ = task.reset(starts(lambda: initial([1.0, 1.0]), np.random.default_rng(0)))
    assert task.spec.cost_names == ("near_misses", "fines")
    assert (np.count_nonzero(obs[:, :2], axis=1) == 1).all()
    # With nothing to gain from the other cost the value splits.
    value = courier_optimum([6, 6])
    assert np.isclose(value[6, 6] - value[0, 0], 2 * (value[6, 0] - value[0, 0]))


def test_the_two_action_problem_has_one_cost():
    with pytest.raises(UsageError, match="1 cost"):
        TwoActions(1, cost_names=("a", "b"))
