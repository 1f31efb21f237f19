from itertools import product

import numpy as np
import pytest
from scipy import stats as scipy_stats

from ucpo.stats import bootstrap_interval, interquartile_mean, probability_of_improvement


def test_the_interquartile_mean_by_hand():
    assert interquartile_mean([0.0, 1.0, 3.0, 1000.0]) == 2.0
    assert interquartile_mean([5.0]) == 5.0
    assert np.isnan(interquartile_mean([]))


@pytest.mark.parametrize("count", [4, 7, 40])
def test_the_interquartile_mean_as_scipy_says(count):
    values = np.random.default_rng(count).normal(size=count)
    assert interquartile_mean(values) == pytest.approx(scipy_stats.trim_mean(values, 0.25))


def test_the_bootstrap_of_two_seeds_by_enumeration():
    """One task, two seeds: means 0, 1/2 (twice as likely) and 1."""
    low, high = bootstrap_interval([[0.0, 1.0]], np.random.default_rng(0), lambda s: s.mean(-1))
    assert (low, high) == (0.0, 1.0)
    outcomes = [np.mean(pair) for pair in product([0.0, 1.0], repeat=2)]
    inner = bootstrap_interval(
        [[0.0, 1.0]], np.random.default_rng(0), lambda s: s.mean(-1), 10_000, confidence=0.4
    )
    assert inner == tuple(np.quantile(outcomes, [0.3, 0.7], method="nearest"))


def test_seeds_are_resampled_within_their_task():
    """Tasks with no spread of their own have none together, however far apart they are."""
    assert bootstrap_interval([[0.0, 0.0], [9.0, 9.0]], np.random.default_rng(0)) == (4.5, 4.5)


def test_the_bootstrap_as_scipy_says():
    values = np.random.default_rng(1).normal(size=30)
    ours = bootstrap_interval([values], np.random.default_rng(2), resamples=20_000)
    theirs = scipy_stats.bootstrap(
        (values,),
        lambda sample, axis: scipy_stats.trim_mean(sample, 0.25, axis=axis),
        n_resamples=20_000,
        method="percentile",
        rng=np.random.default_rng(3),
    ).confidence_interval
    assert ours == pytest.approx((theirs.low, theirs.high), abs=0.02)


def test_the_bootstrap_repeats_and_refuses_to_guess():
    one, other = (bootstrap_interval([[1.0, 2.0, 5.0]], np.random.default_rng(0)) for _ in range(2))
    assert one == other
    assert np.isnan(bootstrap_interval([[1.0], [2.0]], np.random.default_rng(0))).all()


def test_probability_of_improvement_by_hand():
    # 3 beats both, 2 ties with one: (1 + 1 + 0.5 + 1) / 4
    assert probability_of_improvement([[3.0, 2.0]], [[2.0, 1.0]]) == 0.875
    assert probability_of_improvement([[1.0], []], [[0.0], [5.0]]) == 1.0
    assert np.isnan(probability_of_improvement([[]], [[1.0]]))


def test_probability_of_improvement_is_the_mann_whitney_statistic():
    generator = np.random.default_rng(0)
    one, other = generator.integers(10, size=8), generator.integers(10, size=6)
    expected = scipy_stats.mannwhitneyu(one, other).statistic / (8 * 6)
    assert probability_of_improvement([one], [other]) == pytest.approx(expected)
    assert probability_of_improvement([other], [one]) == pytest.approx(1.0 - expected)
