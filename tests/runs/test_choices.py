"""Environments with actions to choose from: trained, saved, evaluated, exported, used."""

import numpy as np
import polars as pl
import pytest

from tests.choosing import Errands
from ucpo import UsageError, load, train
from ucpo.cli.main import main
from ucpo.envs.checks import check
from ucpo.envs.interface import TaskSpec
from ucpo.policies.export import export

SMALL = {
    "num_envs": 32,
    "gamma": 1.0,
    "ppo": {
        "rollout": 32,
        "passes": 8,
        "minibatch": 256,
        "actor_rate": 2e-3,
        "critic_rate": 2e-3,
    },
    "show": False,
}
DEAR = {"kind": "gradient", "initial": 5.0, "rate": 3e-3, "minimum": 0.0, "maximum": 50.0}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("choices") / "run"
    budgets = {"budget_range": "0:8", "budget_levels": 9}
    return train(
        Errands, method="ucp-ppo", **budgets, env_steps=30_000, multiplier=DEAR, run=folder, **SMALL
    )


def test_one_policy_makes_the_best_choices_at_every_budget(run):
    played = run.evaluate([0, 2, 4, 8], 4)
    for budget in (0, 2, 4, 8):
        mine = played.filter(pl.col("budget_cost") == budget)
        assert mine["return"].to_list() == [8.0 + 2.0 * budget] * 4
        assert mine["cost_cost"].to_list() == [float(budget)] * 4


def test_a_policy_file_and_a_controller_choose_as_the_training_did(run, tmp_path):
    run.policy().save(tmp_path / "p.safetensors")
    policy = load(tmp_path / "p.safetensors")
    assert (policy.info.action, policy.info.action_low) == ("choice", (5.0,) * 3)
    obs, stock = np.random.default_rng(0).random((40, 1)), np.linspace(-8, 2, 40)[:, None]
    assert (policy.act(obs, stock) == run.policy().act(obs, stock)).all()
    controller = policy.controller(budget=2)
    env, earned, over = Errands(), 0.0, False
    obs, _ = env.reset(seed=0)
    while not over:
        action = controller.act(obs)
        assert isinstance(action, int)
        obs, reward, over, _, info = env.step(action)
        controller.record(info["cost"])
        earned += reward
    assert (earned, controller.remaining.tolist()) == (12.0, [0.0])


def test_an_exported_policy_gives_the_numbers_of_its_choices(run, tmp_path):
    import onnxruntime

    assert export(run.policy(), tmp_path / "p.onnx") == 0.0
    session = onnxruntime.InferenceSession(tmp_path / "p.onnx")
    inputs = {"observation": np.zeros((2, 1), np.float32)}
    inputs["stock"] = np.array([[-5.0], [0.0]], np.float32)
    (action,) = session.run(["action"], inputs)
    assert (action.dtype, action.tolist()) == (np.int64, [6, 5])


def test_a_policy_of_choices_does_not_fit_a_task_with_as_many_numbers(run):
    spec = TaskSpec("Three numbers", 1, (0.0,) * 3, (1.0,) * 3, ("cost",), None)
    with pytest.raises(UsageError, match=r"choices 3\) and does not fit.*actions 3"):
        run.policy().must_fit(spec)


ONE = {"ppo-lag": {}, "focops": {}, "p3o": {}, "trpo-lag": {}, "cpo": {}, "ppo-saute": {}}


@pytest.mark.parametrize("method", ONE)
def test_methods_of_the_on_policy_learner_learn_to_choose(method):
    run = train(Errands, method=method, budget=3, env_steps=3_000, seed=1, **SMALL)
    assert run.learner.updates > 0
    assert run.evaluate([3], 2)["return"].is_finite().all()


@pytest.mark.parametrize(
    ("method", "remedy"), [("ucp", "ucp-ppo"), ("sac-lag", "ppo-lag"), ("td3-saute", "ppo-lag")]
)
def test_methods_with_critics_of_actions_refuse_choices_and_name_one_that_does_not(method, remedy):
    with pytest.raises(UsageError, match=f"3 actions to choose from.*--method {remedy}"):
        train(Errands, method=method, budget=3, show=False)


def test_choices_work_on_the_command_line_as_the_check_suggests(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    task = "tests.choosing:Errands-v0"
    assert check(task, env_steps=200).command.startswith(f"ucpo train {task} --method ucp-ppo ")
    main(["train", task, "--method", "ucp-ppo", "--env-steps", "300", "--run", "r"])
    main(["evaluate", "r", "--task", task, "--budgets", "3", "--episodes", "3"])
    assert len(pl.read_parquet("r/evaluation.parquet")) == 3
