"""The examples run as they stand, on few steps."""

import importlib.util
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def example(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_custom_environment(capsys):
    example("custom_environment").main(env_steps=4_400)
    assert "cost_cost" in capsys.readouterr().out


def test_deployment(capsys):
    example("deployment").main("zoo:SafetyPointGoal1-v0", 12.0)
    said = capsys.readouterr().out
    assert "of 12 left to spend" in said
    assert float(said.split()[1]) > 5.0  # it drives: actions arrive in the units they are meant in
