import csv
import os
import signal
import threading
import time

import numpy as np
import pytest

import tests.choosing
from ucpo import UCP, UsageError, load
from ucpo.problem import BudgetGrid
from ucpo.runs.progress import bands

QUICK = {
    "env_steps": 1200,
    "random_steps": 400,
    "log_every": 400,
    "networks": {"hidden": [16], "quantiles": 8},
    "replay": {"batch": 16},
    "multiplier": {"start": 0},
}


def learn(folder, **options):
    return UCP("Courier-v0", **{**QUICK, **options}).learn(run=folder, show=False)


def rows(folder):
    with (folder / "metrics.csv").open() as file:
        return list(csv.DictReader(file))


def test_a_run_leaves_configuration_metrics_events_policy_critics_and_checkpoint(tmp_path):
    agent = learn(tmp_path / "run")
    names = {path.name.split(".")[0] for path in (tmp_path / "run").iterdir()}
    assert names == {"config", "metrics", "events", "policy", "critics", "checkpoint"}
    last = rows(tmp_path / "run")[-1]
    assert (int(last["env_steps"]), int(last["updates"])) == (1200, 100)
    assert load(tmp_path / "run").info.env_steps == agent.learner.env_steps == 1200


def test_the_same_seed_gives_the_same_metrics_and_another_seed_others(tmp_path):
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        learn(tmp_path / name, seed=seed)
    first, same, other = ((tmp_path / n / "metrics.csv").read_bytes() for n in "abc")
    assert first == same
    assert first != other
    policies = [(tmp_path / n / "policy.safetensors").read_bytes() for n in "abc"]
    assert policies[0] == policies[1] != policies[2]


def test_metrics_of_learning_have_columns_from_the_first_row_on(tmp_path):
    learn(tmp_path / "run")
    first, *_, last = rows(tmp_path / "run")
    assert first["actor_loss"] == ""
    assert float(last["actor_loss"]) == float(last["actor_loss"])


def test_nothing_is_learned_during_the_random_steps(tmp_path):
    agent = learn(tmp_path / "run", env_steps=400)
    assert agent.learner.updates == 0
    assert agent.learner.env_steps == 400


def test_an_existing_folder_is_refused_untouched(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match="exists already"):
        learn(tmp_path / "run")
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["notes.txt"]


def test_an_interrupt_ends_cleanly_with_the_policy_saved(tmp_path):
    agent = UCP("Courier-v0", **{**QUICK, "env_steps": 10_000_000})
    before = signal.getsignal(signal.SIGINT)

    def interrupt():
        while agent.learner.updates < 5:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    agent.learn(run=tmp_path / "run", show=False)
    assert agent.interrupted
    assert 0 < load(tmp_path / "run").info.env_steps < 10_000_000
    assert signal.getsignal(signal.SIGINT) is before


def test_an_error_in_the_task_still_saves_the_policy(tmp_path):
    agent = UCP("Courier-v0", **QUICK)
    original = agent.task.advance

    def advance(actions):
        if agent.learner.env_steps >= 800:
            raise RuntimeError("the simulator broke")
        return original(actions)

    agent.task.advance = advance
    with pytest.raises(RuntimeError, match="simulator"):
        agent.learn(run=tmp_path / "run", show=False)
    assert load(tmp_path / "run").info.env_steps == 800


def test_learning_goes_on_where_it_stopped():
    agent = UCP("Courier-v0", **QUICK)
    agent.learn(800, show=False).learn(400, show=False)
    assert (agent.learner.env_steps, agent.learner.updates) == (1200, 100)


def test_learning_longer_than_configured_forgets_nothing_early():
    agent = UCP("Courier-v0", **{**QUICK, "env_steps": 80, "random_steps": 800})
    agent.learn(800, show=False)
    assert len(agent.learner.replay) == 800


def test_metrics_tell_costs_and_violations_by_band_of_budget(tmp_path):
    agent = learn(tmp_path / "run")
    last = {key: float(value) for key, value in rows(tmp_path / "run")[-1].items()}
    labels = [label for label, _, _ in bands(agent.grid, 0)]
    assert labels == ["0-4", "6-10", "12-16", "18-20"]
    for label in labels:
        assert 0.0 <= last[f"violations/near_misses/{label}"] <= 1.0
        assert last[f"price/near_misses/{label}"] >= 1e-3
    assert 15.0 < last["return"] < 40.0


def test_bands_cover_every_level_once():
    for levels in (1, 3, 31):
        high = 30.0 if levels > 1 else 0.0
        grid = BudgetGrid((0.0,), (high,), (levels,))
        parts = bands(grid, 0)
        for level in -grid.stocks(0):
            assert sum(low <= level <= high for _, low, high in parts) == 1


@pytest.mark.parametrize("method", ["ucp-ds", "ucp-mean"])
def test_variants_with_many_budgets_train(method, tmp_path):
    agent = learn(tmp_path / "run", method=method, gamma=0.99)
    assert agent.policy().info.stock_discount == (0.99 if method == "ucp-ds" else 1.0)


@pytest.mark.parametrize("method", ["ucp-nr", "ucp-nr-mean", "ucp-na"])
def test_variants_with_one_budget_train_on_it_alone(method, tmp_path):
    agent = learn(tmp_path / "run", method=method, budget="7")
    assert agent.grid.levels == (1,)
    assert (
        np.unique(agent.learner.replay.sample(64, np.random.default_rng(0)).initial_stock) == -7.0
    )
    assert agent.learner.actor.body.stock_size == (0 if method == "ucp-na" else 1)


def test_two_costs_train_with_a_column_each(tmp_path):
    options = {**QUICK, "budget_range": ["near_misses=0:10", "fines=0:4"], "budget_levels": 3}
    agent = UCP("Courier2-v0", **options).learn(run=tmp_path / "run", show=False)
    last = rows(tmp_path / "run")[-1]
    assert {"cost/near_misses", "cost/fines", "price/fines/0"} <= set(last)
    assert agent.controller([10.0, 4.0]).remaining.tolist() == [10.0, 4.0]
    with pytest.raises(UsageError, match="fines 0 to 4"):
        agent.controller(10.0)


def test_an_environment_of_ones_own_trains_from_a_function():
    from tests.envs.test_adapters import Thermostat

    agent = UCP(Thermostat, budget_range="0:9", **QUICK).learn(show=False)
    assert agent.learner.updates == 100
    assert agent.controller(5.0).act(np.zeros(2)).shape == (1,)


def test_environments_in_processes_of_their_own_train_to_the_same_policy():
    from tests.envs.test_adapters import Thermostat

    options = {**QUICK, "env_steps": 480, "budget_range": "0:9", "num_envs": 2}
    policies = []
    for asynchronous in (False, True):
        agent = UCP(Thermostat, asynchronous=asynchronous, **options).learn(show=False)
        policies.append(agent.policy().act(np.zeros((1, 2)), np.full((1, 1), -3.0)))
        agent.task.close()
    assert agent.learner.updates == 40
    assert policies[0] == policies[1]


def test_tracking_that_fails_leaves_no_folder_in_the_way(tmp_path, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "wandb", None)  # not installed
    with pytest.raises(UsageError, match=r"ucpo\[wandb\]"):
        UCP("Courier-v0", **QUICK).learn(run=tmp_path / "run", show=False, track="wandb")
    assert not (tmp_path / "run").exists()


def test_an_environment_that_cannot_begin_leaves_no_folder_in_the_way(tmp_path):
    class Broken(tests.choosing.Errands):
        def reset(self, *, seed=None, options=None):
            obs, info = super().reset(seed=seed)
            return (np.zeros(7) if seed else obs), info  # seed 0 is that of the first look

    with pytest.raises(UsageError, match=r"observation of shape \(7,\)"):
        UCP(Broken, method="ucp-ppo").learn(run=tmp_path / "run", show=False)
    assert not (tmp_path / "run").exists()


def test_callbacks_hear_of_rows_and_episodes_and_may_stop_a_training():
    rows, costs = [], []
    agent = UCP("Courier-v0", **QUICK)
    agent.learn(
        show=False,
        on_log=rows.append,
        on_episode=lambda episodes: costs.extend(episodes.costs[:, 0]),
        stop=lambda: len(costs) >= 12,
    )
    assert 12 <= len(costs) < 20
    assert agent.learner.env_steps < agent.config.env_steps
    assert all("return" in row and "steps_per_second" in row for row in rows)


def test_budgets_may_be_numbers():
    assert UCP("Courier-v0", **{**QUICK, "budget_range": (0, 25)}).grid.high == (25.0,)
    both = {"near_misses": (0, 10), "fines": (1, 4)}
    assert UCP("Courier2-v0", **{**QUICK, "budget_range": both}).grid.low == (0.0, 1.0)
