"""One's own environment on the command line, as README recommends it."""

import shlex
import sys

import gymnasium
import polars as pl
import pytest

from ucpo.cli.main import main

MODULE = """
import gymnasium, numpy as np

class Heater(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,))
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.np_random.uniform(-1.0, 1.0, 2).astype(np.float32), {}

    def step(self, action):
        obs = self.np_random.uniform(-1.0, 1.0, 2).astype(np.float32)
        heat = float(action[0]) + 1.0
        return obs, heat, False, False, {"cost": 0.3 * heat}

gymnasium.register("NAME-v0", Heater, max_episode_steps=20)
"""
QUICK = [
    *("--env-steps", "400", "--random-steps", "200", "--log-every", "200"),
    *("--networks.hidden", "16"),
]


@pytest.fixture
def name(tmp_path, monkeypatch):
    """The task of a module in the current folder, where a console script would not look."""
    module = f"heaters{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{module}.py").write_text(MODULE.replace("NAME", module))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    return f"{module}:{module}-v0"


def test_it_is_trained_resumed_and_evaluated_by_pasting_what_is_advised(name, tmp_path, capsys):
    main(["train", name, "--run", "my run", "--budget-range", "0:6", *QUICK])
    advised = capsys.readouterr().err.rpartition("Next: ")[2]
    assert shlex.split(advised) == ["ucpo", "evaluate", "my run", "--task", name]
    main(["resume", "my run", "--env-steps", "600"])
    module, _, registered = name.partition(":")
    del sys.modules[module], gymnasium.registry[registered]  # as in another process
    main([*shlex.split(advised)[1:], "--episodes", "3", "--budgets", "2"])
    rows = pl.read_parquet("my run/evaluation.parquet")
    assert set(rows["task"]) == {name}
    assert set(rows["env_steps"]) == {600}
