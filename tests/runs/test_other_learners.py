"""A learner that the package knows nothing of: everything around it must do without knowing."""

import csv
from dataclasses import replace

import numpy as np
import pytest
import torch

from ucpo import Policy, Run, load
from ucpo.config import assembly
from ucpo.evaluation import Request, evaluate_run
from ucpo.policies.policy import make_actor
from ucpo.reports import build
from ucpo.storage import states


class Gambler:
    """Acts at random, and counts how often which initial budget was exceeded."""

    metrics = ("exceeded",)
    memory = None

    def __init__(self, config, spec, grid, generator):
        self.env_steps = self.updates = 0
        self.grid, self.counts = grid, np.zeros(grid.levels[0])
        self.noise = np.random.default_rng(config.seed)
        self.info = assembly.make_info(config, spec, grid, 1, 1.0)
        self.actor = make_actor(spec, config.networks.hidden, 1, 1.0, 0, torch.Generator())

    def act(self, obs, stock):
        return self.noise.uniform(-1.0, 1.0, (len(obs), 1)).astype(np.float32)

    def remember(self, obs, stock, actions, step):
        self.env_steps += int(step.env_steps.sum())

    def observe(self, episodes):
        exceeded = episodes.costs[:, 0] + episodes.initial_stock[:, 0] > 0.0
        levels = self.grid.bin(episodes.initial_stock[:, 0], 0).astype(int)
        np.add.at(self.counts, levels, exceeded)

    def improve(self):
        self.updates += 1
        yield {"exceeded": torch.tensor(self.counts.sum())}

    def prices(self):
        return []

    def policy(self):
        return Policy(self.actor, replace(self.info, env_steps=self.env_steps))

    def cut(self):
        pass

    def recent_actions(self, row, env_steps):
        return np.zeros((0, 1))

    def state(self):
        steps = np.array([self.env_steps, self.updates])
        return {"counts": self.counts.copy(), "steps": steps, **states.of_generator(self.noise)}

    def restore(self, state):
        self.counts = state["counts"].copy()
        self.env_steps, self.updates = map(int, state["steps"])
        states.set_generator(self.noise, {"pcg64": state["pcg64"]}, "noise")


OPTIONS = {"env_steps": 2000, "log_every": 200, "num_envs": 4, "networks": {"hidden": [8]}}


@pytest.fixture(autouse=True)
def _known(monkeypatch):
    monkeypatch.setitem(assembly.LEARNERS, "gambler", Gambler)


@pytest.fixture
def method(tmp_path):
    path = tmp_path / "gambling.toml"
    path.write_text('summary = "Acts at random."\nlearner = "gambler"\n')
    return str(path)


def test_it_trains_checkpoints_resumes_and_is_judged(method, tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    Run("Courier-v0", method=method, **OPTIONS).learn(run=whole, show=False)
    run = Run("Courier-v0", method=method, **OPTIONS)
    run.learn(run=parts, show=False, stop=lambda: run.learner.env_steps >= 700)
    assert run.learner.env_steps == 700
    resumed = Run.resume(parts).learn(show=False)
    assert resumed.learner.counts.sum() > 0
    assert (whole / "metrics.csv").read_bytes() == (parts / "metrics.csv").read_bytes()
    with (whole / "metrics.csv").open() as file:
        last = list(csv.DictReader(file))[-1]
    assert float(last["exceeded"]) == resumed.learner.counts.sum()
    assert not any(name.startswith("price/") for name in last)

    assert load(whole).info.method == "gambling"
    request = Request(policy=whole, budgets=[5.0], episodes=4)
    assert len(evaluate_run(request).episodes) == 4
    page = build([whole], tmp_path / "report")
    assert "gambling" in page.read_text()


def test_a_learner_nobody_knows_is_refused_by_name(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('learner = "gamblr"\n')
    with pytest.raises(Exception, match="no learner 'gamblr'; did you mean 'gambler'"):
        Run("Courier-v0", method=str(path), **OPTIONS)
