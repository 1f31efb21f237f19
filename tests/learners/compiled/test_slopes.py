"""Slopes that are written down, beside those autograd finds."""

import torch

from ucpo.learners.compiled.slopes import SquashedGaussian

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
