import numpy as np
import polars as pl
import pytest
from scipy import stats as scipy_stats

from ucpo.stats import calibration_error, calibration_summary, coverage, pit_histogram


def test_coverage_by_hand():
    low, high = np.array([0.0, 0.5]), np.array([0.2, 0.6])
    levels = np.array([0.0, 0.1, 0.2, 0.55, 1.0])
    assert coverage(low, high, levels) == pytest.approx([0.0, 0.25, 0.5, 0.75, 1.0])


def test_a_histogram_shares_intervals_among_slices():
    low, high = np.array([0.0, 0.25]), np.array([0.5, 0.5])
    assert pit_histogram(low, high, 4) == pytest.approx([0.25, 0.75, 0.0, 0.0])


def test_a_perfect_prediction_is_calibrated_and_a_shifted_one_is_not():
    generator = np.random.default_rng(0)
    outcomes = generator.gamma(2.0, size=20_000)
    exact = scipy_stats.gamma(2.0).cdf(outcomes)
    assert calibration_error(exact, exact) < 0.01
    assert pit_histogram(exact, exact) == pytest.approx(np.full(20, 0.05), abs=0.01)
    assert scipy_stats.kstest(exact, "uniform").pvalue > 0.01  # an independent judge
    shifted = scipy_stats.gamma(2.0).cdf(outcomes / 2.0)  # predicts twice as much
    assert calibration_error(shifted, shifted) > 0.15
    assert coverage(shifted, shifted, np.array([0.5]))[0] > 0.7


def test_coverage_agrees_with_counting_points():
    values = np.random.default_rng(1).uniform(size=500)
    levels = np.array([0.1, 0.37, 0.9])
    counted = [(values < level).mean() for level in levels]
    assert coverage(values, values, levels) == pytest.approx(counted)


def test_coverage_agrees_with_drawing_inside_the_intervals():
    generator = np.random.default_rng(2)
    low = generator.uniform(0.0, 0.8, 300)
    high = low + generator.uniform(0.01, 0.2, 300)
    drawn = generator.uniform(low, high, (2000, 300))
    levels = np.array([0.2, 0.5, 0.8])
    counted = [(drawn <= level).mean() for level in levels]
    assert coverage(low, high, levels) == pytest.approx(counted, abs=2e-3)


def test_the_worst_error_is_one_half():
    assert calibration_error(np.zeros(3), np.zeros(3)) == pytest.approx(0.5)


def test_a_summary_has_one_row_per_task_method_and_cost():
    rows = pl.DataFrame(
        {
            "task": ["T"] * 4,
            "method": ["a", "a", "b", "b"],
            "training_seed": [0, 1, 0, 0],
            "cost": ["cost"] * 4,
            "observed": [1.0, 0.5, 1.0, 1.0],
            "predicted": [2.0, 4.0, 1.0, 1.0],
            "happened": [1.0, 1.0, 1.0, 3.0],
            "pit_low": [0.0, 0.0, 0.9, 0.9],
            "pit_high": [0.1, 0.1, 1.0, 1.0],
        }
    )
    first, second = calibration_summary(rows).to_dicts()
    assert (first["seeds"], first["predictions"], second["seeds"]) == (2, 2, 1)
    assert (first["observed"], first["predicted"], second["happened"]) == (0.75, 3.0, 2.0)
    assert first["covered_05"] == pytest.approx(0.5)
    assert first["covered_25"] == 1.0
    assert second["covered_75"] == 0.0
