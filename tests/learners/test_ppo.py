"""The on-policy learner: what it must not get wrong, and what it reduces to."""

import dataclasses
import functools
import logging

import numpy as np
import pytest
import torch
from torch import nn

from ucpo.config.assembly import make_grid, make_learner
from ucpo.config.files import resolve
from ucpo.envs.illustration import Courier
from ucpo.envs.interface import Hold, Outcome, TaskSpec, VectorTask
from ucpo.envs.shaping import Staggered
from ucpo.learners.surrogates import GAUSSIAN
from ucpo.policies.policy import load
from ucpo.runs.run import Run
from ucpo.stock import Start, random_starts

SMALL = {
    "num_envs": 4,
    "budget_range": "0:30",
    "budget_levels": 4,
    "env_steps": 1000,
    "gamma": 0.9,
    "networks": {"hidden": [16, 16], "normalise": True, "stock_scale": 10.0},
    "ppo": {"rollout": 8, "passes": 3, "minibatch": 16},
}


class Walk(VectorTask):
    """Observations that drift away, a reward of the action, and a cost by luck of the seed."""

    def __init__(self, num_envs=4, steps=10, drift=1.0, chance=0.5):
        spec = TaskSpec("Walk", 2, (-1.0,), (1.0,), ("cost",), steps)
        super().__init__(spec, num_envs)
        self.drift, self.chance, self.seen = drift, chance, 0
        self.luck = [np.random.default_rng(0) for _ in range(num_envs)]

    def begin(self, rows, seeds):
        for row, seed in zip(rows, seeds, strict=True):
            self.luck[row] = np.random.default_rng(seed)
        return np.zeros((len(rows), 2), np.float32)

    def advance(self, actions):
        self.seen += 1
        n = self.num_envs
        costs = np.array([luck.random() < self.chance for luck in self.luck], float)[:, None]
        place = np.full((n, 2), self.drift * self.seen, np.float32)
        reward, over = actions[:, 0].astype(float), self.lengths + 1 >= self.spec.max_episode_steps
        return Outcome(place, reward, costs, np.zeros(n, np.bool_), over)


def options(method, **changes):
    given = {**SMALL, **changes}
    for part in ("networks", "ppo"):
        given[part] = {**SMALL[part], **changes.get(part, {})}
    if method in ("ppo-lag", "ppo-pid", "ppo-saute", "ppo-et", "oncrpo", "focops", "p3o") and (
        "budget" not in given
    ):
        given["budget"] = "5"
    return resolve("Walk", method=method, preset="default", cost_units="1", **given)


def make(method="ppo-lag", task=None, **changes):
    """A learner, its task and what to act on."""
    config = options(method, **changes)
    task = task or Walk(config.num_envs)
    grid = make_grid(config, task.spec)
    learner = make_learner(config, task.spec, grid, np.random.default_rng(0))
    begun = task.reset(random_starts(grid, np.random.default_rng(1)), config.stock_discount)
    return learner, task, begun


def collect(learner, task, begun, decisions=None):
    """Act until the rollout is full, or for some decisions; returns where to go on."""
    obs, stock = begun
    made = 0
    while not learner.rollout.full if decisions is None else made < decisions:
        actions = learner.act(obs, stock)
        step = task.step(actions)
        learner.remember(obs, stock, actions, step)
        learner.observe(step.episodes)
        obs, stock, made = step.obs, step.stock, made + 1
    return obs, stock


def learn(learner, task, begun, rollouts):
    for _ in range(rollouts):
        begun = collect(learner, task, begun)
        for said in learner.improve():
            assert set(said) <= set(learner.metrics)
    return begun


def judged(learner):
    kept = torch.from_numpy(~learner.rollout.lost.reshape(-1))
    everything = learner._seen()
    return learner._judge(everything, everything.at(kept), kept)


def weights(module):
    return torch.cat([value.reshape(-1) for value in module.state_dict().values()])


# --- what ratios are of ---


def test_the_first_pass_finds_every_ratio_1_though_observations_drift():
    learner, task, begun = make()
    begun = learn(learner, task, begun, 2)  # statistics have moved, between rollouts
    at_the_time = []
    obs, stock = begun
    for _ in range(8):
        actions = learner.act(obs, stock)
        with torch.no_grad():
            mean = learner.actor(learner.normaliser(torch.from_numpy(obs)), torch.from_numpy(stock))
        sample = torch.from_numpy(learner.sample)
        at_the_time.append(GAUSSIAN.log_probability(sample, mean, learner.actor.log_std))
        step = task.step(actions)
        learner.remember(obs, stock, actions, step)
        obs, stock = step.obs, step.stock
    old, _, _ = judged(learner)
    then = torch.cat(at_the_time).detach()
    assert torch.exp(old.log_prob - then) == pytest.approx(torch.ones(32), abs=1e-4)


def test_ratios_are_of_what_was_drawn_and_actions_of_what_clipping_made_of_it():
    learner, task, begun = make(ppo={"log_std": float(np.log(0.1))})
    with torch.no_grad():
        learner.actor.body.layers.stack()[-1][1].fill_(3.0)
    actions = learner.act(*begun)
    assert actions.tolist() == [[1.0]] * 4
    assert learner.sample.ravel() == pytest.approx([3.0] * 4, abs=0.5)
    collect(learner, task, begun)
    assert learner.rollout.sample.min() > 2.0
    assert (learner.rollout.action == 1.0).all()
    old, _, _ = judged(learner)
    again = GAUSSIAN.log_probability(old.sample, old.output, old.spread)
    assert torch.exp(again - old.log_prob) == pytest.approx(torch.ones(32), abs=1e-6)


def test_unclipped_samples_reach_the_task_and_policies_clip_all_the_same():
    learner, _task, begun = make(ppo={"action": "unclipped", "log_std": float(np.log(0.1))})
    with torch.no_grad():
        learner.actor.body.layers.stack()[-1][1].fill_(3.0)
    assert learner.act(*begun).tolist() == learner.sample.tolist()
    assert learner.sample.min() > 2.0
    policy = learner.policy()
    assert policy.info.action == "clipped"
    assert policy.act(*begun).tolist() == [[1.0]] * 4
    with torch.no_grad():
        assert learner.actor.mode(*map(torch.from_numpy, begun)).tolist() == [[1.0]] * 4


# --- where values are taken ---


class StockValues(nn.Module):
    """Values that are the stock itself."""

    def forward(self, obs, stock, left):
        return torch.stack([stock[:, 0], stock[:, 0]])


def test_a_time_limit_bootstraps_from_the_stock_of_the_episode_that_ended():
    task = Walk(steps=5)
    learner, task, begun = make(task=task, ppo={"lam": 0.0})
    collect(learner, task, begun)
    learner.values = StockValues()
    _, _, targets = judged(learner)
    rollout, ends = learner.rollout, learner.rollout.truncated
    assert ends.sum() == 4
    target = targets.reshape(2, 8, 4).numpy()
    expected = rollout.reward[ends] + 0.9 * rollout.successor_stock[ends, 0]
    assert target[0][ends] == pytest.approx(expected, rel=1e-5)
    begins = rollout.stock[np.roll(ends, 1, axis=0), 0]  # full budgets
    assert not np.allclose(rollout.successor_stock[ends, 0], begins)


class PlaceValues(nn.Module):
    """Values that are the first number of the observation."""

    def forward(self, obs, stock, left):
        return torch.stack([obs[:, 0], obs[:, 0]])


@pytest.mark.parametrize(("decision", "place"), [(4, 5.0), (7, 8.0)])  # a time limit; the last one
def test_what_follows_the_end_of_an_episode_or_rollout_is_valued_where_it_led_to(decision, place):
    """Not where the next episode begins, which is at 0."""
    learner, task, begun = make(task=Walk(steps=5), networks={"normalise": False}, ppo={"lam": 0.0})
    collect(learner, task, begun)
    learner.values = PlaceValues()
    target = judged(learner)[2].reshape(2, 8, 4)[0, decision]
    assert target == pytest.approx(learner.rollout.reward[decision] + 0.9 * place)


def test_episodes_longer_than_a_rollout_are_seen_to_their_end():
    learner, task, begun = make(ppo={"rollout": 4})
    lengths = []
    observe = learner.observe
    learner.observe = lambda episodes: (lengths.extend(episodes.lengths), observe(episodes))
    learn(learner, task, begun, 5)
    assert lengths == [10] * 8


def test_environment_steps_are_counted_over_all_environments():
    learner, task, begun = make()
    learn(learner, task, begun, 1)
    assert learner.env_steps == 4 * 8
    assert learner.updates == 3 * 2


def test_values_stay_the_same_when_their_units_change():
    learner, task, begun = make()
    learn(learner, task, begun, 1)
    obs, stock, left = torch.randn(50, 2), torch.randn(50, 1), torch.rand(50)
    with torch.no_grad():
        before = learner.values(obs, stock, left)
        learner.values.set_units(torch.tensor([3.0, -50.0]), torch.tensor([0.1, 40.0]))
        after = learner.values(obs, stock, left)
    assert after == pytest.approx(before, abs=1e-5)


def test_the_units_of_rare_costs_have_a_floor():
    learner, task, begun = make("ucp-ppo")
    learn(learner, task, begun, 1)
    for _ in range(200):
        learner._move_units(torch.zeros(2, 32))
    assert learner.values.std.tolist() == pytest.approx([1e-3, 0.1])
    assert torch.isfinite(weights(learner.values)).all()


def test_only_values_of_costs_see_the_time_that_is_left():
    learner, _, _ = make("ucp-ppo")
    obs, stock = torch.randn(2, 2), -torch.ones(2, 1)
    one = learner.values(obs, stock, torch.ones(2))
    two = learner.values(obs, stock, torch.zeros(2))
    assert one[0].tolist() == two[0].tolist()
    assert (one[1] != two[1]).all()


def test_stocks_beyond_the_budget_look_the_same_under_the_excess():
    learner, _, _ = make("ucp-ppo", ppo={"last_layer": 1.0})
    obs = torch.zeros(3, 2)
    means = learner.actor(obs, torch.tensor([[-1.0], [0.0], [7.0]])).ravel()
    assert abs(means[0] - means[1]) > 1e-5
    assert means[1].item() == pytest.approx(means[2].item(), abs=1e-6)
    assert learner.policy().info.stock_ceiling == 0.0


@pytest.mark.parametrize("activation", ["tanh", "relu"])
@pytest.mark.parametrize("costs", ["horizon", "discounted"])
def test_gradients_written_by_hand_are_those_of_the_graph(activation, costs):
    spec = TaskSpec("Test", 2, (-1.0,) * 3, (1.0,) * 3, ("cost",), 10)
    config = options("ucp-ppo", ppo={"activation": activation, "costs": costs, "last_layer": 1.0})
    learner = make_learner(config, spec, make_grid(config, spec), np.random.default_rng(0))
    obs, stock, left = torch.randn(50, 2), torch.randn(50, 1), torch.rand(50)
    values, actor, targets = learner.values, learner.actor, torch.randn(2, 50)
    flat = values.body.layers.flat
    losses = values.learn(obs, stock, left, targets)
    found = flat.grad.clone()
    errors = (values.in_units(obs, stock, left) - targets).square().mean(1)
    assert losses == pytest.approx(errors.detach(), rel=1e-4)
    assert found == pytest.approx(torch.autograd.grad(errors.sum(), flat)[0], abs=1e-5)
    wanted = torch.randn(50, 3)

    def slopes(mean, log_std):
        return (mean * wanted).sum(), wanted, log_std

    loss = actor.learn(obs, stock, slopes)
    exact = (actor(obs, stock) * wanted).sum()
    assert loss.item() == pytest.approx(exact.item(), rel=1e-4)
    flat = actor.body.layers.flat
    assert flat.grad == pytest.approx(torch.autograd.grad(exact, flat)[0], rel=1e-3, abs=1e-4)
    assert (actor.log_std.grad == actor.log_std).all()


# --- passes ---


def test_passes_stop_after_a_whole_one_and_what_overshot_is_kept():
    learner, task, begun = make(ppo={"stop": 0.0, "passes": 9})
    before = weights(learner.actor)
    begun = collect(learner, task, begun)
    (said,) = learner.improve()
    assert said["passes"] == 1
    assert learner.updates == 2  # minibatches of one pass: none of them stops it
    assert said["divergence"] > 0.0
    assert (weights(learner.actor) != before).any()


@pytest.mark.parametrize("features", [0, 4])  # compiled passes, and others
def test_passes_stop_by_the_divergence_over_the_whole_rollout(features):
    """That of a single minibatch would stop them by its noise."""
    how = {"networks": {"stock_features": features}}
    learner, task, begun = make("ucp-ppo", ppo={"last_layer": 1.0, "actor_rate": 0.03}, **how)
    collect(learner, task, begun)
    seen, (old, _, _) = learner._seen(), judged(learner)
    (said,) = learner.improve()
    with torch.no_grad():
        output, spread = learner.actor(seen.obs, seen.stock), learner.actor.spread
    moved = GAUSSIAN.divergence(old.output, old.spread, output, spread)  # from the old policy
    assert said["divergence"].item() == pytest.approx(moved.mean().item(), rel=1e-3)
    assert moved.std() > 0.1 * moved.mean()  # so that it matters over what the mean is


def test_what_a_broken_environment_said_is_left_out():
    learner, task, begun = make()
    collect(learner, task, begun)
    learner.rollout.lost[3, 1] = True
    learner.rollout.reward[3, 1] = 1e9
    old, _, targets = judged(learner)
    assert len(old.advantage) == targets.shape[1] == 31
    assert targets.abs().max() < 1e3
    learned = []
    learner._pass_over = lambda seen, old, targets: learned.append(len(seen.obs)) or {}
    learner.update()
    assert learned == [31]


@pytest.mark.parametrize("method", ["p3o", "cpo"])
def test_costs_without_a_price_are_centred_and_keep_their_unit(method):
    learner, task, begun = make(method, budget="5")
    collect(learner, task, begun)
    old, values, targets = judged(learner)
    better = targets[1] - values[1]
    assert abs(better.mean()) > 0.1  # so that it matters
    assert old.costs[:, 0] == pytest.approx(better - better.mean(), abs=1e-5)


# --- prices ---


def test_prices_move_only_by_episodes_that_are_new():
    learner, task, begun = make(ppo={"rollout": 4})
    calls = []
    learner.multiplier.update = calls.append
    learn(learner, task, begun, 5)  # episodes end in the third and in the fifth
    assert calls == [48, 80]


def test_prices_move_before_the_policy_learns_at_them():
    learner, task, begun = make(ppo={"rollout": 12})  # long enough for episodes to end
    order = []
    value = learner.multiplier.value
    learner.multiplier.update = lambda env_steps: order.append("moved")
    learner.multiplier.value = lambda stock: (order.append("asked"), value(stock))[1]
    learn(learner, task, begun, 1)
    assert order == ["moved", "asked"]


def test_the_price_is_that_of_the_initial_stock():
    learner, task, begun = make("ucp-ppo")
    asked = []
    value = learner.multiplier.value
    learner.multiplier.value = lambda stock: (asked.append(stock), value(stock))[1]
    collect(learner, task, begun)
    judged(learner)
    assert asked[0].tolist() == learner.rollout.initial_stock.reshape(-1, 1).tolist()


# --- what it reduces to ---

SAME = {
    "utility": "mean",
    "stock": "hidden",
    "starts": "single",
    "budget": "5",
    "multiplier": {
        "kind": "clamped",
        "initial": 0.1,
        "minimum": 0.0,
        "rate": 0.1,
        "window": 50,
        "start": 0,
    },
    "ppo": {"advantage": "raw", "costs": "discounted"},
}


def trained(method, rollouts=6, **changes):
    learner, task, begun = make(method, **changes)
    learn(learner, task, begun, rollouts)
    return learner


def test_on_policy_ucp_with_the_mean_and_one_hidden_budget_is_ppo_lagrangian():
    one, two = trained("ucp-ppo", **SAME), trained("ppo-lag", **SAME)
    assert one.prices()[0] > 0.1
    for part in ("actor", "values"):
        assert weights(getattr(one, part)).tolist() == weights(getattr(two, part)).tolist()


def test_a_price_of_nothing_is_plain_ppo():
    free = {"kind": "clamped", "initial": 0.0, "minimum": 0.0, "rate": 0.0}
    how = {"stock": "hidden", "ppo": {"norm_of": "each", "costs": "discounted"}}
    plain = trained("ppo", **how)
    priced = trained("ucp-ppo", **how, multiplier=free)
    assert (len(plain.values.mean), len(priced.values.mean)) == (1, 2)  # the second judges costs
    assert weights(plain.actor).tolist() == weights(priced.actor).tolist()


def test_saute_with_a_budget_out_of_reach_is_plain_ppo_with_a_constant_input():
    how = {"budget": "1e9", "networks": {"stock_scale": 1e9}}  # costs vanish beside it
    saute = trained("ppo-saute", **how)
    plain = trained("ppo", **how, stock="shown")
    assert (plain.rollout.stock == -1e9).all()
    assert weights(saute.actor).tolist() == weights(plain.actor).tolist()


def test_a_penalty_is_a_price_that_stays():
    penalty = {"kind": "penalty", "utility": "excess", "price": 2.0}
    nothing = {"kind": "fixed", "initial": 0.0, "minimum": 0.0}
    one = trained("ppo-jiang", shaping=penalty, multiplier=nothing)
    two = trained("ucp-ppo", multiplier={"kind": "fixed", "initial": 2.0})
    assert one.prices()[0].tolist() == [2.0] * 4
    assert weights(one.actor).tolist() == weights(two.actor).tolist()


def test_jiang_charges_everything_spent_in_the_step_that_exceeds():
    learner, task, begun = make("ppo-jiang", task=Walk(chance=1.0), budget="2")
    collect(learner, task, begun)
    charged = learner.rollout.increments[:, :, 0].T.tolist()
    assert charged == [[0.0, 0.0, 3.0, 1.0, 1.0, 1.0, 1.0, 1.0]] * 4


@pytest.mark.parametrize("method", ["ppo-pid", "oncrpo", "focops", "p3o", "ppo-et", "ppo-saute"])
def test_every_method_learns_something(method):
    learner = trained(method, rollouts=3)
    assert torch.isfinite(weights(learner.actor)).all()
    assert learner.updates >= 3


@pytest.mark.parametrize("method", ["ucp-ppo", "trpo-et", "focops"])
def test_stocks_may_pass_a_layer_of_their_own(method):
    how = {"budget": "5"} if method == "trpo-et" else {}
    learner, task, begun = make(method, networks={"stock_features": 4}, stock="shown", **how)
    before = [weights(part) for part in (learner.actor.body.embedding, learner.values.body)]
    learn(learner, task, begun, 2)
    after = [weights(part) for part in (learner.actor.body.embedding, learner.values.body)]
    assert all((one != two).any() for one, two in zip(before, after, strict=True))


@pytest.mark.parametrize("method", ["trpo-lag", "trpo-et", "cpo"])
def test_trust_regions_move_the_policy_once_per_rollout(method):
    learner, task, begun = make(method, budget="5", ppo={"norm": 5.0})
    before = weights(learner.actor)
    begun = collect(learner, task, begun)
    (said,) = learner.improve()
    assert 0.0 < said["divergence"] <= 0.0101
    assert (weights(learner.actor) != before).any()


def test_a_cost_with_a_chance_of_three_in_ten_is_worth_three_tenths():
    """A mean, not a median."""
    task = Walk(64, steps=1, drift=0.0, chance=0.3)
    ppo = {"rollout": 16, "minibatch": 64, "critic_rate": 3e-3, "costs": "horizon"}
    how = {"num_envs": 64, "budget": "0", "env_steps": 10**6, "ppo": ppo}
    learner, task, begun = make("ppo-lag", task=task, **how)
    learn(learner, task, begun, 20)
    with torch.no_grad():
        found = learner.values(torch.zeros(1, 2), torch.zeros(1, 1), torch.ones(1))[1]
    assert found.item() == pytest.approx(0.3, abs=0.05)


def test_several_costs_have_a_critic_and_a_table_each():
    task = Courier(4, "Courier2-v0", cost_names=("near_misses", "fines"))
    learner, task, begun = make("ucp-ppo", task=task)
    learn(learner, task, begun, 6)
    assert len(learner.values.mean) == 3
    assert [len(table) for table in learner.prices()] == [4, 4]


# --- rewards that are shaped ---


def test_returns_are_the_tasks_own_whatever_is_learned_from():
    def returns(method):
        learner, task, begun = make(method, budget="0", stock="shown", task=Walk(chance=1.0))
        seen = []
        learner.observe = lambda episodes: seen.extend(episodes.returns)
        collect(learner, task, begun)
        collect(learner, task, begun, 2)
        return seen, learner.rollout.reward

    plain, rewards = returns("ppo")
    saute, shaped = returns("ppo-saute")
    assert len(plain) == 4
    assert plain == saute
    assert (shaped[2:] == -1.0).all()
    assert (rewards[2:] != -1.0).any()


@pytest.mark.parametrize(
    ("method", "changes", "words"),
    [
        ("ppo-saute", {"shaping": {"penalty": -5.0}}, "a larger --shaping.penalty"),
        ("ppo-et", {}, "shift rewards above 0"),
    ],
)
def test_rewards_that_make_exceeding_pay_are_warned_about_once(method, changes, words, caplog):
    learner, task, begun = make(method, **changes)
    with torch.no_grad():
        learner.actor.body.layers.stack()[-1][1].fill_(-0.5)  # rewards are below 0
    with caplog.at_level(logging.WARNING, "ucpo"):
        learn(learner, task, begun, 3)
    assert [words in record.message for record in caplog.records] == [True]


@pytest.mark.parametrize(("steps", "warnings"), [(2, 0), (4, 1)])
def test_a_penalty_is_compared_with_what_a_decision_brings_however_long_it_is_held(
    steps, warnings, caplog
):
    """Steps at -0.3 are -0.6 or -1.2 a decision; being over budget is -1."""
    learner, task, begun = make("ppo-saute", gamma=1.0, ppo={"log_std": -9.0})
    with torch.no_grad():
        learner.actor.body.layers.stack()[-1][1].fill_(-0.3)
    task.step = functools.partial(task.step, hold=Hold(steps))
    collect(learner, task, begun)
    with caplog.at_level(logging.WARNING, "ucpo"):
        list(learner.improve())
    assert len(caplog.records) == warnings


def test_budgets_look_different_at_the_start_and_0_is_one_of_them():
    learner, _, _ = make("ppo-saute-any")
    obs = np.zeros((3, 2), np.float32)
    stock = np.array([[-5.0], [-25.0], [0.0]], np.float32)
    means = learner.policy().act(obs, stock).ravel()
    assert len(set(means.tolist())) == 3
    assert np.isfinite(means).all()


def test_episodes_of_one_length_end_at_different_moments():
    task = Staggered(Walk(64, steps=20))
    starts = iter(Start(seed, np.zeros(1, np.float32)) for seed in range(10**6))
    task.reset(starts)
    ends, lengths, lost = [], [], 0
    for t in range(60):
        step = task.step(np.zeros((64, 1), np.float32))
        ends += [t] * len(step.episodes)
        lengths += step.episodes.lengths.tolist()
        lost += 0 if step.lost is None else int(step.lost.sum())
    late = np.bincount(np.array(ends)[np.array(ends) >= 40] - 40, minlength=20)
    assert (late > 0).sum() >= 15
    assert set(lengths) == {20}  # what was cut short is not reported
    assert lost == 64


# --- files ---


def test_a_policy_file_does_what_the_policy_does(tmp_path):
    for action in ("clipped", "squashed"):
        learner = trained("ucp-ppo", ppo={"action": action, "last_layer": 5.0})
        policy = learner.policy()
        policy.save(tmp_path / "policy.safetensors")
        found = load(tmp_path / "policy.safetensors")
        stock = np.full((9, 1), -3.0, np.float32)
        obs = np.random.default_rng(0).normal(0, 30, (9, 2)).astype(np.float32)
        assert found.act(obs, stock).tolist() == policy.act(obs, stock).tolist()
        assert (found.info.action, found.info.activation) == (action, "tanh")
        with torch.no_grad():
            mean = learner.actor(
                learner.normaliser(torch.from_numpy(obs)), torch.from_numpy(stock)
            ).numpy()
        wanted = np.clip(mean, -1, 1) if action == "clipped" else np.tanh(mean)
        assert np.abs(mean).max() > 1.0
        assert found.act(obs, stock) == pytest.approx(wanted, abs=1e-4)
        assert np.abs(found.act(obs, stock)).max() <= 1.0


def test_impossible_policies_are_refused():
    info = trained("ucp-ppo", rollouts=1).policy().info
    with pytest.raises(ValueError, match="actions"):
        dataclasses.replace(info, action="rounded")
    with pytest.raises(ValueError, match="activations"):
        dataclasses.replace(info, activation="sine")
    with pytest.raises(ValueError, match="activations"):
        dataclasses.replace(info, action=None)


COURIER = {
    "num_envs": 4,
    "env_steps": 1600,
    "log_every": 160,
    "networks": {"hidden": [16]},
    "ppo": {"rollout": 48, "passes": 2, "minibatch": 32},
}


@pytest.mark.parametrize("method", ["ucp-ppo", "ppo-lag", "ppo-pid", "oncrpo"])
def test_a_run_that_was_stopped_within_a_rollout_goes_on_as_if_it_had_not(tmp_path, method):
    how = {**COURIER, "budget": "3"} if method != "ucp-ppo" else COURIER
    whole = Run("Courier-v0", method=method, **how).learn(run=tmp_path / "whole", show=False)
    part = Run("Courier-v0", method=method, **how)
    part.learn(run=tmp_path / "part", show=False, stop=lambda: part.learner.env_steps >= 1000)
    assert 0 < part.learner.rollout.length < 48
    rest = Run.resume(tmp_path / "part", env_steps=1600).learn(show=False)
    one, two = whole.learner.state(), rest.learner.state()
    assert one.keys() == two.keys()
    assert [key for key in one if one[key].tobytes() != two[key].tobytes()] == []
    for name in ("metrics.csv", "policy.safetensors"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "part" / name).read_bytes()


def test_policies_trained_on_episodes_that_end_early_are_evaluated_on_whole_ones():
    run = Run("TwoActions-v0", method="ppo-et", **COURIER, budget="0").learn(show=False)
    with torch.no_grad():
        run.learner.actor.body.layers.stack()[-1][1].fill_(9.0)  # stays for ever, at a cost of 1
    frame = run.evaluate([0.0], 8)
    assert frame["length"].unique().to_list() == [run.task.spec.max_episode_steps]


def test_learning_rates_follow_the_goal_of_the_configuration():
    settings = make(env_steps=1000)[0].settings
    assert settings.actor.at(500) == pytest.approx(1.5e-4)
    assert make(env_steps=2000)[0].settings.actor.at(1000) == pytest.approx(1.5e-4)
    assert settings.actor.at(2000) == 0.0
    assert make(ppo={"decay": "actor"})[0].settings.critic.at(999) == 3e-4


def test_learning_rates_fall_with_environment_steps():
    """Two rollouts of 32 in a training of 64: at its end the rate is 0."""
    learner, task, begun = make(env_steps=64)
    seen = [weights(learner.actor)]
    for _ in range(2):
        begun = learn(learner, task, begun, 1)
        seen.append(weights(learner.actor))
    assert (seen[0] != seen[1]).any()
    assert seen[1].tolist() == seen[2].tolist()


@pytest.mark.parametrize("unit", ["1", "2"])
def test_a_training_that_is_extended_learns_until_its_new_end(tmp_path, unit):
    """Its rates had fallen to 0 at the end it was first planned for."""
    how = {**COURIER, "budget": "3", "cost_units": unit}
    run = Run("Courier-v0", method="ppo-lag", **how).learn(run=tmp_path / "run", show=False)
    before, whole = weights(run.policy().actor), run.config.ppo.actor_rate
    resumed = Run.resume(tmp_path / "run", env_steps=3200)
    run.learn(1600, show=False)
    assert (weights(run.policy().actor) != before).any()
    for one in (run, resumed):
        learner = one.learner if unit == "1" else one.learner.learner
        assert learner.settings.actor.at(1600) == pytest.approx(whole / 2)
