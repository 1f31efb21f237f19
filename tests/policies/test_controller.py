import contextlib
import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from ucpo import UCP, load
from ucpo.errors import UsageError


@pytest.fixture
def agent():
    return UCP("Courier-v0", env_steps=100, num_envs=2)


@pytest.fixture
def policy_file(agent, tmp_path):
    agent.policy().save(tmp_path / "policy.safetensors")
    return tmp_path / "policy.safetensors"


def test_a_saved_policy_acts_as_the_one_saved(agent, policy_file):
    obs, stock = np.random.default_rng(0).random((5, 2)).astype(np.float32), np.full((5, 1), -3.0)
    expected = agent.policy().act(obs, stock)
    for place in (policy_file, policy_file.parent, str(policy_file)):
        assert np.array_equal(load(place).act(obs, stock), expected)
    assert load(policy_file).info == agent.policy().info


def test_the_policy_is_deterministic_and_the_mean(agent):
    obs, stock = np.zeros((1, 2), np.float32), np.zeros((1, 1), np.float32)
    mean, _ = agent.learner.actor(torch.from_numpy(obs), torch.from_numpy(stock))
    for _ in range(2):
        assert agent.policy().act(obs, stock) == pytest.approx(torch.tanh(mean).detach().numpy())


def test_a_controller_starts_at_minus_its_budget_and_keeps_the_account(agent):
    controller = agent.controller(7.3)
    seen = []
    controller._policy.act = lambda obs, stock: seen.append(stock.copy()) or np.zeros((1, 1))
    controller.act(np.zeros(2))
    controller.record(2.0)
    controller.record({"near_misses": 1.0})
    controller.act(np.zeros(2))
    assert [s.item() for s in seen] == pytest.approx([-7.3, -4.3])
    assert controller.remaining.tolist() == pytest.approx([4.3])
    controller.reset()
    assert controller.remaining.tolist() == [7.3]
    controller.reset(budget=2.0)
    assert controller.remaining.tolist() == [2.0]


def test_actions_come_back_in_the_environments_units(agent):
    policy = agent.policy()
    object.__setattr__(policy.info, "action_low", (0.0,))
    object.__setattr__(policy.info, "action_high", (10.0,))
    policy.act = lambda obs, stock: np.array([[0.5]])
    assert policy.controller(3.0).act(np.zeros(2)).tolist() == [7.5]


def test_budgets_between_levels_are_legal_and_those_outside_are_refused_or_warned_about(agent):
    assert agent.controller(3.7).remaining.tolist() == [3.7]
    with pytest.raises(UsageError, match="near_misses 0 to 20"):
        agent.controller(20.5)
    with pytest.warns(UserWarning, match="outside the range"):
        agent.policy().controller(20.5, extrapolate=True)


def test_the_usual_budgets_are_the_papers_where_they_were_trained_for():
    wide = UCP("Courier-v0", env_steps=100, budget_range="0:30")
    assert wide.policy().info.usual_budgets() == [[0.0], [5.0], [15.0], [25.0]]
    narrow = UCP("Courier-v0", env_steps=100, budget_range="2:8")
    assert narrow.policy().info.usual_budgets() == [[2.0], [4.0], [6.0], [8.0]]
    single = UCP("Courier-v0", env_steps=100, method="ucp-nr", budget="7")
    assert single.policy().info.usual_budgets() == [[7.0]]


@pytest.mark.parametrize("cost", [float("nan"), [1.0, 2.0], {"fines": 1.0}])
def test_costs_that_do_not_fit_are_refused(agent, cost):
    with pytest.raises(UsageError, match="near_misses"):
        agent.controller(3.0).record(cost)


def test_observations_of_another_size_are_refused(agent):
    with pytest.raises(UsageError, match="2 numbers, got 3"):
        agent.controller(3.0).act(np.zeros(3))


def test_a_missing_policy_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"policy\.safetensors"):
        load(tmp_path)


def test_files_that_are_no_policies_are_refused(policy_file, tmp_path):
    other = tmp_path / "other.safetensors"
    save_file({"a": torch.zeros(2)}, other)
    with pytest.raises(UsageError, match="not a policy"):
        load(other)
    save_file({"a": torch.zeros(2)}, other, metadata={"ucpo": json.dumps({"format": 99})})
    with pytest.raises(UsageError, match="another version"):
        load(other)
    policy_file.write_bytes(policy_file.read_bytes()[:-10])
    with pytest.raises(UsageError, match="damaged"):
        load(policy_file)


@settings(max_examples=60)
@given(data=st.data())
def test_mutated_files_load_as_policies_or_are_refused(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("fuzz")
    whole = folder / "policy.safetensors"
    UCP("Courier-v0", env_steps=100, num_envs=2, networks={"hidden": [4]}).policy().save(whole)
    content = bytearray(whole.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(content) - 1))
        content[place] = data.draw(st.integers(0, 255))
    whole.write_bytes(bytes(content))
    with contextlib.suppress(UsageError):
        load(whole)


def test_a_failed_save_keeps_the_earlier_policy(agent, policy_file, monkeypatch):
    before = policy_file.read_bytes()

    def full_disk(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full_disk)
    with pytest.raises(OSError, match="No space left"):
        agent.policy().save(policy_file)
    assert policy_file.read_bytes() == before
    assert list(policy_file.parent.glob("*.partial")) == []


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_observations_that_are_not_finite_are_refused_naming_the_entry(agent, bad):
    with pytest.raises(UsageError, match=r"entry 1 is -?(nan|inf)"):
        agent.controller(3.0).act(np.array([0.0, bad]))


def test_a_held_action_is_kept_for_as_many_steps_and_a_new_episode_decides_anew(agent):
    policy, answers = agent.policy(), iter([0.1, 0.2, 0.3, 0.4])
    policy.act = lambda obs, stock: np.array([[next(answers)]])
    controller = policy.controller(3.0, hold=3)
    seen = [controller.act(np.zeros(2)).item() for _ in range(4)]
    controller.reset()
    seen += [controller.act(np.zeros(2)).item() for _ in range(2)]
    # Courier's action is its speed: [-1, 1] is mapped to the bounds of the task.
    low, high = policy.info.action_low[0], policy.info.action_high[0]
    speeds = [low + (a + 1) / 2 * (high - low) for a in (0.1, 0.1, 0.1, 0.2, 0.3, 0.3)]
    assert seen == pytest.approx(speeds)
    every = policy.controller(3.0)
    assert every.act(np.zeros(2)).item() == pytest.approx(low + 1.4 / 2 * (high - low))
    with pytest.raises(UsageError, match="hold must be at least 1"):
        policy.controller(3.0, hold=0)


def test_a_held_action_is_not_changed_by_whoever_got_it(agent):
    controller = agent.policy().controller(3.0, hold=2)
    first = controller.act(np.zeros(2))
    expected = first.tolist()
    first += 5.0
    assert controller.act(np.zeros(2)).tolist() == expected


def test_a_policy_is_saved_under_a_path_given_as_text(agent, tmp_path):
    agent.policy().save(str(tmp_path / "mine.safetensors"))
    assert load(tmp_path / "mine.safetensors").info == agent.policy().info
