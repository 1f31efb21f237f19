import numpy as np
import pytest
import torch

from ucpo.envs.interface import Episodes
from ucpo.errors import UsageError
from ucpo.learners.multipliers import Multipliers
from ucpo.problem import EXCESS, MEAN, BudgetGrid, Constraint, Problem


def episodes(*pairs):
    """Episodes given as (budget, cost), each a number or one per cost."""
    budgets = np.array([np.atleast_1d(b) for b, _ in pairs], np.float32)
    costs = np.array([np.atleast_1d(c) for _, c in pairs], np.float64)
    none = np.zeros(len(pairs), np.int64)
    return Episodes(-budgets, none * 1.0, costs, none, none, none)


def make(utility=EXCESS, tolerance=0.0, costs=1, levels=31, **settings):
    problem = Problem(tuple(Constraint(f"c{i}", utility, tolerance) for i in range(costs)))
    grid = BudgetGrid((0.0,) * costs, (30.0,) * costs, (levels,) * costs)
    return Multipliers(problem, grid, **{"initial": 1.0, "rate": 0.1, **settings})


def price(multipliers, budget):
    stock = -torch.tensor(np.atleast_1d(budget), dtype=torch.float32)[None]
    return multipliers.value(stock)[0].tolist()


def test_an_excess_raises_the_price_of_its_own_initial_budget_only():
    multipliers = make()
    multipliers.observe(episodes((5.0, 9.0), (20.0, 3.0)))
    multipliers.update()
    # mean over the two episodes: gradient (9 - 5) / 2
    assert price(multipliers, 5.0) == pytest.approx([1.0 + 0.1 * 2.0])
    for budget in (0.0, 4.0, 6.0, 20.0, 30.0):
        assert price(multipliers, budget) == [1.0]


def test_a_kept_budget_lowers_the_price_by_the_tolerance_alone():
    multipliers = make(tolerance=0.01)
    multipliers.observe(episodes((20.0, 3.0)))
    multipliers.update()
    assert price(multipliers, 20.0) == pytest.approx([1.0 - 0.1 * 0.01])


def test_under_the_mean_unspent_budget_lowers_the_price():
    multipliers = make(utility=MEAN)
    multipliers.observe(episodes((20.0, 15.0)))
    multipliers.update()
    assert price(multipliers, 20.0) == pytest.approx([1.0 - 0.1 * 5.0])


def test_only_the_latest_episodes_count():
    multipliers = make(window=2)
    multipliers.observe(episodes((5.0, 25.0), (6.0, 6.0), (7.0, 7.0)))
    multipliers.update()
    assert price(multipliers, 5.0) == [1.0]


def test_nothing_moves_before_an_episode_has_ended():
    multipliers = make()
    multipliers.update()
    assert price(multipliers, 5.0) == [1.0]


@pytest.mark.parametrize("ascent", ["gradient", "adam"])
def test_prices_stay_within_their_bounds(ascent):
    multipliers = make(utility=MEAN, ascent=ascent, rate=3.0, minimum=0.5, maximum=2.0)
    multipliers.observe(episodes((5.0, 30.0), (6.0, 0.0)))
    for _ in range(30):
        multipliers.update()
    assert price(multipliers, 5.0) == pytest.approx([2.0], rel=1e-5)
    assert price(multipliers, 6.0) == pytest.approx([0.5], rel=1e-5)


def test_adam_moves_the_softplus_parameter_by_its_rate():
    multipliers = make(ascent="adam", rate=0.01, minimum=1e-3)
    before = multipliers.parameters[0][5].item()
    assert torch.nn.functional.softplus(torch.tensor(before)).item() == pytest.approx(1.0)
    multipliers.observe(episodes((25.0, 26.0)))  # stock -25: bin 5
    multipliers.update()
    assert multipliers.parameters[0][5].item() == pytest.approx(before + 0.01, rel=1e-4)


def test_each_cost_has_its_own_prices():
    multipliers = make(costs=2)
    multipliers.observe(episodes(([5.0, 8.0], [6.0, 3.0])))
    multipliers.update()
    assert price(multipliers, [5.0, 8.0]) == pytest.approx([1.1, 1.0])


def test_one_budget_has_one_price():
    problem = Problem((Constraint("cost", EXCESS, 0.0),))
    multipliers = Multipliers(problem, BudgetGrid.fixed([25.0]), initial=1.0, rate=0.1)
    multipliers.observe(episodes((25.0, 26.0)))
    multipliers.update()
    assert multipliers.tables()[0].tolist() == pytest.approx([1.1])


def test_impossible_bounds_are_refused():
    with pytest.raises(UsageError, match="minimum"):
        make(minimum=2.0)
    with pytest.raises(UsageError, match="above 0"):
        make(ascent="adam", minimum=0.0)
