"""Whole runs of SAC, TD3 and what is made of them."""

import numpy as np
import pytest

from tests.runs.test_resume import assert_same
from ucpo import Run, load
from ucpo.config.files import method_names, preset_names, read_method, resolve
from ucpo.envs.illustration import TwoActions
from ucpo.envs.shaping import EarlyTermination
from ucpo.evaluation import Request, evaluate_run
from ucpo.stock import Start

METHODS = [name for name in method_names() if name.startswith(("sac", "td3"))]
FAMILIES = ("navigation", "velocity", "courier", "finite", "default")
QUICK = {
    "env_steps": 1600,
    "random_steps": 200,
    "log_every": 160,
    "num_envs": 4,
    "networks": {"hidden": [16], "normalise": True},
    "replay": {"batch": 16, "capacity": 600},
    "multiplier": {"start": 0},
    "entropy": {"weight": 0.1, "rate": 1e-3},
}


def options(method):
    return {"budget": "10"} if read_method(method)[1]["starts"] == "single" else {}


def test_the_methods_are_those_of_the_comparison():
    kinds = ("", "-lag", "-pid", "-saute", "-et", "-jiang")
    assert set(METHODS) >= {f"{learner}{kind}" for learner in ("sac", "td3") for kind in kinds}
    assert "ucp-pid" in method_names()


@pytest.mark.parametrize("method", METHODS)
def test_every_method_trains_resumes_to_the_bit_and_is_judged(method, tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    how = {**QUICK, **options(method)}
    Run("Courier-v0", method=method, **how).learn(run=whole, show=False)
    run = Run("Courier-v0", method=method, **how)
    for stop in (100, 900):  # while acting randomly, and while learning
        run.learn(
            run=None if run.folder else parts,
            show=False,
            stop=lambda run=run, stop=stop: run.learner.env_steps >= stop,
        )
        run = Run.resume(parts)
    run.learn(show=False)
    assert_same(whole, parts)
    assert load(whole).info.method == method
    assert run.learner.updates == 350
    judged = evaluate_run(Request(policy=whole, budgets=[10.0], episodes=4))
    assert judged.episodes["length"].to_list() == [40] * 4


def test_ucp_takes_prices_by_a_controller():
    run = Run("Courier-v0", method="ucp-pid", budget="1", **QUICK).learn(show=False)
    assert run.learner.prices()[0].item() > 0.0


def test_methods_choose_presets_of_their_own_for_every_family_of_tasks():
    for family in FAMILIES:
        assert f"swift-offpolicy-{family}" in preset_names()
        config = resolve("X", method="sac-lag", family=family, budget="25")
        assert (config.preset, config.offpolicy.prices) == ("auto", "episode")
        windows = {"velocity": 3, "navigation": 5}
        assert config.replay.n_step == windows.get(family, 1)
        for shaped in ("sac-saute", "td3-et", "sac-jiang"):
            config = resolve("X", method=shaped, family=family)
            assert (config.replay.n_step, config.hold) == (1, 1)


def test_presets_after_omnisafe_do_what_it_does():
    for family in ("navigation", "velocity"):
        preset = f"omnisafe-offpolicy-{family}"
        sac, td3, pid = (
            resolve("X", method=method, preset=preset, budget="25")
            for method in ("sac-lag", "td3-lag", "sac-pid")
        )
        assert (sac.random_steps, td3.random_steps) == (10_000, 25_000)
        for config in (sac, td3, pid):
            assert (config.num_envs, config.updates, config.offpolicy.delay) == (1, 1, 2)
            assert (config.critic.next_action, config.offpolicy.prices) == ("mean", "update")
            assert (config.multiplier.start, config.multiplier.window) == (202_000, 50)
            assert config.actor.regulariser == 0.0
    assert (sac.actor.rate, pid.actor.rate) == (3e-4, 1e-4)


@pytest.mark.parametrize("learner", ["sac", "td3"])
def test_returns_are_the_tasks_own_whatever_the_learner_is_told(learner):
    """Staying pays 1 and costs 1: a return is the cost, and no penalty is in it."""
    seen = []
    how = {**QUICK, "budget_range": "0:5", "budget_levels": 6, "shaping": {"penalty": 1000.0}}
    Run("TwoActions-v0", method=f"{learner}-saute", **how).learn(
        show=False,
        on_episode=lambda episodes: seen.append((episodes.returns, episodes.costs[:, 0])),
    )
    returns, costs = (np.concatenate(part) for part in zip(*seen, strict=True))
    assert np.array_equal(returns, costs)


@pytest.mark.parametrize("learner", ["sac", "td3"])
def test_whole_episodes_are_judged_where_training_cuts_them_short(learner):
    lengths = []
    how = {**QUICK, "budget_range": "0:2", "budget_levels": 3}
    run = Run("Courier-v0", method=f"{learner}-et", **how)
    run.learn(show=False, on_episode=lambda episodes: lengths.extend(episodes.lengths))
    assert min(lengths) < 40
    assert set(run.evaluate([0.0, 2.0], 10)["length"].to_list()) == {40}
    run.learn(400, show=False)
    assert run.learner.env_steps == 2000


def test_early_termination_counts_within_an_episode_only():
    """Others go on counting into the next one: of two episodes of cost 20 the second ends early."""
    task = EarlyTermination(TwoActions(2, max_episode_steps=20))
    start = Start(0, np.array([-25.0], np.float32))
    task.reset(iter([start] * 20))
    ended = []
    for _ in range(60):
        ended += task.step(np.ones((2, 1), np.float32)).episodes.lengths.tolist()
    assert ended == [20] * 6


def test_early_termination_ends_at_the_cost_that_exceeds_and_not_before():
    task = EarlyTermination(TwoActions(1, max_episode_steps=20))
    task.reset(iter([Start(0, np.array([-2.0], np.float32))] * 9))
    steps = [task.step(np.ones((1, 1), np.float32)) for _ in range(3)]
    assert [bool(step.terminated[0]) for step in steps] == [False, False, True]
    assert steps[2].episodes.costs.tolist() == [[3.0]]
