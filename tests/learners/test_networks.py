import math
from copy import deepcopy

import pytest
import torch

from ucpo.learners.networks import LOG_STD_RANGE, Actor, Body, Critics, Layers


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


@pytest.mark.parametrize("features", [0, 16])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("outputs", [39, 5, 1])
def test_compiled_passes_and_tensor_operations_give_the_same_answers_and_gradients(
    monkeypatch, features, frozen, activation, outputs
):
    critics = body(
        members=3, inputs=3 + 2, outputs=outputs, stock_features=features, activation=activation
    )
    critics.requires_grad_(not frozen)
    obs, stock, direction = torch.randn(13, 3), torch.randn(13, 1), torch.randn(3, 13, outputs)
    found = []
    for together in (False, True):
        monkeypatch.setattr(torch.compiler, "is_compiling", lambda answer=together: answer)
        action = torch.linspace(-1.0, 1.0, 26).reshape(13, 2).requires_grad_()
        answer = critics([obs, action], stock)
        wanted = [action] if frozen else [action, *critics.parameters()]
        found.append([answer, *torch.autograd.grad((answer * direction).sum(), wanted)])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("outputs", [35, 5, 1])
def test_a_row_is_the_same_alone_and_in_a_batch_to_the_last_bit(outputs):
    network = body(members=2, inputs=3, outputs=outputs, hidden=(40, 33))
    obs, stock = torch.randn(21, 3), torch.randn(21, 1)
    together = network([obs], stock)
    for row in range(21):
        alone = network([obs[row : row + 1]], stock[row : row + 1])
        assert torch.equal(alone[:, 0], together[:, row])


@pytest.mark.parametrize("shape", [(1, 3), (2, 600, 3), (600, 3)])
def test_answers_without_a_way_back_are_the_same_to_the_last_bit(shape):
    layers = Layers(2, [3, 40, 64, 2], generator(), activation="tanh")
    inputs = torch.randn(shape)
    with torch.no_grad():
        without = layers(inputs)
    assert torch.equal(without, layers(inputs).detach())


@pytest.mark.parametrize("inputs", [torch.zeros(4, 2), torch.zeros(4, 3, dtype=torch.float64)])
def test_inputs_of_another_size_or_type_are_refused(inputs):
    with pytest.raises(ValueError, match="need inputs of 4 numbers in float32"):
        body()([inputs], torch.zeros(4, 1))


def test_the_way_back_agrees_with_finite_differences():
    double = body(members=2, inputs=3, outputs=2, hidden=(4, 4)).double()
    inputs = torch.randn(3, 3, dtype=torch.float64, requires_grad=True)
    stock = torch.randn(3, 1, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda x: double([x], stock), inputs)


def test_a_copy_and_a_reloaded_network_use_their_own_parameters():
    first, second = body(), body(hidden=(16, 16))
    obs, stock = [torch.randn(4, 3)], torch.randn(4, 1)
    before = first(obs, stock)
    copy = deepcopy(first)
    with torch.no_grad():
        first.layers.flat.zero_()
    assert torch.equal(copy(obs, stock), before)
    assert not first(obs, stock).any()
    second.load_state_dict(copy.state_dict())
    assert torch.equal(second(obs, stock), before)
    wider = second.double()([obs[0].double()], stock.double())  # its parameters lie elsewhere now
    torch.testing.assert_close(wider.float(), before)


def test_a_gradient_asked_for_after_the_parameters_changed_is_refused():
    network = body()
    answer = network([torch.randn(4, 3)], torch.randn(4, 1))
    with torch.no_grad():
        network.layers.flat.add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        answer.sum().backward()


def test_products_rounded_to_bf16_leave_the_gradient_where_it_points(monkeypatch):
    """What --precision bf16 does on a GPU; docs/benchmarks.md has more."""
    network = body(members=3, inputs=60, outputs=100, hidden=(64, 64))
    obs, stock, direction = [torch.randn(256, 60)], torch.randn(256, 1), torch.randn(3, 256, 100)

    def gradient():
        (found,) = torch.autograd.grad((network(obs, stock) * direction).sum(), network.layers.flat)
        return found.flatten()

    exact, product = gradient(), torch.baddbmm
    monkeypatch.setattr(Layers, "compiled", False)
    monkeypatch.setattr(torch, "baddbmm", lambda c, a, b: product(c, _short(a), _short(b)))
    other = gradient()
    assert not torch.equal(exact, other)
    assert torch.nn.functional.cosine_similarity(exact, other, dim=0) > 0.998


def _short(values):
    return values.bfloat16().float()


def test_units_scale_the_answers_and_travel_with_the_weights():
    plain = Critics(body(members=3, inputs=5))
    scaled = Critics(deepcopy(plain.body), units=[10.0, 10.0, 0.5])
    seen = torch.randn(4, 3), torch.randn(4, 1), torch.randn(4, 2)
    factors = torch.tensor([10.0, 10.0, 0.5])[:, None, None]
    torch.testing.assert_close(scaled(*seen), plain(*seen) * factors)
    plain.load_state_dict(scaled.state_dict())
    assert torch.equal(plain(*seen), scaled(*seen))


def test_costs_of_very_different_scale_are_seen_alike():
    generator = torch.Generator().manual_seed(0)
    body = Body(1, 1, 2, [4], 2, (0.01, 1e6), 0, generator)
    seen = body.scaled(torch.tensor([[-0.02, -2e6], [0.01, 1e6]]))
    torch.testing.assert_close(seen, torch.tensor([[-2.0, -2.0], [1.0, 1.0]]))
    assert "scales" not in body.state_dict()  # what a policy file says beside the weights
