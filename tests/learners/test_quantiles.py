import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ucpo.learners.compiled import counting
from ucpo.learners.compiled.counting import compiled, in_tensors
from ucpo.learners.quantiles import levels, quantile_loss


def all_pairs(quantiles, targets):
    """The definition, with every pair in memory and autograd for the gradient."""
    d = targets[:, :, None, :] - quantiles[:, :, :, None]  # (critics, batch, N, M)
    taus = levels(quantiles.shape[2])[:, None].to(quantiles)
    return (d.abs() * (taus - (d < 0).to(d)).abs()).mean((1, 2, 3))


def numbers(seed, *shape, grid=None):
    values = torch.randn(*shape, generator=torch.Generator().manual_seed(seed)) * 5.0
    return values if grid is None else (values / grid).round() * grid  # a grid makes ties


def gradient(loss, quantiles, targets):
    leaf = quantiles.clone().requires_grad_()
    value = loss(leaf, targets)
    value.sum().backward()
    return value.detach(), leaf.grad


def test_levels_are_the_midpoints_of_equal_shares():
    assert levels(4).tolist() == [0.125, 0.375, 0.625, 0.875]


@settings(max_examples=50)
@given(
    seed=st.integers(0, 1000),
    critics=st.integers(1, 3),
    batch=st.integers(1, 4),
    count=st.integers(1, 70),
    samples=st.integers(1, 70),
    grid=st.sampled_from([None, 1.0]),
    few=st.sampled_from([0, 100]),
)
def test_loss_and_gradient_are_those_of_all_pairs(seed, critics, batch, count, samples, grid, few):
    quantiles = numbers(seed, critics, batch, count, grid=grid)
    targets = numbers(seed + 1, critics, batch, samples, grid=grid)
    expected_loss, expected = gradient(all_pairs, quantiles, targets)
    for loss in (quantile_loss, lambda q, t: quantile_loss(q.double(), t.double()).float()):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(counting, "FEW", few)  # sorted or compared
            value, slope = gradient(loss, quantiles, targets)
        torch.testing.assert_close(value, expected_loss, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(slope, expected, rtol=1e-5, atol=1e-6)


def test_both_routes_agree_at_full_size():
    quantiles, targets = numbers(0, 3, 256, 100), numbers(1, 3, 256, 100)
    for one, other in zip(
        compiled(quantiles, targets), in_tensors(quantiles, targets), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-2)


def test_each_critic_has_its_own_weight_in_the_gradient():
    quantiles = numbers(0, 2, 3, 5).requires_grad_()
    quantile_loss(quantiles, numbers(1, 2, 3, 5))[0].backward()
    assert quantiles.grad[0].abs().sum() > 0.0
    assert quantiles.grad[1].abs().sum() == 0.0


def test_no_gradient_flows_into_the_targets():
    targets = numbers(1, 1, 2, 5).requires_grad_()
    quantile_loss(numbers(0, 1, 2, 5).requires_grad_(), targets).sum().backward()
    assert targets.grad is None


def test_descending_the_loss_finds_the_quantiles_of_the_targets():
    targets = torch.linspace(0.0, 1.0, 1001).reshape(1, 1, -1)
    quantiles = torch.zeros(1, 1, 4, requires_grad=True)
    optimiser = torch.optim.Adam([quantiles], lr=0.01)
    for _ in range(600):
        optimiser.zero_grad()
        quantile_loss(quantiles, targets).sum().backward()
        optimiser.step()
    assert quantiles.detach().flatten().tolist() == pytest.approx(levels(4).tolist(), abs=0.02)
