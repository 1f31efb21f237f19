import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.learners.test_ucp import make
from ucpo import UCP, load
from ucpo.errors import UsageError
from ucpo.learners.normaliser import Normaliser

CPU = torch.device("cpu")


def observed(obs, parts=3):
    normaliser = Normaliser(obs.shape[1], True, CPU)
    for part in np.array_split(obs, parts):
        normaliser.observe(part.astype(np.float32))
    return normaliser


@given(st.integers(0, 1000), st.integers(1, 9))
def test_what_was_seen_comes_out_with_mean_0_and_deviation_1(seed, parts):
    generator = np.random.default_rng(seed)
    obs = generator.normal([5.0, -300.0, 0.1], [2.0, 40.0, 0.5], (50, 3)).astype(np.float32)
    seen = observed(obs, parts)(torch.from_numpy(obs)).numpy()
    np.testing.assert_allclose(seen.mean(0), 0.0, atol=1e-4)
    np.testing.assert_allclose(seen.std(0), 1.0, rtol=1e-4)


def test_what_hardly_changed_is_not_blown_up():
    still = np.full((20, 1), 9.81)
    assert observed(still)(torch.tensor([[9.91]])).item() == pytest.approx(10.0, rel=1e-3)


def test_inactive_it_changes_nothing_and_saves_nothing():
    normaliser = Normaliser(2, False, CPU)
    normaliser.observe(np.ones((4, 2), np.float32))
    obs = torch.randn(3, 2)
    assert normaliser(obs) is obs
    assert normaliser.state() == {}


@pytest.mark.parametrize("features", [0, 4])
def test_plain_networks_do_with_observations_what_the_trained_ones_do_with_normalised_ones(
    features,
):
    agent = make(networks={"hidden": [16, 16], "stock_features": features, "stock_scale": 10.0})
    normaliser = observed(np.random.default_rng(0).normal(3.0, 7.0, (40, 3)))
    obs, stock, action = torch.randn(5, 3) * 7.0, torch.randn(5, 1), torch.rand(5, 2)
    with torch.no_grad():
        expected = agent.critics(normaliser(obs), stock, action)
        plain = normaliser.plain(agent.critics)
        assert torch.equal(plain(obs, stock, action), expected)
        assert not torch.allclose(agent.critics(obs, stock, action), expected, atol=1e-2)
        mode = agent.actor.mode(normaliser(obs), stock)
        assert torch.equal(normaliser.plain(agent.actor).mode(obs, stock), mode)


def test_a_single_row_is_answered_like_the_same_row_in_a_batch_and_from_a_file(tmp_path):
    """As with a gravity of 9.81 that changes by 0.01: folded in, these differ by more than 1e-4."""
    agent = UCP("Courier-v0", networks={"hidden": [64, 64], "normalise": True}, env_steps=100)
    seen = np.random.default_rng(0).normal([9.81, -300.0], [0.01, 0.5], (2000, 2))
    for part in np.split(seen.astype(np.float32), 20):
        agent.learner.normaliser.observe(part)
    with torch.no_grad():
        agent.learner.actor.body.layers.stack()[-1][0].mul_(5.0)  # decided, as trained ones are
    agent.policy().save(tmp_path / "policy.safetensors")
    policy = load(tmp_path)
    obs, stock = seen[:500].astype(np.float32), np.zeros((500, 1), np.float32)
    batch = policy.act(obs, stock)
    rows = np.concatenate([policy.act(obs[i : i + 1], stock[:1]) for i in range(len(obs))])
    assert np.abs(batch - rows).max() < 5e-6
    assert batch.std() > 0.1
    assert np.array_equal(batch, agent.policy().act(obs, stock))


@pytest.mark.parametrize("normalise", [False, True])
@pytest.mark.parametrize("method", ["ucp", "ucp-ppo"])
def test_a_policy_stays_as_it_is_while_training_goes_on(method, normalise):
    networks, ppo = {"hidden": [8], "normalise": normalise}, {"rollout": 10, "minibatch": 40}
    how = {"networks": networks, "ppo": ppo, "random_steps": 0, "num_envs": 4, "env_steps": 80}
    agent = UCP("Courier-v0", method=method, **how)
    obs, stock = np.ones((1, 2), np.float32), np.zeros((1, 1), np.float32)
    policy = agent.policy()
    before = policy.act(obs, stock)
    agent.learn(show=False)
    assert policy.act(obs, stock).tolist() == before.tolist()
    assert agent.policy().act(obs, stock).tolist() != before.tolist()


def test_a_scale_of_nothing_in_a_file_is_refused(tmp_path):
    agent = UCP("Courier-v0", networks={"hidden": [8], "normalise": True}, env_steps=100)
    policy = agent.policy()
    policy.actor.body.scale[0] = 0.0
    policy.save(tmp_path / "policy.safetensors")
    with pytest.raises(UsageError, match="no scale"):
        load(tmp_path)


def test_a_training_acts_learns_and_saves_with_it():
    agent = UCP(
        "Courier-v0",
        networks={"hidden": [16], "quantiles": 8, "normalise": True},
        random_steps=80,
        env_steps=240,
    )
    agent.learn(show=False)
    obs = np.random.default_rng(0).normal(size=(4, agent.task.spec.observation_size))
    obs, stock = obs.astype(np.float32), np.zeros((4, 1), np.float32)
    with torch.no_grad():
        inside = agent.learner.actor.mode(
            agent.learner.normaliser(torch.from_numpy(obs)), torch.from_numpy(stock)
        )
    np.testing.assert_allclose(agent.policy().act(obs, stock), inside.numpy(), atol=1e-5)
    learner = agent.learner
    learner._choice = np.random.default_rng(5)
    seen = learner.seen(learner.draw())
    drawn = learner.replay.sample(learner.settings.batch, np.random.default_rng(5))
    assert torch.equal(seen.obs, learner.normaliser(drawn.obs))
    assert torch.equal(seen.successor, learner.normaliser(drawn.successor))


def test_its_state_goes_on_and_a_wrong_one_is_refused():
    normaliser = observed(np.random.default_rng(1).normal(size=(9, 3)))
    other = Normaliser(3, True, CPU)
    other.restore(normaliser.state())
    obs = torch.randn(2, 3)
    assert torch.equal(other(obs), normaliser(obs))
    with pytest.raises(UsageError, match="normaliser"):
        Normaliser(3, False, CPU).restore(normaliser.state())
