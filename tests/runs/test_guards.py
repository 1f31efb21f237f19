"""Runs that go wrong stop, and leave what shows why."""

import json

import numpy as np
import pytest
import torch

from tests.envs.test_adapters import Thermostat
from tests.runs.test_resume import COURIER
from ucpo import UCP, load
from ucpo.errors import NotFiniteError
from ucpo.runs.guards import reproduce


class Melting(Thermostat):
    """From the second step of an episode on, heat above 9 is no number any more."""

    broken = "reward"

    def step(self, action):
        obs, reward, terminated, truncated, info = super().step(action)
        if self.time > 1 and action[0] > 9.0:
            bad = {"reward": (obs, np.nan), "observation": (obs * np.inf, reward)}
            obs, reward = bad.get(self.broken, (obs, reward))
            info = {"cost": -np.inf if self.broken == "cost" else info["cost"]}
        return obs, reward, terminated, truncated, info


@pytest.mark.parametrize("what", ["reward", "observation", "cost"])
def test_what_is_no_number_stops_the_run_and_can_be_played_again(what, tmp_path):
    melting = type("Melting", (Melting,), {"broken": what})
    run = tmp_path / "run"
    agent = UCP(melting, budget_range="0:9", **{**COURIER, "random_steps": 1000})
    with pytest.raises(NotFiniteError, match=f"environment [0-3] returned a non-finite {what}"):
        agent.learn(run=run, show=False)
    about = json.loads((run / "broken-step.json").read_text())
    assert about["env_steps"] == agent.learner.env_steps > 0
    assert about["step_of_episode"] in (2, 3)
    assert about["complete"]
    with pytest.raises(NotFiniteError, match=f"step {about['step_of_episode']} of its episode"):
        reproduce(run, task=melting)


def test_losses_that_are_no_numbers_stop_the_run_with_the_last_checkpoint_intact(tmp_path):
    run = tmp_path / "run"
    agent = UCP("Courier-v0", checkpoint_steps=400, **COURIER)
    original = agent.learner.update

    def update():
        if agent.learner.env_steps == 1000:
            with torch.no_grad():
                next(agent.learner.critics.parameters()).mul_(torch.nan)
        return original()

    agent.learner.update = update
    with pytest.raises(NotFiniteError, match="critic_loss nan after 1,000 environment steps"):
        agent.learn(run=run, show=False)
    assert json.loads((run / "broken-update.json").read_text())["env_steps"] == 1000
    with np.load(run / "broken-update.npz", allow_pickle=False) as arrays:
        assert not all(np.isfinite(arrays[name]).all() for name in arrays if "critics" in name)
    assert load(run).info.env_steps == 800
    assert UCP.resume(run).learn(show=False).learner.env_steps == 1600
