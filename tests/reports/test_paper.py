import math

import pytest

from ucpo.errors import UsageError
from ucpo.reports import paper


def test_every_row_of_the_papers_tables_is_there_and_can_be_looked_up():
    tables = (paper.comparison(), paper.budgets(), paper.tails())
    assert [len(table) for table in tables] == [176, 528, 110]
    for row in paper.comparison().iter_rows(named=True):
        assert paper.lookup(row["method"], row["task"]).return_mean == row["return_mean"]
    for row in paper.budgets().iter_rows(named=True):
        found = paper.lookup(row["method"], row["task"], row["budget"])
        assert (found.cost_mean, found.cost_ci95) == (row["cost_mean"], row["cost_ci95"])
    for row in paper.tails().iter_rows(named=True):
        found = paper.lookup_tail(row["method"], row["task"])
        assert found.frequency_of_excess == row["frequency_of_excess"]


def test_known_entries():
    assert paper.lookup("UCP", "SafetyAntVelocity-v1", 0).return_mean == 3289.6
    assert paper.lookup("ucp", "SafetyPointGoal1-v0", 25).cost_mean == 12.0
    assert paper.lookup("PPOLag", "SafetyAntVelocity-v1").cost_mean == 27.9
    tail = paper.lookup_tail("UCP", "SafetyPointGoal1-v0")
    assert (tail.cost_given_excess, tail.frequency_of_excess) == (31.7, 0.077)


def test_baselines_are_found_at_their_only_budget():
    assert paper.lookup("PPOLag", "SafetyPointGoal1-v0", 25).return_mean == 16.0
    with pytest.raises(UsageError):
        paper.lookup("PPOLag", "SafetyPointGoal1-v0", 5)
    assert set(paper.BASELINES.values()) == set(paper.comparison()["method"]) - {"UCP"}
    assert [paper.name_of(name) for name in ("ppo-et", "ucp", "focops")] == [
        "PPO-ET",
        "UCP",
        "focops",
    ]
    assert sorted(["oncrpo", "td3-lag", "ppo-lag", "ucp-ds"], key=paper.rank) == [
        "ucp-ds",
        "ppo-lag",
        "td3-lag",
        "oncrpo",
    ]


def test_a_budget_that_was_never_exceeded_has_no_mean_beyond_it():
    never = paper.tails().filter(paper.tails()["cost_given_excess"].is_null())
    assert len(never) > 0
    for row in never.iter_rows(named=True):
        assert math.isnan(paper.lookup_tail(row["method"], row["task"]).cost_given_excess)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("UPC", "SafetyPointGoal1-v0"), "no method 'UPC'"),
        (("UCP", "SafetyPointGaol1-v0"), "did you mean 'SafetyPointGoal1-v0'"),
        (("UCP", "SafetyPointGoal1-v0", 10), "not 10"),
    ],
)
def test_what_the_paper_does_not_report_is_refused(arguments, message):
    with pytest.raises(UsageError, match=message):
        paper.lookup(*arguments)
