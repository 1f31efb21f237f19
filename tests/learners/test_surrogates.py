"""Advantages at their prices, and what minibatches say about a policy."""

import dataclasses

import pytest
import torch

from ucpo.learners.surrogates import (
    GAUSSIAN,
    Clipped,
    Decisions,
    Focops,
    P3o,
    combined,
    shares,
    slopes,
    standardised,
)


def decisions(rows=64, actions=2, seed=0, **changes):
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=generator)

    mean, log_std = normal(rows, actions), torch.full((actions,), -0.5)
    sample = mean + log_std.exp() * normal(rows, actions)
    made = Decisions(
        sample=sample,
        log_prob=GAUSSIAN.log_probability(sample, mean, log_std),
        output=mean,
        spread=log_std,
        advantage=normal(rows),
        costs=normal(rows, 1),
        excess=torch.zeros(1),
        length=1000.0,
    )
    return dataclasses.replace(made, **changes)


# --- prices ---


def test_reward_and_costs_are_weighed_at_unit_scale():
    price = torch.tensor([[1.0, 0.5]])
    reward, costs = shares(price)
    gain = reward * 2.0 - (costs * torch.tensor([[1.0, 3.0]])).sum(-1)
    assert gain.item() == pytest.approx((2 - 1 - 1.5) / 2.5)  # -0.2


def test_at_an_infinite_price_costs_alone_count():
    reward, costs = shares(torch.tensor([[torch.inf, 3.0], [0.0, 0.0], [torch.inf, torch.inf]]))
    assert reward.tolist() == [0.0, 1.0, 0.0]
    assert costs.tolist() == [[1.0, 0.0], [0.0, 0.0], [0.5, 0.5]]


def test_each_row_has_the_price_of_its_own_budget():
    """Prices 0 and a million in one rollout: the first rows follow the reward alone."""
    torch.manual_seed(0)
    reward, costs = torch.randn(100), torch.randn(100, 1)
    price = torch.zeros(100, 1)
    price[50:] = 1e6
    found = combined(reward, costs, price, "raw")
    spread = torch.cat([reward[:50], -costs[50:, 0]]).std(correction=0)
    ahead = found[:50] - found[:50].mean()
    assert ahead == pytest.approx((reward[:50] - reward[:50].mean()) / spread, rel=1e-3, abs=1e-4)


def test_costs_of_a_hundredth_weigh_a_hundredth():
    """A cost advantage is not divided by its own spread, or prices would mean nothing."""
    torch.manual_seed(0)
    reward, costs, price = torch.randn(500), torch.randn(500, 1), torch.ones(500, 1)
    for scale in ("raw", "omnisafe"):
        alone = combined(reward, 0.0 * costs, price, scale)
        small = combined(reward, 1e-3 * costs, price, scale) - alone
        smaller = combined(reward, 1e-5 * costs, price, scale) - alone
        assert small.std() / smaller.std() == pytest.approx(100.0, rel=0.02)
    both = combined(reward, 1e-3 * costs, price, "both")
    assert both == pytest.approx(combined(reward, 1e-5 * costs, price, "both"), abs=1e-2)


def test_scales_agree_where_nothing_is_priced():
    reward, costs, price = torch.randn(50), torch.randn(50, 1), torch.zeros(50, 1)
    for scale in ("raw", "omnisafe", "both"):
        assert combined(reward, costs, price, scale) == pytest.approx(standardised(reward))
    assert combined(reward, costs[:, :0], price[:, :0], "raw") == pytest.approx(
        standardised(reward)
    )


# --- losses ---


@pytest.mark.parametrize("excess", [-1e3, 5.0])
@pytest.mark.parametrize(
    "surrogate", [Clipped(0.2), Focops(1.5, 0.1), Focops(0.3, 1e6), P3o(0.2, 20.0, 0.9)]
)
def test_compiled_losses_are_those_in_plain_operations(surrogate, excess):
    costs, excess = torch.randn(200, 2), torch.tensor([excess, 1.0])
    old = decisions(rows=200, costs=costs, excess=excess)
    mean = (old.output + 0.3 * torch.randn(200, 2)).requires_grad_()
    log_std = (old.spread + torch.tensor([0.1, -0.05])).requires_grad_()
    loss, *gradients = slopes(surrogate, old, 0.0, mean, log_std)
    plain = surrogate(old, mean, log_std)
    assert loss.item() == pytest.approx(plain.item(), rel=1e-5, abs=1e-6)
    for one, two in zip(gradients, torch.autograd.grad(plain, [mean, log_std]), strict=True):
        assert one == pytest.approx(two, rel=1e-4, abs=2e-6)


def test_a_policy_that_has_not_moved_has_ratios_of_1_and_no_divergence():
    old = decisions()
    ratio = torch.exp(GAUSSIAN.log_probability(old.sample, old.output, old.spread) - old.log_prob)
    assert ratio == pytest.approx(torch.ones(64), abs=1e-6)
    assert GAUSSIAN.divergence(old.output, old.spread, old.output, old.spread).abs().max() < 1e-6
    assert Clipped(0.2)(old, old.output, old.spread).item() == pytest.approx(
        -old.advantage.mean().item(), abs=1e-6
    )


def test_divergence_is_that_of_gaussians():
    from torch.distributions import Normal, kl_divergence

    mean, other = torch.randn(5, 2), torch.randn(5, 2)
    log_std, other_log_std = torch.randn(2), torch.randn(2)
    exact = kl_divergence(Normal(mean, log_std.exp()), Normal(other, other_log_std.exp())).sum(-1)
    assert GAUSSIAN.divergence(mean, log_std, other, other_log_std) == pytest.approx(
        exact, rel=1e-4
    )
    chance = Normal(mean, log_std.exp()).log_prob(other).sum(-1)
    assert GAUSSIAN.log_probability(other, mean, log_std) == pytest.approx(chance, rel=1e-4)


def test_focops_compares_each_sample_with_itself():
    """A column minus a row would be a matrix, and its mean looks like a loss."""
    old = decisions(rows=3)
    mean, spread = old.output + torch.tensor([[0.0], [0.01], [9.0]]), old.spread + 0.05
    ratio = torch.exp(GAUSSIAN.log_probability(old.sample, mean, spread) - old.log_prob)
    moved = GAUSSIAN.divergence(mean, spread, old.output, old.spread)  # from the new policy
    near = torch.tensor([1.0, 1.0, 0.0])
    expected = ((moved - ratio * old.advantage / 1.5) * near).sum() / 3
    assert Focops(1.5, 0.02)(old, mean, spread).item() == pytest.approx(expected.item())


def test_p3o_charges_expected_excess_and_nothing_below_the_budget():
    old = decisions(excess=torch.tensor([10.0]), costs=torch.zeros(64, 1))
    reward = -old.advantage.mean().item()
    loss = P3o(0.2, 20.0, 0.99)(old, old.output, old.spread).item()
    assert loss == pytest.approx(reward + 20.0 * 10.0 * 0.01, rel=1e-4)
    old = dataclasses.replace(old, excess=torch.tensor([-10.0]))
    assert P3o(0.2, 20.0, 0.99)(old, old.output, old.spread).item() == pytest.approx(reward, 1e-3)
