"""Steps within a trust region, against what can be worked out by hand."""

import math

import pytest
import torch

from tests.learners.test_surrogates import decisions
from ucpo.learners.actors import GaussianActor
from ucpo.learners.networks import Body
from ucpo.learners.ppo import Seen
from ucpo.learners.surrogates import GAUSSIAN
from ucpo.learners.trust_region import (
    TrustRegion,
    conjugate_gradients,
    cpo_step,
    pcpo_step,
    trpo_step,
)

H = torch.diag(torch.tensor([2.0, 1.0]))
G, B = torch.tensor([1.0, 1.0]), torch.tensor([1.0, 0.0])


def product(vector):
    return H @ vector


def test_conjugate_gradients_solve():
    torch.manual_seed(0)
    root = torch.randn(6, 6)
    matrix, right = root @ root.T + torch.eye(6), torch.randn(6)
    found = conjugate_gradients(lambda v: matrix @ v, right, 20)
    assert found == pytest.approx(torch.linalg.solve(matrix, right), rel=1e-3, abs=1e-4)


def test_the_step_of_trpo():
    assert trpo_step(G, product, 0.05, 10).tolist() == pytest.approx([0.129099, 0.258199], abs=1e-5)
    assert trpo_step(0 * G, product, 0.05, 10).tolist() == [0.0, 0.0]


def test_the_step_of_cpo():
    step = cpo_step(G, B, 0.1, product, 0.05, 10)
    assert step.tolist() == pytest.approx([-0.1, 0.282843], abs=1e-5)


def test_the_step_of_pcpo_follows_the_natural_gradient_and_is_projected_along_the_natural_cost():
    step = pcpo_step(G, B, 0.1, product, 0.05, 10)
    assert step.tolist() == pytest.approx([-0.1, 0.258199], abs=1e-5)
    within = pcpo_step(G, B, -5.0, product, 0.05, 10)  # the whole region keeps the cost
    assert within.tolist() == trpo_step(G, product, 0.05, 10).tolist()
    assert pcpo_step(G, 0 * B, 5.0, product, 0.05, 10).tolist() == within.tolist()


@pytest.mark.parametrize("excess", [-5.0, -0.2, -0.05, 0.0, 0.05, 0.2])
@pytest.mark.parametrize("direction", [(1.0, 0.0), (-1.0, 0.5), (0.3, 1.0)])
def test_no_other_step_of_cpo_within_reach_is_better(excess, direction):
    b, radius = torch.tensor(direction), 0.05
    step = cpo_step(G, b, excess, product, radius, 10)
    assert step @ H @ step / 2 <= radius * (1 + 1e-4)
    assert excess + b @ step <= 1e-5
    angle = torch.linspace(0, 2 * math.pi, 2001)
    around = torch.stack([angle.cos() / math.sqrt(2.0), angle.sin()], 1) * math.sqrt(2 * radius)
    others = torch.cat([around * share for share in torch.linspace(0, 1, 101)])
    allowed = others[excess + others @ b <= 0.0]
    assert G @ step >= (allowed @ G).max() - 1e-3


def test_where_no_step_keeps_the_cost_it_is_lowered_as_far_as_can_be():
    step = cpo_step(G, B, 5.0, product, 0.05, 10)
    assert step.tolist() == pytest.approx([-math.sqrt(0.05), 0.0], abs=1e-5)


def small_policy():
    generator = torch.Generator().manual_seed(0)
    body = Body(1, 3, 1, [8], 2, 1.0, 0, generator, activation="tanh")
    return GaussianActor(body, squashed=False, log_std=-0.5)


@pytest.mark.parametrize(
    ("constrained", "projected"), [(False, False), (True, False), (True, True)]
)
def test_a_step_gains_and_stays_near(constrained, projected):
    torch.manual_seed(1)
    actor = small_policy()
    seen = Seen(torch.randn(256, 3), torch.randn(256, 1), torch.zeros(256))
    with torch.no_grad():
        mean, log_std = actor(seen.obs, seen.stock), actor.log_std.clone()
    sample = mean + log_std.exp() * torch.randn(256, 2)
    # The reward likes the first action, the cost dislikes the second.
    advantage, costs = sample[:, 0] - mean[:, 0], sample[:, 1:] - mean[:, 1:]
    old = decisions(
        256,
        sample=sample,
        output=mean,
        spread=log_std,
        log_prob=GAUSSIAN.log_probability(sample, mean, log_std),
        advantage=advantage,
        costs=costs,
        excess=torch.tensor([20.0]),
    )
    said = TrustRegion(0.01, 0.1, 15, 15, constrained, projected).improve(actor, seen, old)
    with torch.no_grad():
        new = actor(seen.obs, seen.stock)
        moved = GAUSSIAN.divergence(mean, log_std, new, actor.log_std).mean()
        ratio = torch.exp(GAUSSIAN.log_probability(sample, new, actor.log_std) - old.log_prob)
    assert 0.002 < moved <= 0.01
    assert said["actor_loss"] <= 0.0
    assert (ratio * advantage).mean() > advantage.mean()
    if constrained:
        assert (ratio * costs[:, 0]).mean() < costs.mean() - 0.01
