"""Benchmarks compare like with like, or their ratios mean nothing."""

from pathlib import Path

import numpy as np
import pytest

from ucpo.policies.policy import load

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def learner(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    import learner

    return learner


def test_the_update_and_the_straightforward_one_arrive_at_the_same_weights(learner):
    assert learner.check(learner.paper_agent(fill=512)) < 1e-5


def test_the_controller_for_the_original_tasks_acts_as_the_policy_does(monkeypatch):
    """In plain NumPy, because the original lives with other versions of everything."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    import original
    import original_peer

    generator = np.random.default_rng(0)
    for task in ("SafetyPointGoal1-v0", "SafetyHopperVelocity-v1"):
        policy = load(f"zoo:{task}")
        ours, theirs = (
            policy.controller(15.0),
            original_peer.Controller(original.plain(policy), 15.0),
        )
        for cost in (0.0, 1.0, 20.0):
            obs = generator.standard_normal(policy.info.observation_size)
            assert theirs.act(obs) == pytest.approx(ours.act(obs), abs=1e-5)
            for controller in (ours, theirs):
                controller.record(cost)


def test_differences_are_of_pairs(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    from original import Played, line

    rows = [
        Played(where, "Task", "policy", 15.0, seed, total + more, 10.0, 1000)
        for where, more in (("original", 0.0), ("ours", 0.5))
        for seed, total in ((1, 3.0), (2, 5.0))
    ]
    rows.append(Played("ours", "Task", "policy", 15.0, 3, 99.0, 0.0, 1000))  # has no pair yet
    assert line("Task", 15.0, "policy", rows) == (
        "| Task, 15 | 2 | 4.00 / 4.50 | +0.50 [0.50, 0.50] | 10.00 / 10.00 | +0.00 [0.00, 0.00] |"
    )
