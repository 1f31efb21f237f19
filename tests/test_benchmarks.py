"""The baseline that the learner is timed against must do the same work, or ratios mean nothing."""

from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def learner(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    import learner

    return learner


def test_the_update_and_the_straightforward_one_arrive_at_the_same_weights(learner):
    assert learner.check(learner.paper_agent(fill=512)) < 1e-5
