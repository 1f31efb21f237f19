import math

import numpy as np
import polars as pl
import pytest
from scipy import stats as scipy_stats

from ucpo.stats import Interval, over_seeds, overlap, per_seed, select_budgets, student_t


def test_student_t_by_hand():
    # Mean 2, deviation 1, three values: 4.302653 / sqrt(3)
    found = student_t([1.0, 2.0, 3.0])
    assert found.mean == 2.0
    assert found.half == pytest.approx(4.302653 / math.sqrt(3.0), rel=1e-6)
    assert (found.low, found.high) == (found.mean - found.half, found.mean + found.half)


@pytest.mark.parametrize("count", [2, 5, 17])
def test_student_t_as_scipy_says(count):
    values = np.random.default_rng(count).normal(3.0, 2.0, count)
    low, high = scipy_stats.t.interval(
        0.95, count - 1, loc=values.mean(), scale=scipy_stats.sem(values)
    )
    assert student_t(values) == pytest.approx(((low + high) / 2, (high - low) / 2))


def test_one_value_says_nothing_of_spread():
    assert student_t([4.0]).mean == 4.0
    assert math.isnan(student_t([4.0]).half)
    assert math.isnan(student_t([]).mean)


def test_overlap_counts_touching_and_refuses_to_guess():
    assert overlap(Interval(0.0, 1.0), Interval(2.0, 1.0)) is True
    assert overlap(Interval(0.0, 0.9), Interval(2.0, 1.0)) is False
    assert overlap(Interval(0.0, 9.0), Interval(2.0, 1.0)) is True
    assert overlap(Interval(0.0, math.nan), Interval(2.0, 1.0)) is None


def rows(seed, returns, costs, budget=5.0, method="ucp", **more):
    count = len(returns)
    return pl.DataFrame(
        {
            "task": ["T"] * count,
            "method": [method] * count,
            "training_seed": [seed] * count,
            "budget_cost": [budget] * count,
            "return": returns,
            "cost_cost": costs,
            **more,
        }
    )


def test_seeds_count_alike_however_many_episodes_they_have():
    episodes = pl.concat([rows(0, [1.0] * 9, [0.0] * 9), rows(1, [3.0], [8.0])])
    (row,) = over_seeds(per_seed(episodes)).to_dicts()
    assert (row["return"], row["cost"]) == (2.0, 4.0)
    assert (row["seeds"], row["episodes"]) == (2, 10)
    assert row["return_half"] == pytest.approx(12.7062, rel=1e-5)  # t with 1 degree of freedom
    assert row["exceeded"] == 0.5
    assert row["cost_if_exceeded"] == 8.0
    assert row["excess"] == 1.5
    assert row["env_steps"] is None


def test_a_budget_no_seed_exceeds_has_no_mean_beyond_it():
    (row,) = over_seeds(per_seed(rows(0, [1.0], [5.0]))).to_dicts()
    assert row["cost_if_exceeded"] is None
    assert (row["exceeded"], row["excess"], row["return_half"]) == (0.0, 0.0, None)


def test_summaries_agree_with_a_plain_loop():
    generator = np.random.default_rng(0)
    frames = [
        rows(
            seed,
            generator.normal(size=50),
            generator.poisson(budget, 50).astype(float),
            budget,
            method,
            env_steps=[1000 + seed] * 50,
            updates=[seed] * 50,
        )
        for method in ("ucp", "ucp-mean")
        for seed in range(4)
        for budget in (0.0, 2.5, 10.0)
    ]
    episodes = pl.concat(frames).sample(fraction=1.0, shuffle=True, seed=1)
    summary = over_seeds(per_seed(episodes))
    assert len(summary) == 6
    assert summary["setting"].to_list() == ["0", "2.5", "10"] * 2
    for row in summary.iter_rows(named=True):
        mine = [f for f in frames if f["method"][0] == row["method"]]
        mine = [f for f in mine if f["budget_cost"][0] == row["budget"]]
        costs = [f["cost_cost"].to_numpy() for f in mine]
        over = np.concatenate(costs)[np.concatenate(costs) > row["budget"]]
        expected = student_t([c.mean() for c in costs])
        assert (row["cost"], row["cost_half"]) == pytest.approx(expected)
        assert row["excess"] == pytest.approx(
            np.mean([np.maximum(c - row["budget"], 0.0).mean() for c in costs])
        )
        expected_beyond = pytest.approx(over.mean()) if len(over) else None
        assert row["cost_if_exceeded"] == expected_beyond
        assert (row["env_steps"], row["updates"]) == (1000, 0)


def summary(*settings):
    """Rows (budget, return, cost, half of the cost's interval) of one method."""
    return pl.DataFrame(
        [
            {
                "task": "T",
                "method": "ucp",
                "setting": f"{budget:g}",
                "cost_name": "cost",
                "budget": budget,
                "return": value,
                "cost": cost,
                "cost_half": half,
            }
            for budget, value, cost, half in settings
        ]
    )


def test_the_paper_selects_the_best_return_that_is_surely_below_25():
    rows = summary((0.0, 1.0, 1.0, 0.5), (5.0, 7.0, 5.0, 1.0), (15.0, 6.0, 14.0, 2.0))
    assert select_budgets(rows)["budget"].to_list() == [5.0]
    # Better, but the upper end of its cost is 25.5; then 24.9
    assert select_budgets(pl.concat([rows, summary((25.0, 9.0, 24.0, 1.5))]))["budget"][0] == 5.0
    assert select_budgets(pl.concat([rows, summary((25.0, 9.0, 24.0, 0.9))]))["budget"][0] == 25.0
    # Budgets the paper does not choose from
    assert select_budgets(pl.concat([rows, summary((10.0, 9.0, 1.0, 0.1))]))["budget"][0] == 5.0


def test_without_an_interval_nothing_is_sure():
    rows = summary((5.0, 7.0, 5.0, None))
    assert select_budgets(rows).is_empty()
    assert select_budgets(rows, single=True)["budget"].to_list() == [5.0]


def test_every_cost_must_be_safe():
    rows = summary((5.0, 7.0, 5.0, 1.0))
    other = rows.with_columns(cost_name=pl.lit("other"), cost=pl.lit(30.0))
    assert select_budgets(pl.concat([rows, other])).is_empty()
    assert len(select_budgets(pl.concat([rows, other]), limit=40.0)) == 2
