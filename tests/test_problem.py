import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ucpo.errors import UsageError
from ucpo.problem import (
    EXCESS,
    MEAN,
    BudgetGrid,
    Constraint,
    Problem,
    parse_budgets,
    register_utility,
    utility,
)


def test_excess_counts_only_what_is_above_the_budget():
    assert EXCESS(np.array([-3.0, 0.0, 2.5])).tolist() == [0.0, 0.0, 2.5]


def test_mean_counts_both_ways():
    assert MEAN(np.array([-3.0, 2.5])).tolist() == [-3.0, 2.5]


@given(st.lists(st.floats(-100, 100, width=32), min_size=1))
def test_utilities_agree_between_numpy_and_pytorch(values):
    for one in (MEAN, EXCESS):
        assert one(np.array(values, np.float32)).tolist() == one(torch.tensor(values)).tolist()


def test_utilities_can_be_registered_and_found_by_name():
    squared = register_utility("squared_excess", lambda z: z.clip(min=0.0) ** 2)
    assert utility("squared_excess") is squared
    assert squared(torch.tensor([-1.0, 3.0])).tolist() == [0.0, 9.0]


def test_a_utility_that_mixes_entries_is_refused():
    with pytest.raises(UsageError, match="same shape"):
        register_utility("total", lambda z: z.sum())


def test_built_in_utilities_cannot_be_replaced():
    with pytest.raises(UsageError, match="built-in"):
        register_utility("excess", lambda z: z)


def test_a_misspelt_utility_is_answered_with_the_nearest():
    with pytest.raises(UsageError, match="did you mean 'excess'"):
        utility("exces")


def test_violation_is_the_utility_less_the_tolerance():
    limit = Constraint("cost", EXCESS, tolerance=0.5)
    assert limit.violation(np.array([-2.0, 2.0])).tolist() == [-0.5, 1.5]


def test_a_problem_needs_distinct_costs_and_a_linear_objective():
    with pytest.raises(UsageError, match="at least one"):
        Problem(())
    with pytest.raises(UsageError, match="once"):
        Problem((Constraint("a"), Constraint("a")))
    with pytest.raises(UsageError, match="mean return"):
        Problem((Constraint("a"),), objective=EXCESS)


@given(
    low=st.integers(0, 50),
    width=st.floats(0.5, 1e4, allow_nan=False),
    levels=st.integers(2, 1000),
)
def test_every_level_falls_into_its_own_bin_in_float32(low, width, levels):
    high = low + width
    if width / (levels - 1) < 1e-4 * high:
        return  # refused, see below
    grid = BudgetGrid((float(low),), (high,), (levels,))
    stocks = grid.stocks(0).astype(np.float32)
    expected = list(range(levels))
    assert grid.bin(stocks, 0).tolist() == expected
    assert grid.bin(torch.from_numpy(stocks), 0).long().tolist() == expected


def test_levels_too_close_for_float32_are_refused():
    with pytest.raises(UsageError, match="float32"):
        BudgetGrid((10_000.0,), (10_001.0,), (1000,))


def test_a_stock_between_levels_belongs_to_the_level_below():
    grid = BudgetGrid((0.0,), (30.0,), (31,))
    # stock -7.5 lies between -8 (bin 22) and -7 (bin 23)
    assert grid.bin(np.array([-30.0, -7.5, -7.0, 0.0, 5.0]), 0).tolist() == [0, 22, 23, 30, 30]


def test_one_budget_is_a_grid_with_one_level():
    grid = BudgetGrid.fixed([25.0])
    assert grid.bin(np.array([-25.0, -3.0]), 0).tolist() == [0, 0]
    assert grid.draw(np.random.default_rng(0)).tolist() == [-25.0]


def test_drawn_stocks_are_levels_of_each_cost_and_all_occur():
    grid = BudgetGrid((0.0, 10.0), (3.0, 12.0), (4, 3))
    generator = np.random.default_rng(0)
    one_by_one = np.array([grid.draw(generator) for _ in range(300)])
    for drawn in (one_by_one, grid.draws(300, generator)):
        assert (drawn.shape, drawn.dtype) == ((300, 2), np.float32)
        assert set(drawn[:, 0]) == {-3.0, -2.0, -1.0, 0.0}
        assert set(drawn[:, 1]) == {-12.0, -11.0, -10.0}


@pytest.mark.parametrize(
    ("low", "high", "levels"), [(5, 1, 3), (-1, 3, 4), (0, 3, 1), (2, 2, 2), (0, np.inf, 3)]
)
def test_impossible_grids_are_refused(low, high, levels):
    with pytest.raises(UsageError):
        BudgetGrid((float(low),), (float(high),), (levels,))


def test_budgets_between_levels_are_covered_and_those_outside_are_not():
    grid = BudgetGrid((0.0,), (30.0,), (31,))
    assert grid.covers([7.3])
    assert not grid.covers([30.1])
    assert not grid.covers([1.0, 2.0])


def test_budgets_are_read_by_name_or_for_all():
    costs = ("hazards", "vases")
    assert parse_budgets(["0:30"], costs) == [(0.0, 30.0), (0.0, 30.0)]
    assert parse_budgets(["25", "vases=0:5"], costs) == [(25.0, 25.0), (0.0, 5.0)]


@pytest.mark.parametrize("texts", [["5", "6"], ["vases=1", "vases=2"]])
def test_two_budgets_for_one_cost_are_refused(texts):
    with pytest.raises(UsageError, match="give each once"):
        parse_budgets(texts, ("hazards", "vases"))


@pytest.mark.parametrize("text", ["", "a:b", "1:2:3", "hazard=0:3", "=3"])
def test_unreadable_budgets_are_named(text):
    with pytest.raises(UsageError):
        parse_budgets([text], ("hazards",))


def test_a_cost_without_budget_is_named():
    with pytest.raises(UsageError, match="vases"):
        parse_budgets(["hazards=0:30"], ("hazards", "vases"))
