"""Three small real runs, evaluated, for the tests of reports."""

import pytest

from ucpo import UCP
from ucpo.evaluation import Request, evaluate_run

NETWORKS = {"hidden": (16, 16), "quantiles": 16}


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """Two methods on a task of the paper, two seeds of one of them, and what they left."""
    folder = tmp_path_factory.mktemp("runs")
    for variant, seed in (("ucp", 0), ("ucp", 1), ("ucp-mean", 0)):
        run = folder / f"{variant}-{seed}"
        agent = UCP(
            "SafetyPointCircle1-v0",
            seed=seed,
            method=variant,
            networks=NETWORKS,
            random_steps=1000,
            log_every=1000,
        )
        agent.learn(3200, run=run, show=False)
        budgets = [0.0, 25.0]
        evaluate_run(Request(policy=run, budgets=budgets, episodes=6, save_paths=1, calibrate=True))
    return folder
