"""Exported policies act as the policies do, in another runtime."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from ucpo import UCP, load
from ucpo.cli.main import main
from ucpo.envs.adapters import to_bounds
from ucpo.errors import UsageError
from ucpo.policies import export as exporting
from ucpo.policies.export import export


def session(path):
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


def compared(policy, path, rows=7):
    generator = np.random.default_rng(3)
    obs = generator.normal(size=(rows, policy.info.observation_size)).astype(np.float32)
    costs = len(policy.info.cost_names)
    stock = generator.uniform(-9.0, 3.0, (rows, costs)).astype(np.float32)
    found = session(path).run(["action"], {"observation": obs, "stock": stock})[0]
    bounds = np.array(policy.info.action_low), np.array(policy.info.action_high)
    return found, to_bounds(policy.act(obs, stock), *bounds)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"networks": {"hidden": (16,), "stock_features": 4}},
        {"networks": {"hidden": (16, 16), "normalise": True}},
        {"method": "ucp-na", "budget": "5", "networks": {"hidden": (8,)}},
        {"method": "ucp-ppo", "networks": {"normalise": True}, "ppo": {"last_layer": 9.0}},
        {"method": "ppo-lag", "budget": "5", "ppo": {"last_layer": 9.0, "action": "squashed"}},
    ],
)
def test_the_graph_acts_as_the_policy_does(options, tmp_path):
    run = UCP("Courier-v0", env_steps=100, num_envs=2, **options)
    if options.get("networks", {}).get("normalise"):
        seen = np.random.default_rng(0).normal([9.81, -3.0], [0.1, 2.0], (50, 2))
        run.learner.normaliser.observe(seen.astype(np.float32))
    policy = run.policy()
    assert export(policy, tmp_path / "policy.onnx") <= 1e-5
    for rows in (1, 7):
        found, expected = compared(policy, tmp_path / "policy.onnx", rows)
        assert found.shape == (rows, 1)
        np.testing.assert_allclose(found, expected, atol=1e-5)


def test_several_costs_and_actions_in_the_environments_units(tmp_path):
    policy = UCP("Courier2-v0", env_steps=100, num_envs=2).policy()
    object.__setattr__(policy.info, "action_low", (0.0,))
    object.__setattr__(policy.info, "action_high", (50.0,))
    export(policy, tmp_path / "policy.onnx")
    found, expected = compared(policy, tmp_path / "policy.onnx")
    np.testing.assert_allclose(found, expected, atol=50.0 * 1e-5)
    assert expected.max() > 10.0


def test_the_command_exports_from_the_zoo_and_the_file_says_what_it_is(tmp_path, capsys):
    main(["export", "zoo:SafetyPointGoal1-v0", str(tmp_path / "point.onnx")])
    assert "stock (cost) = -budget" in capsys.readouterr().err
    policy = load("zoo:SafetyPointGoal1-v0")
    found, expected = compared(policy, tmp_path / "point.onnx")
    np.testing.assert_allclose(found, expected, atol=2e-5)
    about = session(tmp_path / "point.onnx").get_modelmeta().custom_metadata_map
    assert json.loads(about["task"]) == "SafetyPointGoal1-v0"
    assert json.loads(about["budget_high"]) == [30.0]
    assert "-budget" in json.loads(about["stock"])


def test_a_graph_that_acts_otherwise_is_not_written(tmp_path, monkeypatch):
    policy = UCP("Courier-v0", env_steps=100, num_envs=2).policy()
    other = UCP("Courier-v0", env_steps=100, num_envs=2, seed=1).policy()
    made = exporting._model(other)
    monkeypatch.setattr(exporting, "_model", lambda policy: made)
    with pytest.raises(RuntimeError, match="nothing was written"):
        export(policy, tmp_path / "policy.onnx")
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_exported_is_answered(tmp_path, monkeypatch):
    policy = UCP("Courier-v0", env_steps=100, num_envs=2).policy()
    with pytest.raises(UsageError, match=r"as \.onnx, got 'policy.pt'"):
        export(policy, tmp_path / "policy.pt")
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(UsageError, match=r"pip install 'ucpo\[export\]'"):
        export(policy, tmp_path / "policy.onnx")


def test_the_snippets_of_the_guide_run(tmp_path, monkeypatch, capsys):
    guide = Path(__file__).parents[2] / "docs" / "deploying.md"
    monkeypatch.chdir(tmp_path)
    export(load("zoo:SafetyPointGoal1-v0"), "policy.onnx")
    first, second = re.findall(r"```python\n(.*?)```", guide.read_text(), re.S)
    exec(first, {})
    assert capsys.readouterr().out == "[9.]\n"
    names = {}
    exec(second, names)
    assert names["action"].shape == (2,)
    assert names["stock"].tolist() == [[-9.0]]
