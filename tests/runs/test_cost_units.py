"""Costs of any scale are learned alike: what is priced and tolerated is measured in their units."""

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box

from ucpo import UCP, UsageError, load, register_utility
from ucpo.config.assembly import make_grid
from ucpo.config.files import resolve
from ucpo.config.units import make_units
from ucpo.envs.interface import Episodes, TaskSpec
from ucpo.learners.in_units import InUnits
from ucpo.policies.critics import load_critics
from ucpo.runs.run import Run


class Stove(gymnasium.Env):
    """The action is the heat, which pays; its cost is the gas, in some unit."""

    observation_space = Box(0.0, 1.0, (1,))
    action_space = Box(0.0, 1.0, (1,))
    unit = 1.0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.time += 1
        heat = float(np.float32(action[0]))
        info = {"cost": self.unit * heat}
        return np.array([self.time / 8], np.float32), heat, self.time == 8, False, info


def measured(in_units):
    return type("Measured", (Stove,), {"unit": in_units})


QUICK = {"num_envs": 4, "env_steps": 1000, "random_steps": 200, "seed": 1}
SMALL = {"ppo": {"rollout": 50, "minibatch": 50, "passes": 3}, "networks": {"hidden": [16]}}
PRICES = {"multiplier": {"start": 200}}


ANY_BUDGET = ("ucp", "ucp-ppo", "ppo-jiang")


@pytest.mark.parametrize(
    ("method", "unit"),
    [
        ("ppo-lag", 2.0**20),
        ("ucp-ppo", 2.0**-10),
        ("ppo-jiang", 2.0**20),
        ("p3o", 2.0**-10),
        ("sac-lag", 2.0**20),
        ("ucp", 2.0**-10),
    ],
)
def test_a_training_does_not_depend_on_the_unit_of_its_cost(method, unit):
    def trained(unit):
        budget = {"budget": 3 * unit}
        if method in ANY_BUDGET:
            budget = {"budget_range": f"0:{6 * unit}", "budget_levels": 4}
        how = {**QUICK, **SMALL, **PRICES, **budget, "method": method}
        run = UCP(measured(unit), **how).learn(show=False)
        return run, [unit * table for table in run.learner.prices()]

    (plain, prices), (other, again) = trained(1.0), trained(unit)
    obs = np.linspace(0, 1, 5, dtype=np.float32)[:, None]
    stock = np.linspace(-6, 1, 5, dtype=np.float32)[:, None]
    acted = plain.policy().act(obs, stock)
    assert other.policy().act(obs, unit * stock) == pytest.approx(acted, abs=1e-5)
    for one, two in zip(prices, again, strict=True):
        assert two == pytest.approx(one, rel=1e-4)


def test_our_own_tasks_and_utilities_of_ones_own_are_left_as_they_are():
    assert not isinstance(UCP("Courier-v0", seed=0).learner, InUnits)
    assert isinstance(UCP(Stove, budget_range="0:3").learner, InUnits)
    register_utility("beyond three", lambda final_stock: 1.0 * (final_stock > 3.0))
    own = UCP(Stove, budget_range="0:3", utility="beyond three").learner
    assert not isinstance(own, InUnits)


SPEC = TaskSpec("Plant", 2, (0.0,), (1.0,), ("energy", "wear"), 10)


def units(*texts, ranges=("energy=0:0.02", "wear=0:5e6")):
    config = resolve("Plant", budget_range=ranges, cost_units=texts)
    return make_units(config, SPEC.cost_names, make_grid(config, SPEC))


def test_units_follow_from_ranges_or_are_given_for_each_cost():
    assert units("range") == pytest.approx((0.02 / 30, 5e6 / 30))
    assert units("2") == (2.0, 2.0)
    assert units("energy=0.001", "wear=range") == pytest.approx((0.001, 5e6 / 30))
    assert units("1", "wear=1e5") == (1.0, 1e5)
    assert units("range", ranges=("energy=0:0.02", "wear=0:0"))[1] == 1.0
    for texts, message in (
        (("wera=1",), "did you mean 'wear'"),
        (("wear=1",), "no unit given for energy"),
        (("0",), "a number above 0, or range; got '0'"),
        (("nan",), "a number above 0"),
        (("much",), "got 'much'"),
    ):
        with pytest.raises(UsageError, match=message):
            units(*texts)


def test_environments_of_ones_own_are_measured_by_their_ranges_and_our_tasks_as_they_are():
    assert resolve("mine:Env", family="default").cost_units == ("range",)
    for family in ("navigation", "velocity", "courier", "finite"):
        assert resolve("ours", family=family).cost_units == ("1",)


def finished(budget, cost):
    nothing = np.zeros(1, np.int64)
    stock, costs = np.array([[-budget]], np.float32), np.array([[cost]])
    return Episodes(stock, np.zeros(1), costs, nothing, nothing, nothing)


def test_prices_tolerances_and_their_limits_are_in_units_worked_by_hand():
    how = {"initial": 2.0, "rate": 0.1, "maximum": 2.5, "start": 0}
    options = {"budget": 10_000, "cost_units": "1000", "tolerance": 0.5, "multiplier": how}
    learner = UCP(measured(1e3), **options, env_steps=100).learner
    assert learner.prices()[0].tolist() == pytest.approx([0.002])
    learner.observe(
        finished(10_000.0, 13_000.0)
    )  # 3 units above, of which half a unit is tolerated
    inner = learner.learner.multiplier
    inner.update(0)
    assert learner.prices()[0].tolist() == pytest.approx([0.00225])  # 2 + 0.1 * 2.5 per unit
    for _ in range(5):
        inner.update(0)
    assert learner.prices()[0].tolist() == pytest.approx([0.0025])  # at most 2.5 per unit


def test_policies_critics_and_resumed_runs_are_for_plain_costs(tmp_path):
    how = {**QUICK, "budget_range": "0:0.03", "budget_levels": 4, "networks": {"hidden": [16]}}
    run = UCP(measured(1e-3), **how)
    run.learn(800, run=tmp_path / "run", show=False)
    policy = load(tmp_path / "run")
    assert (policy.info.budget_low, policy.info.budget_high) == ((0.0,), (0.03,))
    assert policy.info.stock_scale == pytest.approx(0.01)
    obs, stock = np.zeros((3, 1), np.float32), np.array([[-0.03], [-0.01], [0.0]], np.float32)
    inner = run.learner.learner.policy()
    assert policy.act(obs, stock) == pytest.approx(inner.act(obs, stock / 1e-3), abs=1e-6)
    critics = load_critics(tmp_path / "run", policy.info).critics
    assert critics.units.tolist() == pytest.approx([1.0, 1.0, 1e-3])
    parts = [torch.zeros(3, 1), torch.from_numpy(stock), torch.zeros(3, 1)]
    said, plain = critics(*parts), inner.critics(parts[0], parts[1] / 1e-3, parts[2])
    assert said[2].detach() == pytest.approx(1e-3 * plain[2].detach(), rel=1e-4)
    resumed = Run.resume(tmp_path / "run", task=measured(1e-3), env_steps=1200)
    assert resumed.learn(show=False).learner.env_steps == 1200


@pytest.mark.parametrize("unit", ["1", "0.25", "64"])
def test_units_of_costs_leave_the_end_of_an_episode_where_it_is(unit):
    class Full(Stove):
        def step(self, action):
            return super().step(np.ones(1))  # each step costs 1

    lengths = []
    run = UCP(Full, method="ppo-et", budget=3, cost_units=unit, num_envs=2, ppo={"stagger": False})
    run.learn(40, show=False, on_episode=lambda some: lengths.extend(some.lengths.tolist()))
    assert set(lengths) == {4}  # the fourth cost is the first above 3
