"""Robots under two budgets at once, from training to the report."""

import csv

import numpy as np
import pytest

from tests.runs.test_run import QUICK
from ucpo import UCP, load
from ucpo.stats import summarise


@pytest.mark.parametrize(
    ("task", "costs"),
    [
        ("SafetyHopperVelocity-v1", ("control", "cost")),
        ("SafetyPointGoal2-v0", ("hazards", "vases")),
        ("SafetyCarCircle1-v0", ("out_of_boundary", "speed_excess")),
    ],
)
def test_each_cost_is_trained_and_judged_against_its_own_budget(tmp_path, task, costs):
    one, other = costs
    ranges = (f"{one}=0:20", f"{other}=0:60")
    agent = UCP(task, costs=costs, budget_range=ranges, budget_levels=3, **QUICK)
    agent.learn(run=tmp_path / "run", show=False)
    with (tmp_path / "run" / "metrics.csv").open() as file:
        columns = next(csv.reader(file))
    assert {f"cost/{one}", f"cost/{other}"} <= set(columns)
    episodes = agent.evaluate([[5.0, 40.0]], 2)
    (row,) = summarise(episodes).to_dicts()
    assert (row[f"budget_{one}"], row[f"budget_{other}"]) == (5.0, 40.0)
    for name, budget in zip(costs, (5.0, 40.0), strict=True):
        overrun = (episodes[f"cost_{name}"] - budget).clip(0.0, None).mean()
        assert row[f"excess_{name}"] == pytest.approx(overrun)


def test_each_cost_is_shown_in_units_of_its_own_budgets(tmp_path):
    options = {**QUICK, "budget_range": {"near_misses": (0, 0.03), "fines": (0, 6e6)}}
    agent = UCP("Courier2-v0", **options).learn(run=tmp_path / "run", show=False)
    info = load(tmp_path / "run").info
    assert info.scales == (0.01, 2e6)
    assert UCP("Courier2-v0", **QUICK).policy().info.scales == (20 / 3,)
    obs, stock = np.zeros((1, 3), np.float32), np.array([[-0.03, -6e6]], np.float32)
    changed = stock + np.array([[0.02, 0.0]], np.float32)
    loaded = load(tmp_path / "run")
    assert (loaded.act(obs, stock) == agent.policy().act(obs, stock)).all()
    assert (loaded.act(obs, stock) != loaded.act(obs, changed)).any()
