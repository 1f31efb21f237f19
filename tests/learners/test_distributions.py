"""What outputs of an on-policy network stand for."""

import pytest
import torch
from torch.distributions import Categorical as Reference
from torch.distributions import kl_divergence

from ucpo.learners.distributions import Categorical
from ucpo.learners.surrogates import Clipped, Decisions, Focops, P3o, slopes

NOTHING = torch.zeros(0)
CHOICES = Categorical()


def outputs(seed=0, rows=64, choices=4):
    return torch.randn(rows, choices, generator=torch.Generator().manual_seed(seed))


def test_choices_are_drawn_as_often_as_their_weights_say():
    weights = torch.tensor([0.7, 0.2, 0.1]).log().expand(20_000, 3)
    drawn = CHOICES.sample(weights, NOTHING, torch.Generator().manual_seed(0))
    assert (drawn.sum(-1) == 1.0).all()
    assert drawn.mean(0).tolist() == pytest.approx([0.7, 0.2, 0.1], abs=0.02)


def test_probabilities_divergence_and_entropy_of_choices():
    one, two = outputs(0), outputs(1)
    first, second = Reference(logits=one), Reference(logits=two)
    drawn = CHOICES.sample(one, NOTHING, torch.Generator().manual_seed(0))
    chance = CHOICES.log_probability(drawn, one, NOTHING)
    assert chance == pytest.approx(first.log_prob(drawn.argmax(-1)), rel=1e-4)
    moved = CHOICES.divergence(one, NOTHING, two, NOTHING)
    assert moved == pytest.approx(kl_divergence(first, second), rel=1e-4)
    assert CHOICES.entropy(one, NOTHING) == pytest.approx(first.entropy(), rel=1e-4)


def made(seed=0, rows=64):
    output = outputs(seed, rows)
    sample = CHOICES.sample(output, NOTHING, torch.Generator().manual_seed(seed))
    return Decisions(
        sample=sample,
        log_prob=CHOICES.log_probability(sample, output, NOTHING),
        output=output,
        spread=NOTHING,
        advantage=outputs(seed + 1, rows)[:, 0],
        costs=outputs(seed + 2, rows)[:, :1],
        excess=torch.ones(1),
        length=10.0,
        kind=CHOICES,
    )


def test_a_policy_of_choices_that_has_not_moved_has_ratios_of_1():
    old = made()
    assert old.ratio(old.output, NOTHING) == pytest.approx(torch.ones(64), abs=1e-6)
    assert CHOICES.divergence(old.output, NOTHING, old.output, NOTHING).abs().max() < 1e-6


@pytest.mark.parametrize("surrogate", [Clipped(0.2), Focops(1.5, 0.02), P3o(0.2, 20.0, 0.99)])
def test_slopes_of_choices_are_those_of_the_loss_with_its_entropy(surrogate):
    old, output = made(), (made().output + 0.05 * outputs(9)).requires_grad_()
    loss, found, of_spread = slopes(surrogate, old, 0.3, output, NOTHING)
    plain = surrogate(old, output, NOTHING)
    assert loss.item() == pytest.approx(plain.item())
    whole = plain - 0.3 * Reference(logits=output).entropy().mean()
    assert found == pytest.approx(torch.autograd.grad(whole, output)[0], abs=1e-6)
    assert of_spread.shape == (0,)


def test_an_entropy_bonus_makes_choices_more_even_and_gaussians_wider():
    old = made()
    level = torch.zeros(64)
    old = Decisions(**{**vars(old), "advantage": level})
    _, found, _ = slopes(Clipped(0.2), old, 1.0, old.output, NOTHING)
    before = CHOICES.entropy(old.output, NOTHING).mean()
    assert CHOICES.entropy(old.output - 0.1 * found, NOTHING).mean() > before
    mean, log_std = torch.zeros(64, 4), torch.zeros(4)
    wide = Decisions(level.new_zeros(64, 4), level, mean, log_std, level, level[:, None], level, 1)
    assert slopes(Clipped(0.2), wide, 0.5, mean, log_std)[2].tolist() == pytest.approx([-0.5] * 4)
