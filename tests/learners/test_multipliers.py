import numpy as np
import pytest
import torch

from ucpo.config.method_options import MultiplierConfig
from ucpo.config.price_assembly import make_multiplier
from ucpo.envs.interface import Episodes
from ucpo.errors import UsageError
from ucpo.learners.multipliers import ClampedAdam, DualAscent, Fixed, Gradient, Pid, SoftplusAdam
from ucpo.problem import EXCESS, MEAN, BudgetGrid, Constraint, Problem


def episodes(*pairs):
    """Episodes given as (budget, cost), each a number or one per cost."""
    budgets = np.array([np.atleast_1d(b) for b, _ in pairs], np.float32)
    costs = np.array([np.atleast_1d(c) for _, c in pairs], np.float64)
    none = np.zeros(len(pairs), np.int64)
    return Episodes(-budgets, none * 1.0, costs, none, none, none)


def make(utility=EXCESS, tolerance=0.0, costs=1, levels=31, ascent=Gradient, rate=0.1, **settings):
    problem = Problem(tuple(Constraint(f"c{i}", utility, tolerance) for i in range(costs)))
    grid = BudgetGrid((0.0,) * costs, (30.0,) * costs, (levels,) * costs)
    return DualAscent(problem, grid, ascent(rate), **{"initial": 1.0, **settings})


def price(multipliers, budget):
    stock = -torch.tensor(np.atleast_1d(budget), dtype=torch.float32)[None]
    return multipliers.value(stock)[0].tolist()


def test_an_excess_raises_the_price_of_its_own_initial_budget_only():
    multipliers = make()
    multipliers.observe(episodes((5.0, 9.0), (20.0, 3.0)))
    multipliers.update(0)
    # mean over the two episodes: gradient (9 - 5) / 2
    assert price(multipliers, 5.0) == pytest.approx([1.0 + 0.1 * 2.0])
    for budget in (0.0, 4.0, 6.0, 20.0, 30.0):
        assert price(multipliers, budget) == [1.0]


def test_a_kept_budget_lowers_the_price_by_the_tolerance_alone():
    multipliers = make(tolerance=0.01)
    multipliers.observe(episodes((20.0, 3.0)))
    multipliers.update(0)
    assert price(multipliers, 20.0) == pytest.approx([1.0 - 0.1 * 0.01])


def test_under_the_mean_unspent_budget_lowers_the_price():
    multipliers = make(utility=MEAN)
    multipliers.observe(episodes((20.0, 15.0)))
    multipliers.update(0)
    assert price(multipliers, 20.0) == pytest.approx([1.0 - 0.1 * 5.0])


def test_only_the_latest_episodes_count():
    multipliers = make(window=2)
    multipliers.observe(episodes((5.0, 25.0), (6.0, 6.0), (7.0, 7.0)))
    multipliers.update(0)
    assert price(multipliers, 5.0) == [1.0]


def test_nothing_moves_before_an_episode_has_ended():
    multipliers = make()
    multipliers.update(0)
    assert price(multipliers, 5.0) == [1.0]


@pytest.mark.parametrize("ascent", [Gradient, ClampedAdam, SoftplusAdam])
def test_prices_stay_within_their_bounds(ascent):
    multipliers = make(utility=MEAN, ascent=ascent, rate=3.0, minimum=0.5, maximum=2.0)
    multipliers.observe(episodes((5.0, 30.0), (6.0, 0.0)))
    for _ in range(30):
        multipliers.update(0)
    assert price(multipliers, 5.0) == pytest.approx([2.0], rel=1e-5)
    assert price(multipliers, 6.0) == pytest.approx([0.5], rel=1e-5)


def test_adam_moves_the_softplus_parameter_by_its_rate():
    multipliers = make(ascent=SoftplusAdam, rate=0.01, minimum=1e-3)
    before = multipliers.parameters[0][5].item()
    assert torch.nn.functional.softplus(torch.tensor(before)).item() == pytest.approx(1.0)
    multipliers.observe(episodes((25.0, 26.0)))  # stock -25: bin 5
    multipliers.update(0)
    assert multipliers.parameters[0][5].item() == pytest.approx(before + 0.01, rel=1e-4)


def test_each_cost_has_its_own_prices():
    multipliers = make(costs=2)
    multipliers.observe(episodes(([5.0, 8.0], [6.0, 3.0])))
    multipliers.update(0)
    assert price(multipliers, [5.0, 8.0]) == pytest.approx([1.1, 1.0])


def test_one_budget_has_one_price():
    problem = Problem((Constraint("cost", EXCESS, 0.0),))
    multipliers = DualAscent(problem, BudgetGrid.fixed([25.0]), Gradient(0.1), initial=1.0)
    multipliers.observe(episodes((25.0, 26.0)))
    multipliers.update(0)
    assert multipliers.tables()[0].tolist() == pytest.approx([1.1])


def test_impossible_bounds_are_refused():
    with pytest.raises(UsageError, match="minimum"):
        make(minimum=2.0)
    with pytest.raises(UsageError, match="above 0"):
        make(ascent=SoftplusAdam, minimum=0.0)


def test_prices_wait_for_their_start():
    multipliers = make(start=100)
    multipliers.observe(episodes((5.0, 9.0)))
    multipliers.update(99)
    assert price(multipliers, 5.0) == [1.0]
    multipliers.update(100)
    assert price(multipliers, 5.0) != [1.0]


def clamped(first=0.001):
    problem = Problem((Constraint("cost", MEAN, 0.0),))
    grid = BudgetGrid.fixed([25.0])
    return DualAscent(problem, grid, ClampedAdam(0.035), initial=first, window=1)


@pytest.mark.parametrize(
    ("over", "prices"),
    [
        ((10.0, 10.0, -5.0), (0.0360, 0.0710, 0.0890)),  # rises after the sign has turned
        ((-10.0, 10.0, 10.0), (0.0, 0.001842, 0.015920)),  # its momentum delays it
    ],
)
def test_clamped_adam_follows_the_worked_sequence(over, prices):
    multiplier, found = clamped(), []
    for excess in over:
        multiplier.observe(episodes((25.0, 25.0 + excess)))
        multiplier.update(0)
        found += multiplier.tables()[0].tolist()
    assert found == pytest.approx(prices, abs=1e-4)


@pytest.mark.parametrize(
    ("gains", "means", "prices"),
    [
        ((0.1, 0.01, 0.01), (35.0, 45.0, 20.0), (0.1685, 0.487625, 0.41329375)),
        ((1e-6, 1e-7, 1e-7), (125.0,) * 3, (0.001015625, 0.00103096875, 0.0010460453)),
    ],
)
def test_pid_follows_the_worked_sequence(gains, means, prices):
    controller, found = Pid(BudgetGrid.fixed([25.0]), gains, initial=0.001, window=1), []
    for mean in means:
        controller.observe(episodes((25.0, mean)))
        controller.update(0)
        found += controller.tables()[0].tolist()
    assert found == pytest.approx(prices, rel=1e-5)


def test_the_rise_that_pid_answers_is_over_its_last_ten_moves():
    """From 0 at first; later also against where it was ten moves ago."""
    controller, found = Pid(BudgetGrid.fixed([25.0]), (0.0, 0.0, 1.0), window=1), []
    for _ in range(12):
        controller.observe(episodes((25.0, 20.0)))
        controller.update(0)
        found += controller.tables()[0].tolist()
    smoothed = [20.0 * (1.0 - 0.95**move) for move in range(13)]
    assert found[:10] == pytest.approx(smoothed[1:11])
    assert found[10:] == pytest.approx([smoothed[11] - smoothed[1], smoothed[12] - smoothed[2]])


def test_what_pid_adds_up_never_falls_below_0_so_it_answers_at_once():
    controller = Pid(BudgetGrid.fixed([25.0]), (0.0, 0.01, 0.0), window=1)
    for cost in (0.0,) * 10 + (35.0,):
        controller.observe(episodes((25.0, cost)))
        controller.update(0)
    assert controller.tables()[0].tolist() == pytest.approx([0.01 * 10.0])


def test_pid_moves_once_per_batch_of_episodes_however_often_it_is_asked():
    asked_often, asked_once = (Pid(BudgetGrid.fixed([25.0]), (0.1, 0.01, 0.5)) for _ in range(2))
    for mean in (30.0, 30.0, 90.0):
        for controller in (asked_often, asked_once):
            controller.observe(episodes((25.0, mean)))
            controller.update(0)
        for _ in range(1000):
            asked_often.update(0)
    assert asked_often.tables()[0].tolist() == asked_once.tables()[0].tolist()
    assert asked_once.tables()[0].item() > 0.0


def test_pid_goes_on_as_if_it_had_never_stopped():
    made, other = (Pid(BudgetGrid.fixed([25.0]), (0.1, 0.01, 0.5), window=3) for _ in range(2))
    for mean in range(20, 40):
        made.observe(episodes((25.0, float(mean))))
        made.update(0)
    other.restore(made.state())
    for controller in (made, other):
        controller.observe(episodes((25.0, 50.0)))
        controller.update(0)
    assert made.tables()[0].tolist() == other.tables()[0].tolist()


def test_pid_over_a_range_of_budgets_is_refused():
    with pytest.raises(UsageError, match="give --budget"):
        Pid(BudgetGrid((0.0,), (30.0,), (31,)), (0.1, 0.01, 0.01))


def test_fixed_prices_stay():
    fixed = Fixed(BudgetGrid((0.0,), (30.0,), (31,)), 2.0)
    fixed.observe(episodes((5.0, 90.0)))
    fixed.update(10**9)
    assert price(fixed, 5.0) == [2.0]
    fixed.restore(fixed.state())


def test_pid_is_refused_for_utilities_it_does_not_follow():
    one = BudgetGrid.fixed([25.0])
    problem = Problem((Constraint("cost", EXCESS, 0.0),))
    with pytest.raises(UsageError, match="--utility mean"):
        make_multiplier(MultiplierConfig(kind="pid"), problem, one)
    make_multiplier(MultiplierConfig(kind="pid"), Problem((Constraint("cost", MEAN, 0.0),)), one)
