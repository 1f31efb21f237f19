import math

import numpy as np
import polars as pl
import pytest

from ucpo.stats import summarise, tail


def test_tails_count_what_is_strictly_above_the_budget():
    one = tail(np.array([3.0, 5.0, 6.0, 10.0]), 5.0)
    assert (one.frequency, one.cost_given_excess, one.excess) == (0.5, 8.0, 1.5)


def test_a_tail_without_episodes_has_no_mean():
    one = tail(np.array([1.0, 5.0]), 5.0)
    assert (one.frequency, one.excess) == (0.0, 0.0)
    assert math.isnan(one.cost_given_excess)


def test_expected_excess_is_frequency_times_mean_overshoot():
    costs = np.random.default_rng(0).poisson(5.0, 1000).astype(float)
    one = tail(costs, 5.0)
    assert one.excess == pytest.approx(one.frequency * (one.cost_given_excess - 5.0))


def test_a_summary_has_one_row_per_method_and_budget():
    rows = pl.DataFrame(
        {
            "method": ["ucp"] * 4 + ["ucp-mean"],
            "budget_a": [5.0, 5.0, 9.0, 9.0, 5.0],
            "return": [1.0, 2.0, 3.0, 5.0, 7.0],
            "cost_a": [4.0, 8.0, 9.0, 9.0, 6.0],
        }
    )
    summary = summarise(rows)
    assert summary["budget_a"].to_list() == [5.0, 9.0, 5.0]
    assert summary["return"].to_list() == [1.5, 4.0, 7.0]
    assert summary["episodes"].to_list() == [2, 2, 1]
    assert summary["excess_a"].to_list() == [1.5, 0.0, 1.0]
    assert summary["exceeded_a"].to_list() == [0.5, 0.0, 1.0]
