import dataclasses

import numpy as np
import pytest
import torch

from ucpo.config.assembly import make_grid, make_learner
from ucpo.config.files import resolve
from ucpo.envs.interface import Episodes, TaskSpec
from ucpo.errors import UsageError
from ucpo.learners.entropy import Entropy
from ucpo.learners.networks import Sample
from ucpo.learners.optimisation import Decay, polyak
from ucpo.learners.replay import Batch
from ucpo.learners.ucp import Graph, actor_loss, bellman_target, min_by_mean, squared_size
from ucpo.policies.critics import load_critics, save_critics
from ucpo.policies.policy import load
from ucpo.problem import EXCESS, MEAN, Constraint, Problem

SPEC = TaskSpec("Test", 3, (-1.0, -1.0), (1.0, 1.0), ("cost",), None)
SMALL = {
    "networks": {"hidden": [16, 16], "quantiles": 8, "stock_scale": 10.0},
    "replay": {"n_step": 1, "batch": 32, "capacity": 1000},
    "budget_range": "0:30",
    "env_steps": 1000,
    "multiplier": {"start": 0},
}


def make(spec=SPEC, **overrides):
    config = resolve("Test", cost_units="1", **{**SMALL, **overrides})
    generator = np.random.default_rng(0)
    return make_learner(config, spec, make_grid(config, spec), generator)


def by_equations(**overrides):
    """An agent whose networks can be made to say anything."""
    agent = make(**overrides)
    agent._gradients = Graph(
        agent.actor,
        agent.critics,
        agent.target_actor,
        agent.target_critics,
        problem=agent.problem,
        entropy=agent.entropy,
        expect_mean=agent.settings.next_action == "mean",
    )
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


def problem(utility=EXCESS, costs=1):
    return Problem(tuple(Constraint(f"c{i}", utility) for i in range(costs)))


# --- equations ---


def test_the_critic_with_the_smaller_mean_is_chosen_for_each_sample_with_all_its_quantiles():
    first = torch.tensor([[0.0, 10.0], [1.0, 1.0]])  # means 5 and 1
    second = torch.tensor([[4.0, 5.0], [0.0, 9.0]])  # means 4.5 and 4.5
    assert min_by_mean(torch.stack([first, second])).tolist() == [[4.0, 5.0], [1.0, 1.0]]


def test_targets_add_the_window_and_the_discounted_future():
    future = torch.tensor([[1.0, 3.0], [1.0, 3.0]])
    target = bellman_target(torch.tensor([10.0, 20.0]), torch.tensor([0.5, 0.0]), future)
    assert target.tolist() == [[10.5, 11.5], [20.0, 20.0]]


def test_rewards_and_costs_to_come_are_discounted_each_with_its_own():
    agent, nothing = make(), torch.zeros(32)
    data = batch(discount=nothing)
    reward, _, cost = agent._targets(data)
    assert (reward == data.reward[:, None]).all()
    assert (cost != data.costs).all()
    data = batch(cost_discount=nothing)
    reward, _, cost = agent._targets(data)
    assert (reward != data.reward[:, None]).all()
    assert (cost == data.costs).all()


def test_the_actor_weighs_reward_against_the_priced_excess_of_the_final_stock():
    loss = actor_loss(
        reward=torch.tensor([3.0]),
        costs=torch.tensor([[[1.0, 5.0]]]),
        stock=torch.tensor([[-3.0]]),
        price=torch.tensor([[4.0]]),
        problem=problem(),
        penalty=torch.tensor([0.5]),
    )
    # excess of -3 + 1 and -3 + 5 is 0 and 2: mean 1
    assert loss.item() == pytest.approx((0.5 - 3.0 + 4.0 * 1.0) / (1.0 + 4.0))


def test_under_the_mean_utility_unspent_budget_counts_in_favour():
    settings = {
        "reward": torch.zeros(1),
        "costs": torch.tensor([[[1.0, 5.0]]]),
        "stock": torch.tensor([[-4.0]]),
        "price": torch.tensor([[1.0]]),
        "penalty": torch.zeros(1),
    }
    assert actor_loss(**settings, problem=problem(MEAN)).item() == pytest.approx(-0.5)
    assert actor_loss(**settings, problem=problem(EXCESS)).item() == pytest.approx(0.25)


def test_several_costs_are_summed_at_their_own_prices():
    loss = actor_loss(
        reward=torch.zeros(1),
        costs=torch.tensor([[[2.0], [5.0]]]),
        stock=torch.tensor([[-1.0, -2.0]]),
        price=torch.tensor([[10.0, 100.0]]),
        problem=problem(costs=2),
        penalty=torch.zeros(1),
    )
    assert loss.item() == pytest.approx((10.0 * 1.0 + 100.0 * 3.0) / 111.0)


def test_the_regulariser_is_the_squared_size_of_mean_and_log_deviation():
    assert squared_size(torch.tensor([[1.0, 2.0]]), torch.tensor([[-3.0, 0.0]])).tolist() == [14.0]


# --- traps ---


def test_the_utility_sees_the_stock_in_cost_units_whatever_the_networks_see():
    """Scaled by 10 for the networks, a stock of -3 must still be 3 units away from the budget."""
    agent = by_equations(actor={"regulariser": 0.0})
    seen = {}
    original = agent.multiplier.value
    agent.multiplier.value = lambda stock: seen.setdefault("price", original(stock) * 0 + 1.0)
    agent.critics.forward = lambda obs, stock, action: (
        torch.cat([torch.zeros(2, len(obs), 8), torch.full((1, len(obs), 8), 5.0)])
        + 0.0 * action.sum(-1)[None, :, None]
    )
    stock = torch.full((32, 1), -3.0)
    metrics = agent._improve_actor(batch(stock=stock))
    # excess 5 - 3 = 2 at price 1; with the scaled stock it would be 4.7
    assert metrics["actor_loss"].item() == pytest.approx(2.0 / 2.0, rel=1e-5)


HIDDEN_EXCESS = {"networks": {**SMALL["networks"], "show_excess": False}}


def test_what_is_exceeded_already_need_not_be_shown(tmp_path):
    """All that have nothing left look alike to actor and critics, in files of the policy too."""
    agent = make(**HIDDEN_EXCESS)
    obs, action = torch.zeros(3, 3), torch.zeros(3, 2)
    stock = torch.tensor([[-1.0], [0.0], [70.0]])
    policy = agent.policy()
    policy.save(tmp_path / "policy.safetensors")
    save_critics(policy.critics, policy.info, tmp_path / "critics.safetensors")
    loaded = load(tmp_path / "policy.safetensors")
    critics = load_critics(tmp_path / "critics.safetensors", loaded.info).critics
    for actor, judges in ((agent.actor, agent.critics), (loaded.actor, critics)):
        for left, none, exceeded in (
            actor.mode(obs, stock),
            *judges(obs, stock, action),
        ):
            assert (left - none).abs().max() > 1e-5
            assert torch.allclose(none, exceeded, atol=1e-6)


def test_the_utility_sees_all_of_an_excess_that_networks_do_not():
    final = torch.tensor([[4.0]])
    plain = {"actor": {"regulariser": 0.0}}
    agents = [by_equations(**plain), by_equations(**plain, **HIDDEN_EXCESS)]
    losses = []
    for agent in agents:
        agent.critics.forward = lambda obs, stock, action: (
            torch.full((3, len(obs), 8), 5.0) + 0.0 * action.sum(-1)[None, :, None]
        )
        losses.append(agent._improve_actor(batch(stock=final.expand(32, 1)))["actor_loss"])
    assert losses[0] == losses[1] != 0.0


@pytest.mark.parametrize("changes", [{"utility": "mean"}, {"stock": "hidden"}])
def test_where_a_unit_above_the_budget_counts_otherwise_it_is_shown(changes):
    assert make(**HIDDEN_EXCESS, **changes).policy().info.stock_ceiling is None
    assert make().policy().info.stock_ceiling is None


def test_prices_are_those_of_the_episodes_initial_stock():
    agent = make()
    agent.multiplier.parameters[0][:] = torch.arange(31.0)
    asked = []
    original = agent.multiplier.value
    agent.multiplier.value = lambda stock: asked.append(stock) or original(stock)
    data = batch()
    agent._improve_actor(data)
    assert torch.equal(asked[0], data.initial_stock)
    assert original(data.initial_stock)[:, 0].tolist() == (30.0 + data.initial_stock[:, 0]).tolist()


def test_targets_take_the_min_by_mean_for_both_reward_critics_and_the_own_critic_for_costs():
    agent = by_equations()
    rows = 4
    rewards = torch.stack([torch.full((rows, 8), 7.0), torch.full((rows, 8), 5.0)])
    rewards[1, 0] = 9.0  # in the first sample the other critic is the min_by_mean
    future = torch.cat([rewards, torch.full((1, rows, 8), 3.0)])
    agent.target_critics.forward = lambda *inputs: future
    data = batch(rows)
    targets = agent._targets(data)
    expected = data.reward + 0.9 * torch.tensor([7.0, 5.0, 5.0, 5.0])
    for critic in (0, 1):
        torch.testing.assert_close(targets[critic, :, 0], expected)
    torch.testing.assert_close(targets[2, :, 0], data.costs[:, 0] + 2.7)


def test_targets_use_the_target_networks_at_the_successor():
    agent = make()
    data = batch()
    before = agent._targets(data)
    for weight in [*agent.actor.parameters(), *agent.critics.parameters()]:
        weight.data += 1.0
    agent._noise.manual_seed(0)
    fresh = make()
    fresh._noise.manual_seed(0)
    torch.testing.assert_close(agent._targets(data), fresh._targets(data))
    moved = agent._targets(dataclasses.replace(data, successor_stock=data.successor_stock + 9.0))
    assert not torch.allclose(before, moved)


def test_the_next_action_is_sampled_or_the_mean():
    means = [make(critic={"next_action": "mean"})._targets(batch()) for _ in range(2)]
    agent = make(critic={"next_action": "mean"})
    torch.testing.assert_close(means[0], agent._targets(batch()))
    torch.testing.assert_close(agent._targets(batch()), agent._targets(batch()))
    sampled = make()
    assert not torch.allclose(sampled._targets(batch()), sampled._targets(batch()))


def louder(agent, factor=1e3):
    """Blow up every log-probability; without an entropy weight nobody may notice."""
    for actor in (agent.actor, agent.target_actor):
        original = type(actor).sample

        def sample(obs, stock, generator, actor=actor, original=original):
            one = original(actor, obs, stock, generator)
            return Sample(one.action, one.log_prob * factor, one.mean, one.log_std)

        actor.sample = sample
    return agent


@pytest.mark.parametrize(("weight", "leaks"), [(0.0, False), (0.2, True)])
def test_without_weight_no_entropy_leaks_in_anywhere(weight, leaks):
    quiet, loud = (by_equations(entropy={"weight": weight}) for _ in range(2))
    louder(loud)
    data = batch()
    for agent in (quiet, loud):
        agent._improve_critics(data)
        agent._improve_actor(data)
    same = [
        torch.equal(a, b)
        for name in ("actor", "critics")
        for a, b in zip(
            getattr(quiet, name).parameters(), getattr(loud, name).parameters(), strict=True
        )
    ]
    assert all(same) != leaks
    assert quiet.entropy.weight.item() == pytest.approx(weight)


def test_a_tuned_entropy_weight_rises_while_the_policy_is_too_certain():
    entropy = Entropy(0.5, rate=0.1, target=-2.0)
    entropy.update(torch.tensor([5.0]))  # entropy -5, below -2
    raised = entropy.weight.item()
    assert raised > 0.5
    entropy.update(torch.tensor([-50.0]))
    entropy.update(torch.tensor([-50.0]))
    assert entropy.weight.item() < raised


def test_the_entropy_weight_moves_as_pytorchs_adam_moves_its_logarithm():
    entropy, log = Entropy(0.5, rate=0.1, target=-2.0), torch.tensor(0.5).log().requires_grad_()
    adam = torch.optim.Adam([log], lr=0.1)
    for said in ([5.0, 3.0], [-1.0, 9.0], [-40.0, 2.0]):
        entropy.update(torch.tensor(said))
        adam.zero_grad()
        (-log.exp() * (torch.tensor(said).mean() - 2.0)).backward()
        adam.step()
        assert entropy.weight.item() == pytest.approx(log.exp().item(), rel=1e-6)
    copy = Entropy(0.1, rate=0.1, target=-2.0)
    copy.restore(entropy.state())
    for one in (entropy, copy):
        one.update(torch.tensor([1.0]))
    assert copy.weight.item() == entropy.weight.item()


# --- optimisation ---


def test_targets_follow_by_their_share():
    target, source = [torch.zeros(3)], [torch.ones(3)]
    polyak(target, source, 0.05)
    assert target[0].tolist() == pytest.approx([0.05] * 3)


def stepped(agent, rows=64):
    """An agent with something to remember: `rows` random transitions."""
    generator = np.random.default_rng(0)
    from tests.learners.test_replay import step

    for _ in range(rows // 8):
        obs = generator.normal(size=(8, 3)).astype(np.float32)
        stock = generator.uniform(-20, 0, (8, 1)).astype(np.float32)
        actions = agent.act(obs, stock)
        wide = dataclasses.replace(step(0.0, n=8), successor=obs, costs=np.ones((8, 1)))
        agent.remember(obs, stock, actions, wide)
    return agent


def test_an_update_moves_every_part_once():
    agent = stepped(make())
    none = np.zeros(1, np.int64)
    agent.observe(Episodes(np.array([[-5.0]]), none * 1.0, np.array([[9.0]]), none, none, none))
    modules = (agent.actor, agent.critics, agent.target_actor, agent.target_critics)
    before = [[w.clone() for w in module.parameters()] for module in modules]
    prices = agent.multiplier.tables()[0].clone()
    metrics = agent.update()
    for module, old in zip(modules, before, strict=True):
        assert all(not torch.equal(w, o) for w, o in zip(module.parameters(), old, strict=True))
    assert (agent.multiplier.tables()[0] != prices).sum() == 1
    assert (agent.updates, agent.env_steps) == (1, 64)
    assert all(torch.isfinite(value) for value in metrics.values())


def test_a_share_of_each_batch_is_seen_under_budgets_drawn_anew():
    replay = {**SMALL["replay"], "relabel": 0.25}
    agent = stepped(make(replay=replay))  # all of its episodes began with a stock of 0
    drawn = torch.cat([agent.seen(agent.draw()).initial_stock for _ in range(100)]).reshape(100, 32)
    assert set(drawn[:, 8:].flatten().tolist()) == {0.0}
    assert set(drawn[:, :8].flatten().tolist()) == {-float(level) for level in range(31)}
    plain = stepped(make())
    assert set(plain.seen(plain.draw()).initial_stock.flatten().tolist()) == {0.0}


def test_the_actor_updates_in_bursts_when_asked():
    agent = stepped(make(actor={"every": 2}))
    first = [w.clone() for w in agent.actor.parameters()]
    agent.update()
    assert all(torch.equal(w, o) for w, o in zip(agent.actor.parameters(), first, strict=True))
    calls = []
    original = agent._improve_actor
    agent._improve_actor = lambda data: calls.append(data) or original(data)
    agent.update()
    assert len(calls) == 2


def test_multipliers_wait_for_their_start():
    agent = stepped(make(multiplier={"start": 65}))
    none = np.zeros(1, np.int64)
    agent.observe(Episodes(np.array([[-5.0]]), none * 1.0, np.array([[9.0]]), none, none, none))
    agent.update()
    assert set(agent.multiplier.tables()[0].tolist()) == {1.0}


def test_actor_updates_leave_no_gradient_in_the_critics():
    agent = make()
    agent._improve_actor(batch())
    assert all(weight.grad is None for weight in agent.critics.parameters())


def test_learning_from_one_batch_lowers_its_critic_loss():
    agent = make(critic={"rate": 1e-2, "clip": 10.0})
    data = batch(discount=torch.zeros(32), cost_discount=torch.zeros(32))
    first = agent._improve_critics(data)
    for _ in range(200):
        last = agent._improve_critics(data)
    assert all(last[name] < 0.3 * first[name] for name in first)


def test_an_update_keeps_to_the_device_of_its_networks():
    """Meta tensors hold no numbers but refuse to meet tensors of the CPU, as CUDA's do."""
    agent = make(device="meta", entropy={"weight": 0.1})
    rows, generator = 64, np.random.default_rng(0)
    for part in (agent.replay._before, agent.replay._after, agent.replay._gains):
        part[:rows] = generator.normal(size=part[:rows].shape)
    agent.replay._rows_written = rows
    for metric in agent.update().values():
        assert metric.device.type in ("meta", "cpu")
        assert metric.shape == ()
    assert all(p.device.type == "meta" for p in agent.target_critics.parameters())


@pytest.mark.parametrize("name", ["cuda:7", "gpu", "tpu:0"])
def test_a_device_that_is_not_there_is_named(name):
    with pytest.raises(UsageError, match=name):
        make(device=name)


# --- learning rates ---


def test_a_learning_rate_stays_falls_geometrically_and_stays():
    falling = Decay(first=1e-3, last=1e-5, start=200, env_steps=1000)
    assert falling.at(0) == falling.at(200) == 1e-3
    assert falling.at(700) == pytest.approx(1e-4)
    assert falling.at(1200) == pytest.approx(1e-5)
    assert falling.at(5000) == pytest.approx(1e-5)
    assert Decay(3e-4, 3e-4, 0, 1).at(7) == 3e-4


def test_each_network_learns_at_the_rate_of_the_environment_steps_made():
    def moved(env_steps):
        agent = make(
            decay_start=50,
            decay_steps=100,
            critic={"rate": 1e-2, "final_rate": 1e-4, "clip": 1e3},
            actor={"rate": 1e-3, "final_rate": 1e-4, "clip": 1e3},
        )
        agent.env_steps = env_steps
        agent.replay.sample = lambda size, generator: batch()
        before = [
            w.detach().clone() for w in (*agent.critics.parameters(), *agent.actor.parameters())
        ]
        agent.update()
        after = (*agent.critics.parameters(), *agent.actor.parameters())
        return [(a - b).abs().max().item() for a, b in zip(after, before, strict=True)]

    critics = len(list(make().critics.parameters()))
    first, last = moved(50), moved(150)  # Adam's first step is as long as the rate
    assert max(first[:critics]) == pytest.approx(1e-2, rel=0.01)
    assert max(last[:critics]) == pytest.approx(1e-4, rel=0.01)
    assert max(first[critics:]) == pytest.approx(1e-3, rel=0.01)
    assert max(last[critics:]) == pytest.approx(1e-4, rel=0.01)


def test_the_regulariser_of_an_update_is_that_of_the_environment_steps_made():
    def loss(env_steps, **actor):
        agent = make(decay_start=50, decay_steps=100, actor=actor)
        agent.env_steps = env_steps
        agent.replay.sample = lambda size, generator: batch()
        return agent.update()["actor_loss"].item()

    falling = {"regulariser": 1.0, "final_regulariser": 1e-2}
    assert loss(50, **falling) == loss(50, regulariser=1.0)
    assert loss(100, **falling) == pytest.approx(loss(100, regulariser=0.1))
    assert loss(150, **falling) == pytest.approx(loss(150, regulariser=1e-2))


def test_a_regulariser_cannot_rise_or_end_at_nothing():
    with pytest.raises(UsageError, match=r"actor\.final_regulariser must be above 0"):
        make(actor={"regulariser": 1e-4, "final_regulariser": 1e-3})
    with pytest.raises(UsageError, match=r"actor\.final_regulariser must be above 0"):
        make(actor={"final_regulariser": 0.0})


def test_a_learning_rate_cannot_rise():
    with pytest.raises(
        UsageError, match=r"critic\.final_rate must be above 0 and at most the rate"
    ):
        make(critic={"rate": 1e-4, "final_rate": 1e-3})
    with pytest.raises(UsageError, match=r"actor\.final_rate"):
        make(actor={"final_rate": 0.0})
