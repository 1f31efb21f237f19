"""Solutions against closed forms, against each other, and against counting out every policy."""

import itertools
import re
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ucpo.envs.illustration import (
    courier_mean_optimum,
    courier_optimum,
    two_actions_mean_optimum,
)
from ucpo.errors import UsageError
from ucpo.exact import Branch, FiniteProblem, episodes, solve, solve_lagrangian, visits
from ucpo.exact.problems import STAY, crossing, grid, meadow, two_actions
from ucpo.problem import EXCESS, MEAN, Constraint, Problem, Utility

SQUARE = Utility("square", lambda stock: stock.clip(min=0.0) ** 2)
OVER = Utility("over", lambda stock: (stock > 1e-9) * 1.0)
LEAKY = Utility("leaky", lambda stock: stock.clip(min=0.0) + 0.25 * stock.clip(max=0.0))

ROUTES = pytest.mark.parametrize("route", [solve, solve_lagrangian])


def constrain(utility=EXCESS, tolerance=0.0, cost="cost"):
    return Problem((Constraint(cost, utility, tolerance),))


def random_problem(seed, states, actions, costs, gamma, horizon, branches=3, least=0):
    generator = np.random.default_rng(seed)
    table = {}
    for pair in itertools.product(range(states), range(actions)):
        chances = generator.dirichlet(np.ones(generator.integers(1, branches + 1)))
        table[pair] = [
            Branch(
                probability=float(chance),
                successor=None if generator.random() < 0.3 else int(generator.integers(states)),
                reward=float(generator.normal()),
                costs=tuple(float(cost) for cost in generator.integers(least, 4, costs)),
            )
            for chance in chances
        ]
    start = generator.dirichlet(np.ones(states))
    names = tuple(f"cost{number}" for number in range(costs))
    return FiniteProblem(table, start, names, gamma, horizon)


# The closed forms of appendix B


@ROUTES
@pytest.mark.parametrize("gamma", [0.1, 0.5, 0.9, 0.99, 0.999])
def test_cmdp_optimum_stays_with_probability_one_over_one_plus_gamma(route, gamma):
    (best,) = route(two_actions(gamma), constrain(MEAN), [-1.0], gamma)
    chance = best.policy(0, -1.0)[STAY]
    assert chance == pytest.approx(two_actions_mean_optimum(gamma), abs=1e-6)
    assert best.value == pytest.approx(1.0, abs=1e-6)
    assert best.utilities == pytest.approx([0.0], abs=1e-6)
    assert best.prices == pytest.approx([1.0], abs=1e-6)


@ROUTES
@pytest.mark.parametrize("gamma", [0.1, 0.5, 0.9, 0.99, 0.999])
def test_ucmdp_optimum_stays_if_and_only_if_a_whole_unit_is_left(route, gamma):
    for stock in (-2.5, -2.0, -1.1, -1.001, -1.0, -0.999, -0.5, -0.01, 0.0):
        (best,) = route(two_actions(gamma), constrain(EXCESS), [stock], gamma)
        assert best.policy(0, stock)[STAY] == pytest.approx(float(stock <= -1.0), abs=1e-6)
    (best,) = route(two_actions(gamma), constrain(EXCESS), [-1.0], gamma)
    assert [(way.probability, way.total) for way in episodes(best)] == [(1.0, 1.0)]


@pytest.mark.parametrize("budget", [0.25, 0.5, 2.0, 5.0])
def test_cmdp_optimum_at_other_budgets_stays_with_the_chance_that_spends_them(budget):
    gamma = 0.9
    (best,) = solve(two_actions(gamma), constrain(MEAN), [-budget], gamma)
    assert best.policy(0, -budget)[STAY] == pytest.approx(budget / (1 + gamma * budget), abs=1e-6)


# Both routes against each other and against enumeration


@st.composite
def settings_of_random_problems(draw):
    gamma, horizon, stock_discount = draw(
        st.sampled_from(
            [(1.0, 6, 1.0), (0.9, 6, 1.0), (0.9, 5, 0.9), (0.5, None, 0.5), (0.7, 4, 0.3)]
        )
    )
    costs = draw(st.integers(1, 2))
    utilities = [MEAN, EXCESS, LEAKY] + ([] if horizon is None else [SQUARE, OVER])
    constraints = tuple(
        Constraint(
            f"cost{number}",
            draw(st.sampled_from(utilities)),
            draw(st.sampled_from([0.0, 0.1, 0.5])),
        )
        for number in range(costs)
    )
    finite = random_problem(
        draw(st.integers(0, 2**31)), draw(st.integers(1, 4)), 3, costs, gamma, horizon
    )
    stock = [-float(draw(st.integers(0, 8))) for _ in range(costs)]
    return finite, Problem(constraints), [stock], stock_discount


def assert_routes_agree(given_problem):
    try:
        (program,) = solve(*given_problem)
    except UsageError as error:
        assert "no policy meets" in str(error)
        with pytest.raises(UsageError, match="no policy meets"):
            solve_lagrangian(*given_problem)
        return False
    (dual,) = solve_lagrangian(*given_problem)
    tolerances = [each.tolerance for each in given_problem[1].constraints]
    assert dual.value == pytest.approx(program.value, abs=1e-4)
    assert abs(dual.gap) < 1e-4 and abs(program.gap) < 1e-4
    for answer in (program, dual):
        assert (answer.utilities <= np.array(tolerances) + 1e-6).all()
        assert_policy_is_worth_what_is_said(answer, given_problem[1])
    return True


def assert_policy_is_worth_what_is_said(answer, problem):
    if answer.policy.augmented.finite.horizon is None:
        return
    ways = episodes(answer)
    assert sum(way.probability for way in ways) == pytest.approx(1.0, abs=1e-9)
    assert sum(way.probability * way.total for way in ways) == pytest.approx(answer.value, abs=1e-6)
    for column, constraint in enumerate(problem.constraints):
        final = answer.initial_stock[column] + np.array([way.costs[column] for way in ways])
        expected = constraint.utility(final) @ np.array([way.probability for way in ways])
        assert expected == pytest.approx(answer.utilities[column], abs=1e-6)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(settings_of_random_problems())
def test_linear_program_and_lagrangian_agree(given_problem):
    assert_routes_agree(given_problem)


@pytest.mark.slow
def test_linear_program_and_lagrangian_agree_on_200_feasible_problems():
    feasible = 0

    @settings(max_examples=600, deadline=None, derandomize=True, database=None)
    @given(settings_of_random_problems())
    def agree(given_problem):
        nonlocal feasible
        feasible += assert_routes_agree(given_problem)

    agree()
    assert feasible >= 200


def every_policy(finite, utility, stock, stock_discount, state, total=0.0, time=0):
    """Expected return and utility of each deterministic policy that may use the whole history."""
    if state is None or time == finite.horizon:
        return np.array([[total, float(utility(np.array([stock]))[0])]])
    answers = []
    for action in range(finite.actions):
        branches = finite.branches[state, action]
        after = [
            branch.probability
            * every_policy(
                finite,
                utility,
                stock + stock_discount**time * branch.costs[0],
                stock_discount,
                branch.successor,
                total + finite.gamma**time * branch.reward,
                time + 1,
            )
            for branch in branches
        ]
        answers += [np.sum(combination, 0) for combination in itertools.product(*after)]
    return np.array(answers)


def best_mixture(policies, tolerance):
    """The best value of a mixture of two policies that keeps the utility at the tolerance."""
    value, used = policies.T
    low, high = used <= tolerance, used > tolerance
    if not low.any():
        return None
    best = value[low].max()
    if high.any():
        share = (tolerance - used[low])[:, None] / (used[high][None] - used[low][:, None])
        best = max(best, (value[low][:, None] * (1 - share) + value[high] * share).max())
    return best


@pytest.mark.parametrize("utility", [MEAN, EXCESS, SQUARE, OVER, LEAKY], ids=lambda u: u.name)
@pytest.mark.parametrize(("gamma", "stock_discount"), [(1.0, 1.0), (0.8, 1.0), (0.8, 0.8)])
def test_both_routes_agree_with_counting_out_every_policy(utility, gamma, stock_discount):
    compared = 0
    for seed in range(6):
        least = -(seed % 2)  # costs may be negative
        finite = random_problem(seed, 3, 2, 1, gamma, horizon=3, branches=2, least=least)
        begun = int(np.argmax(finite.start))
        finite = FiniteProblem(
            finite.branches, np.eye(3)[begun], finite.cost_names, gamma, finite.horizon
        )
        for stock, tolerance in [(0.0, 0.5), (-2.0, 0.3), (-3.0, 0.0), (-4.5, 0.2)]:
            policies = every_policy(finite, utility, stock, stock_discount, begun)
            expected = best_mixture(policies, tolerance)
            problem = constrain(utility, tolerance, "cost0")
            if expected is None:
                with pytest.raises(UsageError, match="no policy meets"):
                    solve(finite, problem, [stock], stock_discount)
                continue
            compared += 1
            for route in (solve, solve_lagrangian):
                (best,) = route(finite, problem, [stock], stock_discount)
                assert best.value == pytest.approx(expected, abs=1e-6)
    assert compared >= 8


def test_discounted_stock_without_a_horizon_is_the_limit_of_long_horizons():
    for seed in range(5):
        endless = random_problem(seed, 3, 2, 1, gamma=0.5, horizon=None)
        long = random_problem(seed, 3, 2, 1, gamma=0.5, horizon=16)
        for utility in (MEAN, EXCESS, LEAKY):
            problem = constrain(utility, 0.4, "cost0")
            (best,) = solve(endless, problem, [-4.0], 0.5)
            (near,) = solve_lagrangian(long, problem, [-4.0], 0.5)
            assert best.value == pytest.approx(near.value, abs=1e-3)


def test_the_price_is_what_a_little_more_tolerance_is_worth():
    finite = crossing()
    (at,) = solve(finite, constrain(EXCESS, 0.3), [-2.0])
    (more,) = solve(finite, constrain(EXCESS, 0.301), [-2.0])
    assert at.prices[0] > 0.0
    assert (more.value - at.value) / 0.001 == pytest.approx(at.prices[0], rel=1e-4)


def test_merging_stocks_changes_nothing_but_the_size():
    # A utility that equals the excess wherever stocks can be, but is not recognised as kinked.
    same = Utility("same", lambda stock: np.where(stock > 1e4, 0.0, stock.clip(min=0.0)))
    finite = random_problem(3, 4, 3, 1, gamma=0.9, horizon=7)
    merged = solve(finite, constrain(EXCESS, 0.2, "cost0"), [-5.0])[0]
    listed = solve(finite, constrain(same, 0.2, "cost0"), [-5.0])[0]
    assert merged.value == pytest.approx(listed.value, abs=1e-8)
    assert merged.policy.augmented.states < 0.7 * listed.policy.augmented.states


# Known problems


def courier(levels, steps):
    """`Courier` with risks at the middle of equal intervals; actions: safe speed, full speed."""
    risks = (np.arange(levels) + 0.5) / levels
    branches = {}
    for here, risk in enumerate(risks):
        chances = [(next_, 1.0 / levels) for next_ in range(levels)]
        branches[here, 0] = [Branch(chance, next_, 0.5) for next_, chance in chances]
        branches[here, 1] = [
            Branch(chance * probability, next_, 1.0, (cost,))
            for next_, chance in chances
            for cost, probability in ((1.0, risk), (0.0, 1.0 - risk))
        ]
    return FiniteProblem(branches, np.full(levels, 1 / levels), horizon=steps, name="courier")


def test_courier_agrees_with_its_dynamic_program():
    finite, stocks = courier(levels=20, steps=8), -np.arange(5.0)
    exact = courier_optimum([4], max_episode_steps=8)
    for best, value in zip(solve_lagrangian(finite, constrain(), stocks), exact, strict=True):
        assert best.value == pytest.approx(value, abs=2e-3)  # what 20 levels of risk leave out
    (best,) = solve_lagrangian(finite, constrain(MEAN), [-1.0])
    assert best.value == pytest.approx(courier_mean_optimum(1.0, 8), abs=1e-2)


def test_catastrophe_is_possible_on_average_and_impossible_with_excess():
    average, always = (solve(crossing(), constrain(u), [-2.0])[0] for u in (MEAN, EXCESS))
    worst = {way.costs[0]: way.probability for way in episodes(average) if way.costs[0] >= 50.0}
    assert sum(worst.values()) == pytest.approx(1 - 0.996**11, rel=0.3)
    assert max(way.costs[0] for way in episodes(always)) == 2.0
    assert always.value == pytest.approx(-14.5)  # one ford in four is walked around


def test_slipping_leads_to_either_side():
    to_the_right = grid("..\nSG\n..", {}, slip=0.5).branches[2, 3]  # states: 0 1 / 2 G / 3 4
    assert [(branch.probability, branch.successor) for branch in to_the_right] == [
        (0.5, None),
        (0.25, 3),
        (0.25, 0),
    ]


def test_a_goal_is_found_further_away_than_sweeps_reach():
    length, gamma = 100, 0.999
    branches = {(here, 0): [Branch(1.0, None, 0.1)] for here in range(length)}
    branches |= {(here, 1): [Branch(1.0, here + 1)] for here in range(length - 1)}
    branches[length - 1, 1] = [Branch(1.0, None, 1.0)]
    finite = FiniteProblem(branches, np.eye(length)[0], gamma=gamma)
    (best,) = solve_lagrangian(finite, constrain(), [0.0], gamma)
    assert best.value == pytest.approx(gamma ** (length - 1))


def test_visits_count_the_steps_of_an_episode():
    (best,) = solve(crossing(), constrain(), [-2.0])
    assert visits(best).sum() == pytest.approx(-best.value)
    (endless,) = solve(two_actions(0.5), constrain(), [-3.0], 0.5)
    assert visits(endless) == pytest.approx([1 + 0.5 + 0.25 + 0.25])


def test_grid_of_400_cells_is_solved_at_31_budgets_in_a_minute():
    begun = time.perf_counter()
    answers = solve_lagrangian(meadow(), constrain(), -np.arange(31.0))
    assert time.perf_counter() - begun < 60.0
    values = [best.value for best in answers]
    assert answers[0].policy.augmented.states > 10_000
    assert values == sorted(values) and values[0] == pytest.approx(-39.0)
    assert values[-1] > -34.0 and max(best.gap for best in answers) < 1e-4
    for budget in (0, 4, 9):
        (best,) = solve(meadow(), constrain(), [-float(budget)])
        assert best.value == pytest.approx(values[budget], abs=1e-6)


def test_the_example_of_the_documentation_runs(capsys):
    text = (Path(__file__).parents[2] / "docs" / "exact.md").read_text()
    exec(re.search(r"```python\n(.*?)```", text, re.DOTALL)[1], {})
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("mean -2.0") and said[2].startswith("excess -3.0")
