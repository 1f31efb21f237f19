"""The examples run as they stand, on few steps."""

import importlib.util
from pathlib import Path

import pytest

from ucpo import UCP

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


def test_deployment(tmp_path, capsys):
    UCP("Courier-v0").learn(200, run=tmp_path / "run", show=False)
    example("deployment").main(str(tmp_path / "run"), 12.0)
    assert "of 12 left to spend" in capsys.readouterr().out
