"""What the exact solvers refuse, and the traps met on the way there."""

import numpy as np
import pytest

from ucpo.errors import UsageError
from ucpo.exact import Branch, FiniteProblem, augment, solve, solve_lagrangian
from ucpo.exact.problems import crossing, grid, two_actions
from ucpo.problem import EXCESS, MEAN, Constraint, Problem, Utility

SQUARE = Utility("square", lambda stock: stock.clip(min=0.0) ** 2)

ROUTES = pytest.mark.parametrize("route", [solve, solve_lagrangian])


def constrain(utility=EXCESS, tolerance=0.0, cost="cost"):
    return Problem((Constraint(cost, utility, tolerance),))


def loop(reward=1.0, cost=0.0):
    return FiniteProblem(
        {(0, 0): [Branch(1.0, 0, reward, (cost,))], (0, 1): [Branch(1.0, None)]}, [1.0], name="loop"
    )


@ROUTES
def test_a_budget_that_cannot_be_kept_is_refused_with_what_is_missing(route):
    toll = FiniteProblem({(0, 0): [Branch(1.0, None, 0.0, (3.0,))]}, [1.0], horizon=1, name="toll")
    with pytest.raises(UsageError, match=r"toll: no policy meets .*\[-1\.0\].*2"):
        route(toll, constrain(), [-1.0])


@ROUTES
def test_endless_reward_is_refused(route):
    with pytest.raises(UsageError, match=r"returns are unbounded.* horizon"):
        route(loop(), constrain(), [-1.0])


@ROUTES
def test_two_budgets_that_cannot_be_kept_are_refused(route):
    toll = FiniteProblem(
        {
            (0, 0): [Branch(1.0, None, -0.2, (3.0, 2.0))],
            (0, 1): [Branch(1.0, None, 0.8, (3.0, 1.0))],
        },
        [1.0],
        ("time", "money"),
        horizon=1,
    )
    problem = Problem((Constraint("time", MEAN, 0.0), Constraint("money", EXCESS, 0.1)))
    with pytest.raises(UsageError, match="no policy meets"):
        route(toll, problem, [[0.0, 0.0]])


@ROUTES
def test_a_high_price_does_not_make_waiting_endless(route):
    # Sweeps from 0 would sink by 1/1000 at a time towards the -100 of the careful way out.
    finite = FiniteProblem(
        {
            (0, 0): [Branch(1.0, 0, -0.001)],
            (0, 1): [Branch(1.0, None, 0.0, (1.0,))],
            (0, 2): [Branch(1.0, None, -100.0)],
        },
        [1.0],
        name="pocket",
    )
    (best,) = route(finite, constrain(EXCESS, 0.25), [0.0])
    assert best.value == pytest.approx(-75.0, abs=1e-4)
    assert best.prices == pytest.approx([100.0])


def test_reward_that_only_the_budget_limits_is_left_to_the_linear_program():
    (best,) = solve(loop(cost=1.0), constrain(), [-3.0])
    assert best.value == pytest.approx(3.0)
    with pytest.raises(UsageError, match="use the linear program"):
        solve_lagrangian(loop(cost=1.0), constrain(), [-3.0])


def test_a_process_that_cannot_end_is_refused():
    circle = FiniteProblem({(0, 0): [Branch(1.0, 0, -1.0)]}, [1.0], name="circle")
    with pytest.raises(UsageError, match="no policy ends"):
        solve(circle, constrain(), [0.0])


def test_costs_off_the_lattice_are_refused():
    with pytest.raises(UsageError, match=r"multiples of cost_unit=0\.5, got \(0\.3,\)"):
        FiniteProblem({(0, 0): [Branch(1.0, None, 0.0, (0.3,))]}, [1.0], cost_unit=0.5)


def test_costs_in_tenths_use_up_a_budget_exactly():
    finite = FiniteProblem(
        {(0, 0): [Branch(1.0, None)], (0, 1): [Branch(1.0, 0, 1.0, (0.1,))]},
        [1.0],
        horizon=20,
        cost_unit=0.1,
    )
    (best,) = solve(finite, constrain(), [-0.3])
    assert best.value == pytest.approx(3.0, abs=1e-7)
    assert best.policy(0, np.float32(-0.3) + np.float32(0.1), 1)[1] == pytest.approx(1.0)


def test_stocks_that_never_repeat_are_refused():
    finite = FiniteProblem(
        {(0, 0): [Branch(0.5, 0, 1.0), Branch(0.5, 0, 1.0, (1.0,))]}, [1.0], gamma=0.9
    )
    with pytest.raises(UsageError, match="more than 2000 pairs of state and stock"):
        augment(finite, constrain(), [-5.0], 0.9, max_states=2000)


def test_different_discounts_need_a_horizon():
    with pytest.raises(UsageError, match="Give a horizon"):
        solve(two_actions(0.9), constrain(), [-1.0], stock_discount=1.0)


def test_utilities_that_do_not_scale_need_a_horizon_under_a_discount():
    with pytest.raises(UsageError, match="'square'"):
        solve(two_actions(0.5), constrain(SQUARE), [-1.0], stock_discount=0.5)


def test_unknown_costs_and_unreachable_stocks_are_refused():
    with pytest.raises(UsageError, match="did you mean 'cost'"):
        solve(two_actions(0.5), constrain(cost="costs"), [-1.0], 0.5)
    (best,) = solve(crossing(), constrain(), [-2.0])
    begun = int(np.argmax(crossing().start))
    for state, stock in ((begun, -1.5), (begun + 1, -2.0)):
        with pytest.raises(UsageError, match="cannot be reached"):
            best.policy(state, stock)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"branches": {(0, 0): [Branch(0.5, None)]}}, "sum to 1"),
        ({"branches": {(0, 0): [Branch(1.0, 7)]}}, "no state 7"),
        ({"branches": {(0, 0): [Branch(1.0, None, 0.0, (0.0, 1.0))]}}, "one cost for each"),
        ({"branches": {(0, 0): [Branch(1.0, None, np.nan)]}}, "finite"),
        ({"branches": {(3, 0): [Branch(1.0, None)]}}, "no action in state 0"),
        ({"start": [0.5]}, "start"),
        ({"gamma": 0.0}, "gamma"),
        ({"horizon": 0}, "horizon"),
        ({"cost_unit": 0.0}, "cost_unit"),
    ],
)
def test_impossible_problems_are_refused(change, message):
    possible = {"branches": {(0, 0): [Branch(1.0, None)]}, "start": [1.0]}
    with pytest.raises(UsageError, match=message):
        FiniteProblem(**{**possible, **change})


def test_maps_with_unknown_letters_are_refused():
    with pytest.raises(UsageError, match="one S"):
        grid("S?G", {})
