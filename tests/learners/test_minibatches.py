"""Both ways to go over a rollout make the same steps."""

import copy

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.learners.test_ppo import make
from ucpo.learners.actors import ChoiceActor, GaussianActor
from ucpo.learners.compiled.rollout_passes import Rules
from ucpo.learners.minibatches import Compiled, InTensors, Seen, minibatches_of
from ucpo.learners.networks import Body, Values
from ucpo.learners.optimisation import Adam
from ucpo.learners.surrogates import Clipped, Decisions, Focops, P3o

OBS, RATES = 5, (1e-3, 2e-3)
SURROGATES = [Clipped(0.2), Clipped(0.01), Focops(1.5, 0.02), P3o(0.2, 20.0, 0.99)]


def body(hidden, outputs, seed, *, costs=1, timed=False, features=0, activation="tanh"):
    generator = torch.Generator().manual_seed(seed)
    how = {"activation": activation, "stock_ceiling": 0.0}
    return Body(1, OBS + timed, costs, hidden, outputs, 10.0, features, generator, **how)


def policy(hidden=(32, 7), actions=2, **how):
    return GaussianActor(body(hidden, actions, 0, **how), squashed=False, log_std=-0.5)


def critics(signals=2, hidden=(32, 7), **how):
    return Values([body(hidden, 1, 1 + i, **how) for i in range(signals)], how.get("timed", False))


def rollout(actor, rows, signals, seed=0, excess=1.0):
    """What a policy did at random, with advantages and targets at random."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=generator)

    seen = Seen(normal(rows, OBS), 5.0 * normal(rows, 2), torch.rand(rows, generator=generator))
    with torch.no_grad():
        output, spread = actor(seen.obs, seen.stock), actor.spread.detach().clone()
    sample = actor.kind.sample(output, spread, generator)
    old = Decisions(
        sample=sample,
        log_prob=actor.kind.log_probability(sample, output, spread),
        output=output,
        spread=spread,
        advantage=normal(rows),
        costs=normal(rows, signals - 1),
        excess=torch.full((signals - 1,), excess),
        length=100.0,
        kind=actor.kind,
    )
    return seen, old, normal(signals, rows)


def after_passes(way, actor, values, loss, rules, material, passes, count):
    """Weights, what Adam remembers, and what came of the last pass."""
    actor, values = copy.deepcopy(actor), copy.deepcopy(values)
    adam = Adam([*actor.parameters(), *values.parameters()], 1e-5)
    go_over = way(actor, values, loss, adam, rules).over(*material)
    order = np.random.default_rng(0)
    for _ in range(passes):
        rows = torch.from_numpy(order.permutation(len(material[0].obs)))
        passed = go_over(rows, count, RATES)
    weights = [weight.detach().reshape(-1) for weight in adam.weights]
    return torch.cat(weights), adam.state(), passed


@settings(max_examples=40, deadline=None)
@given(
    surrogate=st.sampled_from(SURROGATES),
    activation=st.sampled_from(["tanh", "relu"]),
    hidden=st.sampled_from([(32, 7), (64, 64), (3,)]),
    actions=st.integers(1, 3),
    signals=st.integers(1, 3),
    shown=st.integers(0, 2),
    timed=st.booleans(),
    rows=st.integers(3, 90),
    count=st.integers(1, 3),
    rules=st.builds(
        Rules,
        st.sampled_from([0.0, 0.01]),
        st.sampled_from([0.0, 1e-2]),
        st.sampled_from([0.05, 1e6]),
        st.booleans(),
    ),
    excess=st.sampled_from([-1e3, 1.0]),
    seed=st.integers(0, 1000),
)
def test_the_compiled_pass_makes_the_steps_of_tensor_operations(
    surrogate, activation, hidden, actions, signals, shown, timed, rows, count, rules, excess, seed
):
    actor = policy(hidden, actions, costs=shown, activation=activation)
    values = critics(signals, hidden, costs=shown, activation=activation, timed=timed)
    material = rollout(actor, rows, signals, seed, excess)
    same = (actor, values, surrogate, rules, material, 3, count)
    one, adam, passed = after_passes(minibatches_of, *same)
    two, other, wanted = after_passes(InTensors, *same)
    start = torch.cat([w.reshape(-1) for m in (actor, values) for w in m.parameters()])
    assert (two - start).abs().max() > 1e-3  # something was learned
    assert one == pytest.approx(two, abs=2e-6)
    for found, expected in zip(passed, wanted, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert passed.moved > 0.0
    assert adam.keys() == other.keys()
    assert all(adam[name] == pytest.approx(other[name], rel=1e-3, abs=1e-6) for name in adam)


def test_what_is_ordinary_goes_the_compiled_way_and_all_else_the_other():
    def way(actor=None, values=None, surrogate=SURROGATES[0]):
        actor, values = actor or policy(), values or critics()
        adam = Adam([*actor.parameters(), *values.parameters()])
        return type(minibatches_of(actor, values, surrogate, adam, Rules(0.0, 0.0, 1.0, False)))

    assert all(way(surrogate=surrogate) is Compiled for surrogate in SURROGATES)
    assert way(surrogate=None) is InTensors
    assert way(surrogate=lambda old, output, spread: output.sum()) is InTensors
    assert way(actor=ChoiceActor(body((8,), 3, 0))) is InTensors
    assert way(actor=policy(features=4)) is InTensors
    assert way(values=critics(features=4)) is InTensors
    assert way(actor=policy(hidden=lambda inputs: torch.nn.Linear(inputs, 4))) is InTensors
    assert way(actor=policy().double(), values=critics().double()) is InTensors


@pytest.mark.parametrize("method", ["ucp-ppo", "ppo-lag", "focops", "p3o"])
def test_the_on_policy_learner_goes_the_compiled_way(method):
    assert isinstance(make(method)[0]._minibatches, Compiled)


def test_what_is_not_a_number_shows_in_the_weights_and_in_the_losses():
    """So that a run stops and says so, as it does whichever way is gone."""
    actor, values = policy(), critics()
    seen, old, targets = rollout(actor, 20, 2)
    targets[0, 3] = torch.nan
    for way in (minibatches_of, InTensors):
        rules = Rules(0.0, 0.0, 1.0, False)
        material = (seen, old, targets)
        weights, _, passed = after_passes(way, actor, values, SURROGATES[0], rules, material, 1, 2)
        assert weights.isnan().any()
        assert passed.losses[:, 1].isnan().any()
