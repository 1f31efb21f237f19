import math

import pytest
import torch

from ucpo.agents.networks import LOG_STD_RANGE, Actor, Body, Critics


def body(members=1, inputs=3, stock_size=1, outputs=4, **settings):
    defaults = {"hidden": (16, 16), "stock_scale": 10.0, "stock_features": 0}
    generator = torch.Generator().manual_seed(0)
    return Body(
        members,
        inputs,
        stock_size,
        outputs=outputs,
        generator=generator,
        **{**defaults, **settings},
    )


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_members_are_independent_networks_evaluated_together():
    together = body(members=3)
    obs, stock = torch.randn(5, 3), torch.randn(5, 1)
    answers = together([obs], stock)
    for member in range(3):
        hidden = torch.cat([obs, stock / 10.0], 1)
        for i, (weight, bias) in enumerate(together.layers.stack()):
            hidden = hidden @ weight[member] + bias[member]
            hidden = torch.relu(hidden) if i < 2 else hidden
        torch.testing.assert_close(answers[member], hidden)
    assert not torch.allclose(answers[0], answers[1])


def test_networks_see_the_scaled_stock():
    obs = torch.randn(4, 3)
    coarse, fine = body(stock_scale=100.0), body(stock_scale=10.0)
    torch.testing.assert_close(
        coarse([obs], torch.full((4, 1), -50.0)), fine([obs], torch.full((4, 1), -5.0))
    )


@pytest.mark.parametrize("features", [0, 16])
def test_a_hidden_stock_changes_nothing(features):
    blind = body(stock_size=0, stock_features=features)
    obs = torch.randn(4, 3)
    assert torch.equal(blind([obs], torch.zeros(4, 1)), blind([obs], torch.full((4, 1), -20.0)))


def test_stock_features_pass_through_a_layer_of_their_own():
    embedded = body(stock_features=16)
    assert embedded.layers.stack()[0][0].shape[1] == 3 + 16
    assert embedded.embedding.stack()[0][0].shape == (1, 1, 16)
    obs = torch.randn(4, 3)
    assert not torch.equal(embedded([obs], torch.zeros(4, 1)), embedded([obs], torch.ones(4, 1)))


def test_the_deviation_stays_in_its_range():
    actor = Actor(body())
    _, log_std = actor(torch.randn(100, 3) * 1e3, torch.randn(100, 1) * 1e3)
    assert LOG_STD_RANGE[0] <= log_std.min()
    assert log_std.max() <= LOG_STD_RANGE[1]


def test_log_probabilities_are_those_of_the_squashed_gaussian():
    actor = Actor(body())
    sample = actor.sample(torch.randn(50, 3), torch.randn(50, 1), generator())
    normal = torch.distributions.Normal(sample.mean, sample.log_std.exp())
    squashed = torch.distributions.TransformedDistribution(
        normal, [torch.distributions.transforms.TanhTransform()]
    )
    inside = sample.action.abs().amax(-1) < 0.999  # beyond, the reference itself loses digits
    expected = squashed.log_prob(sample.action).sum(-1)
    torch.testing.assert_close(sample.log_prob[inside], expected[inside], rtol=1e-3, atol=1e-3)


def test_log_probabilities_stay_finite_far_out():
    actor = Actor(body())
    with torch.no_grad():
        actor.body.layers.stack()[-1][1][..., :2] = 40.0
    sample = actor.sample(torch.randn(50, 3), torch.randn(50, 1), generator())
    assert torch.isfinite(sample.log_prob).all()


def test_sampling_repeats_with_the_generator_and_centres_on_the_mode():
    actor = Actor(body())
    obs, stock = torch.randn(1, 3).expand(4000, -1), torch.zeros(4000, 1)
    one = actor.sample(obs, stock, generator(1))
    assert torch.equal(one.action, actor.sample(obs, stock, generator(1)).action)
    before = torch.atanh(one.action.clamp(-0.999999, 0.999999)).mean(0)
    tolerance = 5 * math.exp(one.log_std.max().item()) / math.sqrt(4000)
    torch.testing.assert_close(
        torch.tanh(before), actor.mode(obs, stock)[0], atol=tolerance, rtol=0.0
    )


def test_critics_answer_for_two_rewards_and_every_cost():
    critics = Critics(body(members=2 + 3, inputs=3 + 2, stock_size=3, outputs=7))
    answer = critics(torch.randn(4, 3), torch.randn(4, 3), torch.randn(4, 2))
    assert answer.shape == (5, 4, 7)
