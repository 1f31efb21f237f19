"""Spending midway, and what the rest of an episode may cost."""

import numpy as np
import pytest
import torch

from ucpo import UCP, load
from ucpo.errors import UsageError
from ucpo.learners.networks import Critics
from ucpo.policies.controller import RemainingCost, evenly
from ucpo.policies.critics import load_critics, save_critics, save_small
from ucpo.policies.zoo import adding
from ucpo.storage.names import CRITICS_FILE, POLICY_FILE


@pytest.fixture
def agent():
    return UCP("Courier-v0", env_steps=100, num_envs=2)


@pytest.fixture
def saved(agent, tmp_path):
    policy = agent.policy()
    policy.save(tmp_path / POLICY_FILE)
    save_critics(policy.critics, policy.info, tmp_path / CRITICS_FILE)
    return tmp_path


def acting(controller):
    """What the policy is shown whenever it acts."""
    seen = []
    controller._policy.act = lambda obs, stock: (
        seen.append(stock[0].tolist()) or np.zeros((1, 1), np.float32)
    )
    return seen


def test_what_is_given_midway_is_there_at_once(agent):
    controller = agent.controller(7.0)
    seen = acting(controller)
    controller.act(np.zeros(2))
    controller.record(2.0)
    controller.spend(3.0)
    controller.act(np.zeros(2))
    controller.spend(-4.5)
    controller.act(np.zeros(2))
    assert seen == [[-7.0], [-8.0], [-3.5]]
    assert (controller.budgets.tolist(), controller.spent.tolist()) == ([5.5], [2.0])
    assert controller.remaining.tolist() == [3.5]


def test_spending_equals_having_had_that_budget_from_the_start(agent):
    """Whatever was spent before, the policy sees the stock of the other budget."""
    one, other = agent.controller(5.0), agent.controller(12.0)
    for controller in (one, other):
        controller.record(1.0)
    one.spend(7.0)
    one.record(2.0), other.record(2.0)
    assert one._stock.tolist() == other._stock.tolist()
    one.reset(5.0)
    assert one.remaining.tolist() == [5.0]


def test_a_discounted_stock_grows_with_what_is_given():
    """UCP-DS: discount**t times the stock stays the discounted cost so far minus the budget."""
    policy = UCP("Courier-v0", method="ucp-ds", gamma=0.9, env_steps=100, num_envs=2).policy()
    assert policy.info.stock_discount < 1.0
    controller, fuller = policy.controller(5.0), policy.controller(8.0)
    for each in (controller, fuller):
        for cost in (1.0, 0.0, 2.0):
            each.record(cost)
    controller.spend(3.0)
    assert controller._stock == pytest.approx(fuller._stock, rel=1e-5)


@pytest.mark.parametrize(
    ("extra", "why"),
    [
        (float("nan"), "finite number"),
        (float("inf"), "finite number"),
        ([1.0, 2.0], "one for each of near_misses"),
        (16.0, "more than the largest budget trained for"),
        (-5.5, "take at most 5"),
    ],
)
def test_impossible_extras_are_refused_and_change_nothing(agent, extra, why):
    controller = agent.controller(5.0)
    with pytest.raises(UsageError, match=why):
        controller.spend(extra)
    assert controller.remaining.tolist() == [5.0]
    assert controller._stock.tolist() == [-5.0]


def test_more_than_was_trained_for_needs_to_be_allowed(agent):
    controller = agent.policy().controller(5.0, extrapolate=True)
    controller.spend(100.0)
    assert controller.remaining.tolist() == [105.0]


def test_a_prediction_is_that_of_the_critics_where_the_episode_stands(agent):
    controller = agent.controller(7.0)
    with pytest.raises(UsageError, match="call act before"):
        controller.remaining_cost()
    action = controller.decide(np.array([0.2, 0.4]))
    said = controller.remaining_cost()
    inputs = (torch.tensor([[0.2, 0.4]]), torch.tensor([[-7.0]]), torch.as_tensor(action[None]))
    with torch.no_grad():
        quantiles = agent.policy().critics(*inputs)[Critics.REWARD :, 0]
    expected = quantiles.sort(-1).values.clamp(min=0.0).double().numpy()
    assert said.quantiles == pytest.approx(expected)
    assert said.mean == pytest.approx(expected.mean(-1))
    controller.spend(3.0)
    assert controller.remaining_cost().remaining.tolist() == [10.0]


def test_probabilities_count_the_quantiles_that_fit_into_what_is_left():
    quantiles = np.array([[0.0, 1.0, 2.0, 3.0], [0.0, 0.0, 0.0, 9.0]])
    cost = RemainingCost(quantiles, np.array([1.6, 3.0]))
    assert cost.holds.tolist() == [0.75, 0.75]  # 2 counts as 1.6: costs are mostly whole numbers
    assert cost.quantile(0.5).tolist() == [1.5, 0.0]
    assert cost.quantile(1.0).tolist() == [3.0, 9.0]
    assert RemainingCost(quantiles, np.array([-0.1, 0.0])).holds.tolist() == [0.0, 0.75]
    with pytest.raises(UsageError, match="between 0 and 1"):
        cost.quantile(1.5)


def test_even_costs_are_scaled_to_the_steps_that_are_left():
    """A cost of c at every step: c / (1 - gamma) discounted and without end, 40 c in 40 steps."""
    c, gamma = 0.3, 0.99
    assert c / (1 - gamma) * evenly(40, np.array([gamma])) == pytest.approx([40 * c])
    assert evenly(40, np.array([1.0])).tolist() == [1.0]


def test_a_loaded_policy_predicts_with_the_critics_beside_it(agent, saved):
    obs = np.array([0.2, 0.4])
    predictions = []
    for policy in (agent.policy(), load(saved), load(saved / POLICY_FILE)):
        controller = policy.controller(4.0)
        controller.act(obs)
        predictions.append(controller.remaining_cost(steps_left=5).quantiles)
    assert np.array_equal(predictions[0], predictions[1])
    assert np.array_equal(predictions[0], predictions[2])
    (saved / CRITICS_FILE).unlink()
    controller = load(saved).controller(4.0)
    controller.act(obs)
    with pytest.raises(UsageError, match="there are no critics"):
        controller.remaining_cost()


def test_small_critics_predict_the_same_to_a_tolerance(saved):
    policy = load(saved)
    small = saved / "small.safetensors"
    off = adding.add_critics(saved, policy, small)
    assert 0.0 < off < adding.TOLERANCE
    assert small.stat().st_size < (saved / CRITICS_FILE).stat().st_size / 4
    with pytest.raises(UsageError, match="another moment"):
        load_critics(small, type(policy.info)(**{**vars(policy.info), "updates": 7}))


def test_critics_too_large_for_half_precision_are_refused(agent, saved):
    critics = agent.policy().critics
    with torch.no_grad():
        critics.body.layers.flat.mul_(1e6)
    save_critics(critics, load(saved).info, saved / CRITICS_FILE)
    with pytest.raises(UsageError, match="NaN or infinity"):
        adding.add_critics(saved, load(saved), saved / "small.safetensors")


def test_a_policy_itself_must_be_of_single_precision(agent, saved):
    save_small(agent.policy().critics, agent.policy().info, saved / POLICY_FILE)
    with pytest.raises(UsageError, match="not a policy"):
        load(saved)
