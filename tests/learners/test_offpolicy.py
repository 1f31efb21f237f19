"""SAC and TD3: equations, reductions, and traps others fell into."""

import dataclasses
import logging

import numpy as np
import pytest
import torch

from tests.learners.test_replay import step
from ucpo.config.assembly import make_grid, make_learner
from ucpo.config.files import resolve
from ucpo.envs.interface import Episodes, TaskSpec
from ucpo.envs.shaping import Penalty, Saute, all_or_nothing
from ucpo.errors import UsageError
from ucpo.learners.behaviours import Proposal
from ucpo.learners.compiled.by_hand import ByHand
from ucpo.learners.networks import Sample
from ucpo.learners.offpolicy import Graph, actor_loss, bellman_target, shaped, squared_loss
from ucpo.learners.replay import Batch

SPEC = TaskSpec("Test", 3, (-1.0, -1.0), (1.0, 1.0), ("cost",), None)
TWO = TaskSpec("Test", 3, (-1.0, -1.0), (1.0, 1.0), ("first", "second"), None)
SMALL = {
    "networks": {"hidden": [16, 16], "stock_scale": 10.0},
    "replay": {"n_step": 1, "batch": 32, "capacity": 1000},
    "random_steps": 0,
    "env_steps": 1000,
    "multiplier": {"start": 0},
}
LEARNERS = ("sac", "td3")
NONE = np.zeros(0)


def make(method="sac-lag", spec=SPEC, **overrides):
    single = any(word in method for word in ("lag", "pid"))
    options = {**SMALL, **({"budget": "25"} if single else {"budget_range": "0:30"}), **overrides}
    config = resolve(
        "Test", method=method, preset="swift-offpolicy-default", cost_units="1", **options
    )
    return make_learner(config, spec, make_grid(config, spec), np.random.default_rng(0))


def by_equations(agent):
    """Let an agent learn by the graph, so that its networks can be made to say anything."""
    agent._gradients = Graph(agent.behaviour, agent.critics, agent.target_critics)
    return agent


def batch(rows=32, costs=1, seed=0, **changes):
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=generator)

    made = Batch(
        obs=normal(rows, 3),
        stock=normal(rows, costs) * 5.0 - 5.0,
        action=torch.tanh(normal(rows, 2)),
        initial_stock=-torch.randint(0, 31, (rows, costs), generator=generator).float(),
        reward=normal(rows),
        costs=normal(rows, costs).abs(),
        successor=normal(rows, 3),
        successor_stock=normal(rows, costs) * 5.0 - 5.0,
        discount=torch.full((rows,), 0.9),
        cost_discount=torch.full((rows,), 0.9),
    )
    return dataclasses.replace(made, **changes)


def remembered(agent, rows=8, cost=1.0, reward=1.0, left=None):
    """An agent with something to remember, by as many iterations of 8 environments.

    What is left of their budgets is 0 to 20 units, or the number given.
    """
    generator = np.random.default_rng(0)
    C = len(agent.grid.levels)
    for row in range(rows):
        obs = generator.normal(size=(8, 3)).astype(np.float32)
        stock = generator.uniform(-20, 0, (8, C)).astype(np.float32)
        stock = stock if left is None else np.full_like(stock, -left)
        one = dataclasses.replace(
            step(0.0, n=8, reward=reward, end="terminated" if row % 3 == 2 else None),
            successor=obs + 1.0,
            successor_stock=stock + np.float32(cost),
            initial_stock=stock - 3.0,
            costs=np.full((8, C), cost),
        )
        agent.remember(obs, stock, agent.act(obs, stock), one)
    return agent


def finished(*costs, budget=25.0):
    """Episodes that cost so much, one kind of cost."""
    k = len(costs)
    zeros = np.zeros(k, np.int64)
    initial, paid = np.full((k, 1), -budget, np.float32), np.array(costs, float).reshape(k, 1)
    return Episodes(initial, zeros * 1.0, paid, zeros, zeros, zeros)


def weights(agent, *names):
    modules = [getattr(agent, name) for name in names or ("actor", "critics", "target_critics")]
    return [w.detach().clone() for module in modules for w in module.parameters()]


def same(one, two):
    return all(torch.equal(a, b) for a, b in zip(one, two, strict=True))


# --- equations ---


def test_the_actor_weighs_the_worked_example_of_sac():
    twins = torch.tensor([[5.0], [4.0]])[: make("sac").behaviour.believed].amin(0)
    penalty = 0.2 * torch.tensor([-1.0])  # alpha 0.2, log probability -1
    loss = actor_loss(twins, torch.tensor([[2.0]]), torch.tensor([[3.0]]), penalty)
    assert loss.item() == pytest.approx((-0.2 - 4.0 + 6.0) / 4.0) == pytest.approx(0.45)


def test_the_actor_weighs_the_worked_example_of_td3_by_its_first_critic():
    twins = torch.tensor([[5.0], [4.0]])[: make("td3").behaviour.believed].amin(0)
    loss = actor_loss(twins, torch.tensor([[2.0]]), torch.tensor([[3.0]]), torch.zeros(1))
    assert loss.item() == pytest.approx((-5.0 + 6.0) / 4.0) == pytest.approx(0.25)


@pytest.mark.parametrize(("learner", "expected"), [("sac", 0.45), ("td3", 0.25)])
def test_a_whole_step_of_the_actor_makes_the_worked_example(learner, expected):
    agent = make(f"{learner}-lag", entropy={"weight": 0.2, "rate": 0.0})
    agent.multiplier.parameters[0][:] = 3.0
    agent.critics.forward = lambda obs, stock, action: (
        torch.tensor([5.0, 4.0, 2.0]).reshape(3, 1, 1).expand(3, len(obs), 1)
        + 0.0 * action.sum(-1)[None, :, None]
    )
    sample = agent.actor.sample
    agent.actor.sample = lambda *a: sample(*a)._replace(log_prob=sample(*a).log_prob * 0.0 - 1.0)
    by_equations(agent)
    assert agent._improve_actor(batch())["actor_loss"].item() == pytest.approx(expected)


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("next_action", ["sampled", "mean"])
@pytest.mark.parametrize("stock", ["shown", "hidden"])
def test_gradients_written_down_arrive_where_those_of_the_equations_do(learner, next_action, stock):
    """Two costs, prices by budget, units, a regulariser, limited norms."""
    options = {
        "starts": "grid",
        "budget": (),
        "budget_range": ("first=0:25", "second=0:5"),
        "stock": stock,
        "critic": {
            "reward_unit": 3.0,
            "cost_unit": 0.5,
            "clip": 0.1,
            "polyak": 0.5,
            "next_action": next_action,
        },
        "actor": {"regulariser": 0.05, "clip": 0.1},
        "entropy": {"weight": 0.2, "rate": 1e-3},
    }
    by_hand, by_graph = (remembered(make(f"{learner}-lag", TWO, **options)) for _ in range(2))
    by_equations(by_graph)
    assert isinstance(by_hand._gradients, ByHand)
    for agent in (by_hand, by_graph):
        for weight in agent.actor.parameters():
            weight.data += 0.1  # ahead of a target actor
    start, said = weights(by_hand), []
    for agent in (by_hand, by_graph):
        for price, table in zip((2.0, 0.3), agent.multiplier.parameters, strict=True):
            table[:] = torch.linspace(0.0, 2.0 * price, len(table))
        said.append([agent.update() for _ in range(8)])
    for one, two, first in zip(weights(by_hand), weights(by_graph), start, strict=True):
        torch.testing.assert_close(one, two, rtol=0.0, atol=2e-6)
        assert (one - first).abs().max() > 1e-3
    for one, two in zip(*said, strict=True):
        assert set(one) == set(two)
        for name in one:
            torch.testing.assert_close(one[name], two[name], rtol=1e-4, atol=1e-5)


def test_networks_without_compiled_passes_learn_by_the_equations():
    agent = make("sac-lag", networks={**SMALL["networks"], "stock_features": 4}, stock="shown")
    assert isinstance(agent._gradients, Graph)
    assert torch.isfinite(remembered(agent).update()["actor_loss"])


def test_several_costs_are_summed_at_their_own_prices():
    loss = actor_loss(
        reward=torch.zeros(1),
        costs=torch.tensor([[1.0, 3.0]]),
        price=torch.tensor([[10.0, 100.0]]),
        penalty=torch.zeros(1),
    )
    assert loss.item() == pytest.approx((10.0 + 300.0) / 111.0)


def test_targets_add_the_window_and_the_discounted_future():
    target = bellman_target(torch.tensor([10.0, 20.0]), torch.tensor([0.5, 0.0]), torch.ones(2))
    assert target.tolist() == [10.5, 20.0]


def test_the_critics_loss_is_the_squared_error_in_their_own_units():
    values, targets = torch.tensor([[1.0, 3.0], [0.0, 40.0]]), torch.zeros(2, 2)
    assert squared_loss(values, targets, torch.tensor([1.0, 10.0])).tolist() == [5.0, 8.0]


@pytest.mark.parametrize("learner", LEARNERS)
def test_targets_take_the_smaller_reward_critic_for_both_and_the_own_one_for_each_cost(learner):
    budget, plain = ("first=25", "second=5"), {"weight": 0.0, "rate": 0.0}
    agent = by_equations(make(f"{learner}-lag", TWO, budget=budget, entropy=plain))
    future = torch.tensor([7.0, 5.0, 3.0, 2.0]).reshape(4, 1, 1).expand(4, 32, 1)
    agent.target_critics.forward = lambda *inputs: future
    data = batch(costs=2)
    targets = agent._targets(data)
    assert targets.shape == (4, 32)
    for critic in (0, 1):
        torch.testing.assert_close(targets[critic], data.reward + 0.9 * 5.0)
    torch.testing.assert_close(targets[2], data.costs[:, 0] + 0.9 * 3.0)
    torch.testing.assert_close(targets[3], data.costs[:, 1] + 0.9 * 2.0)


# --- reductions ---


def trained(agent, updates=20, left=None):
    remembered(agent, left=left)
    for _ in range(updates):
        agent.update()
    return agent


@pytest.mark.parametrize("learner", LEARNERS)
def test_a_fixed_price_of_nothing_is_the_plain_learner_weight_for_weight(learner):
    plain = trained(make(learner, budget="25"))
    price = {"start": 0, "kind": "fixed", "initial": 0.0}
    assert same(weights(plain), weights(trained(make(f"{learner}-lag", multiplier=price))))
    priced = {"start": 0, "kind": "fixed", "initial": 1.0}
    assert not same(weights(plain), weights(trained(make(f"{learner}-lag", multiplier=priced))))


@pytest.mark.parametrize("learner", LEARNERS)
def test_without_a_price_costs_change_nothing_but_their_own_critic(learner):
    """So the plain learner is one that knows of no costs."""
    cheap, dear = (make(learner) for _ in range(2))
    data = batch()
    for agent, costs in ((cheap, data.costs), (dear, data.costs * 50.0)):
        agent._sample = lambda costs=costs: dataclasses.replace(data, costs=costs)
        for _ in range(4):
            agent.update()
    assert same(weights(cheap, "actor"), weights(dear, "actor"))
    one, two = weights(cheap, "critics")[0], weights(dear, "critics")[0]
    assert torch.equal(one[:2], two[:2])
    assert not torch.equal(one[2], two[2])


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("shaping", ["saute", "jiang", "et"])
@pytest.mark.parametrize(("left", "plain"), [(1e9, True), (0.5, False)])
def test_out_of_reach_a_budget_is_one_more_constant_input_to_the_plain_learner(
    learner, shaping, left, plain
):
    alone = trained(make(learner, stock="shown", budget="25"), left=left)
    under = trained(make(f"{learner}-{shaping}", budget="25"), left=left)
    assert same(weights(alone), weights(under)) == plain


# --- what tells SAC from TD3 ---


def test_sac_counts_on_the_actor_as_it_is_now_and_td3_on_its_target():
    for learner, moves in (("sac", True), ("td3", False)):
        agent, data = make(learner), batch()
        agent._noise.manual_seed(0)
        before = agent._targets(data)
        for weight in agent.actor.parameters():
            weight.data += 0.3
        agent._noise.manual_seed(0)
        assert torch.allclose(before, agent._targets(data)) != moves


def test_noise_of_td3_stays_within_its_limit_and_actions_within_theirs():
    agent = make("td3", offpolicy={"smoothing": 9.0, "smoothing_limit": 0.5, "exploration": 9.0})
    data = batch(rows=200)
    quiet = agent.behaviour.target_actor.mode(data.obs, data.stock)
    ahead = agent.behaviour.foresee(data.obs, data.stock, agent._noise)
    assert (ahead.actions - quiet).abs().max().item() == pytest.approx(0.5, abs=1e-6)
    assert ahead.actions.abs().max() <= 1.0
    explored = agent.behaviour.explore(data.obs, data.stock, agent._noise, 0)
    assert explored.abs().max() == 1.0
    assert set(explored.unique().tolist()) >= {-1.0, 1.0}


def test_td3_explores_around_its_action_by_the_deviation_asked_for():
    agent = make("td3", offpolicy={"exploration": 0.1})
    data = batch(rows=4000)
    action = agent.actor.mode(data.obs, data.stock)
    noise = agent.behaviour.explore(data.obs, data.stock, agent._noise, 0) - action
    assert noise.std().item() == pytest.approx(0.1, rel=0.1)


def test_td3s_noise_falls_by_the_schedule_of_the_run():
    noise = {"exploration": 0.4, "final_exploration": 0.1}
    agent = make("td3", offpolicy=noise, decay_start=100, decay_steps=200)
    data = batch(rows=4000)
    action = agent.actor.mode(data.obs, data.stock)
    for env_steps, deviation in ((100, 0.4), (200, 0.2), (300, 0.1), (900, 0.1)):
        noise = agent.behaviour.explore(data.obs, data.stock, agent._noise, env_steps) - action
        assert noise.std().item() == pytest.approx(deviation, rel=0.1)


def test_td3_leaves_the_outputs_it_does_not_use_alone():
    agent = make("td3")
    before = agent.actor.body.layers.stack()[-1][0][..., 2:].clone()
    trained(agent)
    assert torch.equal(agent.actor.body.layers.stack()[-1][0][..., 2:], before)


@pytest.mark.parametrize("learner", LEARNERS)
def test_actor_and_targets_wait_while_the_critics_learn(learner):
    agent = remembered(make(learner, offpolicy={"delay": 3}))
    calls = []
    improve = agent._improve_actor
    agent._improve_actor = lambda data: calls.append(data) or improve(data)
    start = weights(agent, "actor", "target_critics")
    for update in range(1, 7):
        agent.update()
        assert len(calls) == update // 3
        assert same(start, weights(agent, "actor", "target_critics")) == (update < 3)


def test_targets_follow_by_their_share_and_td3s_actor_too():
    agent = trained(make("td3", critic={"polyak": 1.0}, actor={"polyak": 1.0}))
    assert same(weights(agent, "critics"), weights(agent, "target_critics"))
    target = list(agent.behaviour.target_actor.parameters())
    assert same(weights(agent, "actor"), target)


@pytest.mark.parametrize("learner", LEARNERS)
def test_costs_may_count_on_the_mean_action_while_rewards_do_not(learner):
    """As OmniSafe has it: the actor as it is now, without noise."""
    agent = make(f"{learner}-lag", critic={"next_action": "mean"})
    for weight in agent.actor.parameters():
        weight.data += 0.1  # ahead of a target actor
    ahead = agent.behaviour.foresee(batch().successor, batch().stock, agent._noise)
    assert ahead.actions.shape == (3, 32, 2)
    mean = agent.actor.mode(batch().successor, batch().stock)
    torch.testing.assert_close(ahead.actions[2], mean)
    assert torch.equal(ahead.actions[0], ahead.actions[1])
    assert not torch.allclose(ahead.actions[0], mean)
    same_for_all = make(f"{learner}-lag")
    ahead = same_for_all.behaviour.foresee(batch().successor, batch().stock, agent._noise)
    assert ahead.actions.shape == (32, 2)


# --- traps ---


def louder(agent, factor=1e3):
    original = type(agent.actor).sample

    def sample(obs, stock, generator):
        one = original(agent.actor, obs, stock, generator)
        return Sample(one.action, one.log_prob * factor, one.mean, one.log_std)

    agent.actor.sample = sample
    return agent


def test_entropy_is_no_part_of_a_cost():
    certain = {"entropy": {"weight": 5.0, "rate": 0.0}}
    quiet, loud = (by_equations(make("sac-lag", **certain)) for _ in range(2))
    louder(loud)
    one, two = quiet._targets(batch()), loud._targets(batch())
    assert torch.equal(one[2], two[2])
    assert not torch.allclose(one[0], two[0])


def test_there_is_one_critic_of_each_cost_and_no_minimum():
    assert make("sac-lag").critics.body.members == 3
    agent = make("sac-lag", TWO, budget=("first=25", "second=5"))
    assert agent.critics.body.members == 4


@pytest.mark.parametrize("learner", LEARNERS)
def test_a_cost_of_1_with_probability_0_3_is_expected_as_0_3(learner):
    """A single quantile would be the median: rare costs would count nothing."""
    agent = make(learner, critic={"rate": 3e-3})
    ended = torch.zeros(400)
    data = batch(400, discount=ended, cost_discount=ended, obs=torch.zeros(400, 3))
    rare = (torch.arange(400) % 10 < 3).float()[:, None]
    data = dataclasses.replace(
        data, costs=rare, action=torch.zeros(400, 2), stock=torch.zeros(400, 1), reward=rare[:, 0]
    )
    for _ in range(300):
        agent._improve_critics(data)
    values = agent.critics(data.obs, data.stock, data.action)[:, 0, 0]
    assert values.tolist() == pytest.approx([0.3] * 3, abs=0.02)


@pytest.mark.parametrize("learner", LEARNERS)
def test_prices_are_those_of_the_episodes_initial_stock(learner):
    agent = make(f"{learner}-lag", starts="grid", budget=(), budget_range="0:30")
    agent.multiplier.parameters[0][:] = torch.arange(31.0)
    asked = []
    original = agent.multiplier.value
    agent.multiplier.value = lambda stock: asked.append(stock) or original(stock)
    data = batch()
    agent._improve_actor(data)
    assert torch.equal(asked[0], data.initial_stock)
    assert original(data.initial_stock)[:, 0].tolist() == (30.0 + data.initial_stock[:, 0]).tolist()


@pytest.mark.parametrize("ways", [ByHand, Graph])
def test_rows_of_different_budgets_have_each_their_own_price(ways):
    """At prices of 0 and of millions in one batch: minus the reward of one, the other's cost."""
    agent = make("td3-lag")
    price = torch.tensor([[0.0], [1e9]])
    gradients = ways(agent.behaviour, agent.critics, agent.target_critics)
    loss, values, _ = gradients.of_actor(batch(2), price, agent._noise)
    expected = (-values[0, 0] + values[2, 1]) / 2.0
    assert loss.item() == pytest.approx(expected.item(), abs=1e-5)


@pytest.mark.parametrize("learner", LEARNERS)
def test_a_time_limit_bootstraps_from_the_stock_the_episode_ended_with(learner):
    """Others reset the stock first, and count on a full budget at every end."""
    agent = by_equations(make(f"{learner}-saute", entropy={"weight": 0.0, "rate": 0.0}))
    agent.target_critics.forward = lambda obs, stock, action: stock.expand(3, -1, 1)
    obs, stock = np.zeros((8, 3), np.float32), np.full((8, 1), -4.0, np.float32)
    end = dataclasses.replace(
        step(0.0, n=8, reward=0.0, stock=-3.0, end="truncated"), successor=obs, costs=stock * 0.0
    )
    agent.remember(obs, stock, np.zeros((8, 2), np.float32), end)
    targets = agent._targets(agent._sample())
    assert targets.flatten().tolist() == pytest.approx([0.99 * -3.0] * 96)


@pytest.mark.parametrize("learner", LEARNERS)
def test_what_terminates_and_runs_out_of_time_at_once_has_no_future(learner):
    agent = make(learner)
    obs, stock = np.zeros((8, 3), np.float32), np.zeros((8, 1), np.float32)
    end = dataclasses.replace(
        step(0.0, n=8, reward=1.0, cost=2.0, end="terminated"),
        successor=obs,
        truncated=np.ones(8, np.bool_),
    )
    agent.remember(obs, stock, np.zeros((8, 2), np.float32), end)
    targets = agent._targets(agent._sample())
    assert targets[:, 0].tolist() == [1.0, 1.0, 2.0]


def test_exactly_on_budget_is_within_it():
    """Saute's reward for (stock, cost): others allow 24 of 25."""
    stock = torch.tensor([[-1.0], [0.0], [0.0], [5.0]])
    after = stock + torch.tensor([[1.0], [0.0], [1.0], [0.0]])
    data = batch(4, stock=stock, successor_stock=after, reward=torch.full((4,), 7.0))
    assert shaped(data, Saute(2.0)).tolist() == [7.0, 7.0, -2.0, -2.0]


def test_rewards_are_shaped_by_the_budget_they_are_seen_under():
    """Relabelled or not: the replay keeps what the task paid, and shaping comes last."""
    replay = {**SMALL["replay"], "relabel": 1.0}
    agent = remembered(make("sac-saute", replay=replay, shaping={"penalty": 9.0}), reward=4.0)
    seen = agent._sample()
    spent = seen.successor_stock[:, 0] > 0.0
    assert 0 < spent.sum() < len(spent)
    assert set(seen.reward[spent].tolist()) == {-9.0}
    assert set(seen.reward[~spent].tolist()) == {4.0}
    assert set(agent.replay.sample(200, np.random.default_rng(0)).reward.tolist()) == {4.0}


def test_everything_spent_is_charged_in_the_step_that_exceeds():
    """Budget 2 and costs 1, 2, 1: charged 0, 3, 1."""
    start = torch.tensor([[-2.0], [-1.0], [1.0]])
    after = start + torch.tensor([[1.0], [2.0], [1.0]])
    data = batch(3, stock=start, successor_stock=after, initial_stock=torch.full((3, 1), -2.0))
    charged = data.reward - shaped(data, Penalty(1.0, all_or_nothing))
    assert charged.tolist() == pytest.approx([0.0, 3.0, 1.0])


def test_budgets_look_different_to_saute_and_a_budget_of_0_like_any_other():
    """Divided by its own budget, every start would look like 1, and 0 like nothing at all."""
    agent = make("sac-saute")
    starts = torch.tensor([[-5.0], [-25.0], [0.0]])
    modes = agent.actor.mode(torch.zeros(3, 3), starts)
    assert torch.isfinite(modes).all()
    assert len(modes[:, 0].unique()) == 3


def test_where_prices_go_depends_on_the_episodes_alone():
    """Not on environments, which let several finish at once, nor on updates in between."""
    costs = [30.0, 90.0, 10.0, 26.0, 25.0, 80.0, 0.0, 31.0]
    for method in ("sac-lag", "td3-pid"):
        alone, together = (remembered(make(method)) for _ in range(2))
        for cost in costs:
            alone.observe(finished(cost))
            for _ in range(3):
                alone.update()
        together.observe(finished(*costs[:5]))
        together.update()
        together.observe(finished(*costs[5:]))
        assert alone.prices()[0].tolist() == together.prices()[0].tolist()
        assert alone.prices()[0].item() > 0.001


def test_while_no_episode_finishes_prices_stay_to_the_bit():
    """Adam's momentum, above all, must not move on."""
    agent = remembered(make("sac-lag"))
    agent.observe(finished(90.0, 80.0))
    state = {key: value.tobytes() for key, value in agent.multiplier.state().items()}
    for _ in range(50):
        agent.observe(finished())
        agent.update()
    after = {key: value.tobytes() for key, value in agent.multiplier.state().items()}
    assert after == state


def test_prices_may_move_with_every_update_as_omnisafes_do():
    agent = remembered(make("sac-lag", offpolicy={"prices": "update"}))
    agent.observe(finished(90.0))
    first = agent.prices()[0].item()
    moved = [agent.update() and agent.prices()[0].item() for _ in range(3)]
    assert first < moved[0] < moved[1] < moved[2]
    assert moved[2] - moved[1] == pytest.approx(
        agent.multiplier._optimiser.defaults["lr"], rel=0.01
    )


def test_a_jump_of_costs_shows_in_the_derivative_however_rare_episodes_are():
    gains = {"start": 0, "gains": [0.0, 0.0, 1.0]}
    agent = remembered(make("td3-pid", multiplier={**gains, "initial": 0.0, "window": 1}))
    for cost in (10.0, 10.0, 200.0):
        for _ in range(100):
            agent.update()
        before = agent.prices()[0].item()
        agent.observe(finished(cost))
    assert agent.prices()[0].item() > before + 5.0


def test_prices_first_move_after_the_environment_steps_stated():
    agent = make("sac-lag", multiplier={"start": 64})
    agent.env_steps = 63
    agent.observe(finished(90.0))
    assert agent.prices()[0].tolist() == pytest.approx([0.001])
    agent.env_steps = 64
    agent.observe(finished(90.0))
    assert agent.prices()[0].item() > 0.01


def test_environment_steps_are_counted_over_all_environments():
    agent = remembered(make("td3"), rows=8)
    assert agent.env_steps == 64
    hold = dataclasses.replace(step(0.0, n=8, env_steps=5), successor=np.zeros((8, 3), np.float32))
    agent.remember(*(np.zeros((8, k), np.float32) for k in (3, 1, 2)), hold)
    assert agent.env_steps == 64 + 40


def test_the_unit_of_the_cost_critics_is_nothing_to_prices_and_little_to_predictions():
    """Others standardise costs, and a limit of 25 then means something else."""
    agents = [make("sac-lag", critic={"cost_unit": unit, "rate": 3e-3}) for unit in (1.0, 50.0)]
    ended = torch.zeros(32)
    data = batch(discount=ended, cost_discount=ended)
    data = dataclasses.replace(data, costs=torch.full((32, 1), 70.0))
    for agent in agents:
        agent.observe(finished(60.0))
        for _ in range(800):
            agent._improve_critics(data)
    assert agents[0].prices()[0].tolist() == agents[1].prices()[0].tolist()
    for agent in agents:
        value = agent.critics(data.obs, data.stock, data.action)[2].mean().item()
        assert value == pytest.approx(70.0, rel=0.1 if agent is agents[1] else 1.0)


@pytest.mark.parametrize("learner", LEARNERS)
def test_what_is_saved_acts_without_noise_and_has_no_critics_to_calibrate(learner):
    agent = trained(make(learner, networks={**SMALL["networks"], "normalise": True}))
    policy = agent.policy()
    obs, stock = batch().obs.numpy(), batch().stock.numpy()
    assert policy.critics is None
    assert np.array_equal(policy.act(obs, stock), policy.act(obs, stock))
    seen = agent.actor.mode(agent.normaliser(batch().obs), batch().stock)
    np.testing.assert_allclose(policy.act(obs, stock), seen.detach().numpy(), atol=1e-5)


def test_a_penalty_that_pays_is_doubted(caplog):
    for reward, method, words in (
        (-3.0, "sac-saute", "exceeding a budget pays"),
        (-0.5, "td3-et", "ending an episode"),
    ):
        agent = remembered(make(method), reward=reward)
        with caplog.at_level(logging.WARNING, "ucpo"):
            list(agent.improve())
            list(agent.improve())
        assert [words in record.message for record in caplog.records] == [True]
        caplog.clear()


def test_random_actions_come_first_and_nothing_is_learned_from_them_alone():
    agent = make("td3", random_steps=64)
    assert list(agent.improve()) == []
    remembered(agent)
    assert list(agent.improve()) == []
    agent.act(np.zeros((8, 3), np.float32), np.zeros((8, 1), np.float32))
    assert len(list(agent.improve())) == 1


def test_random_actions_reach_as_far_as_actions_do_and_no_further():
    """Others scale them twice, so that nothing is ever tried with force."""
    agent = make("td3", random_steps=64)
    actions = agent.act(np.zeros((2000, 3), np.float32), np.zeros((2000, 1), np.float32))
    assert (actions.min(), actions.max()) == pytest.approx((-1.0, 1.0), abs=0.01)
    assert np.abs(actions).max() <= 1.0
    assert actions.std() == pytest.approx(1.0 / np.sqrt(3.0), rel=0.05)


def test_metrics_are_those_announced():
    for method in LEARNERS:
        agent = remembered(make(method))
        said = agent.update() | agent.update()
        assert set(said) == set(agent.metrics)
        assert all(torch.isfinite(value) for value in said.values())


@pytest.mark.parametrize("learner", LEARNERS)
def test_an_update_keeps_to_the_device_of_its_networks(learner):
    """Meta tensors hold no numbers but refuse to meet tensors of the CPU, as CUDA's do."""
    fixed = {"weight": 0.1, "rate": 0.0}
    agent = make(f"{learner}-lag", device="meta", critic={"next_action": "mean"}, entropy=fixed)
    generator = np.random.default_rng(0)
    for part in (agent.replay._before, agent.replay._after, agent.replay._gains):
        part[:64] = generator.normal(size=part[:64].shape)
    agent.replay._rows_written = 64
    for metric in (agent.update() | agent.update()).values():
        assert metric.device.type in ("meta", "cpu")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"method": "sac-lag", "utility": "excess"}, "predicts mean costs"),
        ({"method": "td3-lag", "utility": "tail"}, "predicts mean costs"),
        ({"method": "sac-saute", "replay": {"n_step": 3}}, "n-step 1"),
        ({"method": "sac-jiang", "hold": 2}, "--hold 1"),
        ({"method": "sac-et", "replay": {"n_step": 1, "relabel": 0.5}}, "--replay.relabel 0"),
        ({"method": "sac-pid", "budget": (), "starts": "grid"}, "give --budget"),
        ({"method": "sac-lag", "multiplier": {"kind": "switch"}}, "has no switch"),
        ({"method": "sac", "actor": {"regulariser": 1.0, "final_regulariser": 0.1}}, "keeps its"),
        ({"method": "td3", "offpolicy": {"delay": 0}}, "delay must be at least 1"),
        ({"method": "td3", "offpolicy": {"smoothing": -1.0}}, "smoothing must be at least"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(options, words):
    with pytest.raises(UsageError, match=words):
        make(**options)


def test_a_proposal_of_td3_has_no_density():
    agent = make("td3")
    proposal = agent.behaviour.propose(batch().obs, batch().stock, agent._noise)
    assert isinstance(proposal, Proposal)
    assert not proposal.log_prob.any()
