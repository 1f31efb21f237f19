import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ucpo import stock as stocks
from ucpo.problem import BudgetGrid


def test_an_episode_starts_at_exactly_minus_its_budget():
    assert stocks.initial([25.0, 7.3]).tolist() == [-25.0, float(np.float32(-7.3))]
    assert stocks.initial(4).tolist() == [-4.0]


def test_the_undiscounted_stock_adds_costs():
    stock = stocks.advance(np.array([[-5.0, -1.0]]), np.array([[2.0, 0.0]]))
    assert stock.tolist() == [[-3.0, -1.0]]


@given(
    costs=st.lists(st.floats(0, 5), min_size=1, max_size=20),
    budget=st.floats(0, 30),
    gamma=st.floats(0.5, 1.0),
)
def test_the_discounted_stock_keeps_the_discounted_account(costs, budget, gamma):
    stock = np.array([-budget])
    for cost in costs:
        stock = stocks.advance(stock, np.array([cost]), gamma)
    account = sum(gamma**t * cost for t, cost in enumerate(costs)) - budget
    assert np.isclose(gamma ** len(costs) * stock[0], account, atol=1e-9)


def test_random_starts_repeat_with_the_generator_and_differ_in_seed():
    grid = BudgetGrid((0.0,), (30.0,), (31,))
    first, second = (stocks.random_starts(grid, np.random.default_rng(3)) for _ in range(2))
    begun = [next(first) for _ in range(50)]
    assert begun == [next(second) for _ in range(50)]
    assert len({start.seed for start in begun}) == 50
