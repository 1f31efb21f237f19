"""Networks, multipliers and schedules of one's own: by a function, by a class, by their names."""

import sys

import numpy as np
import polars as pl
import pytest
import torch
from torch import nn

from ucpo import UCP, UsageError, load
from ucpo.cli.main import main
from ucpo.evaluation import Request, evaluate_run
from ucpo.learners.networks import Body, Critics
from ucpo.learners.trunk import Trunk
from ucpo.policies.critics import load_critics
from ucpo.policies.export import export
from ucpo.runs.run import Run

QUICK = {"num_envs": 4, "env_steps": 1200, "random_steps": 400, "log_every": 400, "seed": 1}
SMALL = {"replay": {"batch": 32}, "ppo": {"rollout": 25, "minibatch": 50, "passes": 2}}


class Skipping(nn.Module):
    """Features, with the inputs beside them."""

    def __init__(self, inputs):
        super().__init__()
        self.first, self.norm = nn.Linear(inputs, 12), nn.LayerNorm(12)

    def forward(self, seen):
        return torch.cat([torch.relu(self.norm(self.first(seen))), seen], dim=-1)


def test_members_have_weights_of_their_own_and_learn_as_the_module_itself_would():
    trunk = Trunk(Skipping, 3, 5, torch.Generator().manual_seed(0))
    again = Trunk(Skipping, 3, 5, torch.Generator().manual_seed(0))
    assert (trunk.flat == again.flat).all()
    assert (trunk.flat[0] != trunk.flat[1]).any()
    seen = torch.randn(7, 5)
    module = Skipping(5)
    nn.utils.vector_to_parameters(trunk.flat[2].detach(), module.parameters())
    module.requires_grad_(True)
    found = trunk(seen[:, :3], seen[:, 3:])
    assert found.shape == (3, 7, 17)
    assert found[2].detach() == pytest.approx(module(seen).detach())
    found.square().sum().backward()
    module(seen).square().sum().backward()
    exact = torch.cat([weight.grad.reshape(-1) for weight in module.parameters()])
    assert trunk.flat.grad[2] == pytest.approx(exact, rel=1e-4, abs=1e-6)


def test_critics_of_ones_own_give_the_slope_of_the_action():
    body = Body(3, 4, 1, Skipping, 6, 1.0, 0, torch.Generator().manual_seed(0))
    critics, action = Critics(body), torch.randn(5, 2, requires_grad=True)
    said = critics(torch.randn(5, 2), torch.randn(5, 1), action)
    assert said.shape == (3, 5, 6)
    said.sum().backward()
    assert (action.grad != 0.0).any()


METHODS = ["ucp", "sac-lag", "td3-lag", "ucp-ppo", "ppo-lag", "trpo-lag"]


@pytest.mark.parametrize("method", METHODS)
def test_every_learner_learns_with_a_network_of_ones_own_and_resumes(method, tmp_path):
    budget = {} if method.startswith("ucp") else {"budget": 5}
    how = {**QUICK, **SMALL, **budget, "networks": {"own": Skipping, "normalise": True}}
    whole = UCP("Courier-v0", method=method, **how).learn(run=tmp_path / "whole", show=False)
    assert whole.config.networks.own == "tests.runs.test_own_parts:Skipping"
    first = UCP("Courier-v0", method=method, **how).policy().actor.body.trunk.flat
    assert (whole.policy().actor.body.trunk.flat != first).any()
    UCP("Courier-v0", method=method, **how).learn(800, run=tmp_path / "half", show=False)
    Run.resume(tmp_path / "half", env_steps=1200).learn(show=False)
    made = [load(tmp_path / name, network=Skipping) for name in ("whole", "half")]
    obs = np.random.default_rng(0).random((9, made[0].info.observation_size), np.float32)
    acted = [one.act(obs, np.zeros((9, 1), np.float32)) for one in (*made, whole.policy())]
    assert (acted[0] == acted[1]).all()
    assert (acted[0] == acted[2]).all()


def test_a_policy_file_does_not_decide_which_network_is_imported(tmp_path):
    run = UCP("Courier-v0", **QUICK, **SMALL, networks={"own": Skipping})
    run.learn(800, run=tmp_path / "run", show=False)
    with pytest.raises(UsageError, match=r"made by tests.*Skipping, which.*load\(path, network="):
        load(tmp_path / "run")
    with pytest.raises(UsageError, match=r"torch\.onnx\.export"):
        export(run.policy(), tmp_path / "policy.onnx")
    policy = load(tmp_path / "run", network=Skipping)
    assert load_critics(tmp_path / "run", policy.info, policy.network).critics.body.trunk
    with pytest.raises(UsageError, match="is not a policy of ucpo, or it is damaged"):
        load(tmp_path / "run", network=lambda inputs: nn.Linear(inputs, 3))
    request = Request(
        policy=tmp_path / "run",
        budgets=[5.0],
        episodes=4,
        network="tests.runs.test_own_parts:Skipping",
        calibrate=True,
    )
    assert len(evaluate_run(request).episodes) == 4


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (lambda inputs: 3, "is a torch.nn.Module.*got int"),
        (lambda inputs: nn.BatchNorm1d(inputs), "LayerNorm instead of BatchNorm"),
        (lambda inputs: nn.ReLU(), "no weights to learn"),
        (lambda inputs: nn.Sequential(nn.Linear(inputs, 2), nn.Flatten(0)), r"it made \(6,\)"),
        ("ucpo.errors:nothing", "has no 'nothing' to make a network of"),
        ("no_such_module:net", "cannot import 'no_such_module'"),
    ],
)
def test_what_is_no_network_is_refused_in_a_sentence(network, message):
    with pytest.raises(UsageError, match=message):
        UCP("Courier-v0", networks={"own": network})


class Steep:
    """One price for all budgets: the number of episodes so far."""

    def __init__(self, problem, grid):
        self.count, self.grid = 0, grid

    def value(self, initial_stock):
        return torch.full_like(initial_stock, float(self.count))

    def observe(self, episodes):
        self.count += len(episodes)

    def update(self, env_steps):
        pass

    def tables(self):
        return [torch.full((levels,), float(self.count)) for levels in self.grid.levels]

    def state(self):
        return {"count": np.array(self.count)}

    def restore(self, state):
        self.count = int(state["count"])


@pytest.mark.parametrize("method", ["ucp", "sac-lag", "ucp-ppo"])
def test_prices_may_be_a_class_of_ones_own_and_are_reported_and_resumed(method, tmp_path):
    budget = {"budget": 5} if method == "sac-lag" else {}
    how = {**QUICK, **SMALL, **budget, "multiplier": {"own": Steep}}
    UCP("Courier-v0", method=method, **how).learn(800, run=tmp_path / "run", show=False)
    run = Run.resume(tmp_path / "run", env_steps=1200).learn(show=False)
    assert isinstance(run.learner.multiplier, Steep)
    metrics = pl.read_csv(tmp_path / "run" / "metrics.csv")
    prices = [name for name in metrics.columns if name.startswith("price/")]
    made = metrics["episodes"].to_list()
    assert metrics[prices[0]].to_list() == [float(count) for count in made]
    assert made[-1] > made[0] >= 0


def test_what_is_no_multiplier_is_refused_in_a_sentence():
    class Silent(Steep):
        tables = None

    with pytest.raises(UsageError, match=r"does not answer tables; .*interface\.Multiplier says"):
        UCP("Courier-v0", multiplier={"own": Silent})
    with pytest.raises(UsageError, match=r"called with \(Problem, BudgetGrid\) to make a mult"):
        UCP("Courier-v0", multiplier={"own": lambda problem: None})


def test_parts_of_ones_own_are_named_on_the_command_line_as_advised(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "my_parts.py").write_text(
        "import torch\n"
        "def wide(inputs):\n"
        "    return torch.nn.Sequential(torch.nn.Linear(inputs, 9), torch.nn.ReLU())\n"
    )
    small = ["--env-steps", "400", "--num-envs", "4", "--random-steps", "200", "--run", "r"]
    main(["train", "Courier-v0", "--networks.own", "my_parts:wide", *small])
    said = capsys.readouterr().err
    assert "ucpo evaluate r --network my_parts:wide" in said
    main(["evaluate", "r", "--network", "my_parts:wide", "--budgets", "5", "--episodes", "2"])
    with pytest.raises(SystemExit):
        main(["evaluate", "r", "--budgets", "5", "--episodes", "2"])
    assert "--network my_parts:wide" in capsys.readouterr().err
