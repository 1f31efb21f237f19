"""The figures of appendix B and of the crossing, and the table beside them."""

import pytest

from ucpo.errors import UsageError
from ucpo.problem import EXCESS, MEAN
from ucpo.show.illustrations import CROSSING_BUDGETS, crossing_row, illustrate, two_actions_row


def test_figures_and_one_row_per_setting(tmp_path):
    rows = illustrate(tmp_path / "new", gammas=[0.5], budgets=[1.0, 2.0])
    for name in ("two-actions.png", "two-actions.svg", "crossing.png", "crossing.svg"):
        assert (tmp_path / "new" / name).stat().st_size > 5_000
    assert len(rows) == 2 * 2 + 2 * len(CROSSING_BUDGETS)
    assert {row.problem for row in rows} == {"two actions", "crossing"}


def test_on_average_the_return_of_two_actions_overshoots_and_undershoots():
    row = two_actions_row(0.9, 1.0, MEAN)
    stay = 1 / 1.9
    assert row.first_action == pytest.approx(stay, abs=1e-6)
    assert row.value == pytest.approx(1.0, abs=1e-6)
    assert row.over_budget == pytest.approx(stay**2, abs=1e-6)
    assert row.rare_cost == pytest.approx(sum(0.9**k for k in range(10)))  # stay**11 < 1/1000


def test_with_excess_the_return_of_two_actions_is_certain():
    row = two_actions_row(0.9, 1.0, EXCESS)
    assert (row.first_action, row.value, row.over_budget, row.rare_cost) == (1.0, 1.0, 0.0, 1.0)


def test_the_crossing_shows_rare_catastrophe_against_none_at_the_same_budget():
    average, always = crossing_row(2.0, MEAN), crossing_row(2.0, EXCESS)
    assert average.cost == pytest.approx(2.0) and always.cost < 2.0
    assert average.rare_cost == 50.0 and always.rare_cost == 2.0
    assert average.over_budget > 0.05 and always.over_budget == 0.0


def test_a_discount_of_one_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(UsageError, match="gamma"):
        illustrate(tmp_path / "new", gammas=[1.0])
    assert not (tmp_path / "new").exists()
