"""Runs that go on as if nothing had happened."""

import os
import signal
import threading
import time

import pytest

from ucpo import UCP
from ucpo.checkpoints import checkpoints

SMALL = {
    "random_steps": 200,
    "log_every": 160,
    "num_envs": 4,
    "networks": {"hidden": [16], "quantiles": 8},
    "replay": {"batch": 16, "capacity": 600, "n_step": 3},  # wraps around in every test
    "multiplier": {"start": 0},
}
COURIER = {**SMALL, "env_steps": 1600}


def contents(run):
    """Everything that must not depend on interruptions: metrics, policy, the last checkpoint."""
    last = next(checkpoints(run))
    state = last.state()
    agent = UCP.resume(run, env_steps=10**9)
    rows = agent.agent.replay.rows(
        agent.agent.replay.rows_written - agent.agent.replay.rows_kept,
        agent.agent.replay.rows_written,
    )
    agent._resumed.folder.close()
    return {
        "metrics.csv": (run / "metrics.csv").read_bytes(),
        "policy": (run / "policy.safetensors").read_bytes(),
        **{f"state {key}": value.tobytes() for key, value in state.items()},
        **{f"rows {key}": value.tobytes() for key, value in rows.items()},
    }


def assert_same(run, other):
    one, two = contents(run), contents(other)
    assert one.keys() == two.keys()
    assert [key for key in one if one[key] != two[key]] == []


def stop_after(agent, env_steps):
    """End a training as Ctrl-C would, once it has made so many steps."""

    def interrupt():
        while agent.agent.env_steps < env_steps:
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    return thread


VARIANTS = {
    "plain": {},
    "tuned": {
        "entropy": {"weight": 0.1, "rate": 1e-3},
        "multiplier": {"start": 0, "ascent": "adam", "rate": 1e-2},
        "actor": {"every": 2},
    },
    "stock": {"variant": "ucp-ds", "gamma": 0.99, "networks": {"hidden": [8], "stock_features": 4}},
}


@pytest.mark.parametrize("name", VARIANTS)
def test_a_run_stopped_and_resumed_is_the_run_that_was_not(name, tmp_path):
    options = {**COURIER, **VARIANTS[name]}
    UCP("Courier-v0", **options).learn(run=tmp_path / "whole", show=False)
    agent = UCP("Courier-v0", **options)
    for stop in (100, 700, 1300):  # while acting randomly, and twice while learning
        thread = stop_after(agent, stop)
        agent.learn(run=None if agent._resumed else tmp_path / "parts", show=False)
        thread.join()
        assert agent.interrupted is signal.SIGINT
        assert agent.agent.env_steps < 1600
        agent = UCP.resume(tmp_path / "parts")
    agent.learn(show=False)
    assert_same(tmp_path / "whole", tmp_path / "parts")


def test_checkpoints_change_nothing(tmp_path):
    for name, options in (("none", {}), ("many", {"checkpoint_steps": 40})):
        UCP("Courier-v0", **COURIER, **options).learn(run=tmp_path / name, show=False)
    one, two = contents(tmp_path / "none"), contents(tmp_path / "many")
    del one["state config"], two["state config"]
    assert one == two
