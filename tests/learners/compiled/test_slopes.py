"""Slopes that are written down, beside those autograd finds."""

import pytest
import torch

from ucpo.learners.compiled.slopes import PricedLoss, SquashedGaussian, linear_costs
from ucpo.learners.ucp import actor_loss, squared_size
from ucpo.problem import EXCESS, MEAN, Constraint, Problem, register_utility

RANGE = (-5.0, 2.0)


def outputs(batch=7, actions=3):
    generator = torch.Generator().manual_seed(0)
    said = 3.0 * torch.randn(batch, 2 * actions, generator=generator)
    said[0, 0] = 30.0  # tanh is 1 there
    return said, torch.randn(batch, actions, generator=generator)


def test_the_slopes_of_a_squashed_gaussian_agree_with_finite_differences():
    said, noise = (part.double() for part in outputs())
    said.requires_grad_()
    assert torch.autograd.gradcheck(lambda x: SquashedGaussian.apply(x, noise, *RANGE), said)


def test_the_compiled_gaussian_is_that_in_tensors():
    found = []
    for kind in (torch.float32, torch.float64):
        said, noise = (part.to(kind) for part in outputs())
        said.requires_grad_()
        sample = SquashedGaussian.apply(said, noise, *RANGE)
        total = sum(
            (part * torch.linspace(1.0, 2.0, part.numel()).view_as(part)).sum() for part in sample
        )
        found.append([*sample, *torch.autograd.grad(total, said)])
    for ours, exact in zip(*found, strict=True):
        torch.testing.assert_close(ours.double(), exact, rtol=1e-5, atol=1e-5)


def problem(*utilities):
    return Problem(tuple(Constraint(f"cost{i}", u) for i, u in enumerate(utilities)))


@pytest.mark.parametrize("utilities", [(EXCESS,), (MEAN,), (EXCESS, MEAN, EXCESS)])
def test_the_priced_loss_is_the_equation_with_its_slopes(utilities):
    generator = torch.Generator().manual_seed(1)
    costs, batch = len(utilities), 9

    def numbers(*shape):
        return torch.randn(*shape, generator=generator)

    stock, price = numbers(batch, costs), numbers(batch, costs).abs()
    given = [numbers(2 + costs, batch, 11), numbers(batch), numbers(batch, 3), numbers(batch, 3)]
    weight, regulariser = torch.tensor(0.3), 0.07
    found = []
    for compiled in (True, False):
        quantiles, log_prob, mean, log_std = leaves = [
            part.clone().requires_grad_() for part in given
        ]
        if compiled:
            linear = linear_costs(problem(*utilities), torch.device("cpu"))
            loss = PricedLoss.apply(*leaves, stock, price, linear, weight, regulariser)
        else:
            loss = actor_loss(
                reward=quantiles[:2].mean(-1).amin(0),
                costs=quantiles[2:].transpose(0, 1),
                stock=stock,
                price=price,
                problem=problem(*utilities),
                penalty=weight * log_prob + regulariser * squared_size(mean, log_std),
            )
        found.append([loss, *torch.autograd.grad(2.0 * loss, leaves)])
    for ours, book in zip(*found, strict=True):
        torch.testing.assert_close(ours, book, rtol=1e-5, atol=1e-7)


def test_a_prediction_that_is_no_number_shows_in_the_loss():
    quantiles = torch.zeros(3, 4, 5)
    quantiles[2, 1, 3] = torch.nan
    nothing = torch.zeros(4, 2)
    linear = torch.tensor([False])
    loss = PricedLoss.apply(
        quantiles, torch.zeros(4), nothing, nothing, torch.zeros(4, 1), torch.ones(4, 1), linear,
        torch.tensor(0.1), 0.1,
    )  # fmt: skip
    assert loss.isnan()


def test_other_utilities_are_left_to_autograd():
    squared = register_utility("squared-for-slopes", lambda z: z.clip(min=0.0) ** 2)
    cpu = torch.device("cpu")
    assert linear_costs(problem(EXCESS, squared), cpu) is None
    assert linear_costs(problem(EXCESS), torch.device("meta")) is None
    assert linear_costs(problem(EXCESS, MEAN), cpu).tolist() == [False, True]
