"""Step sizes and gradient norms."""

import numpy as np
import pytest
import torch

from ucpo.errors import UsageError
from ucpo.learners import optimisation
from ucpo.learners.optimisation import Adam, Descent, Slope, add_squares, limit_norms


def weight(*values):
    made = torch.zeros(torch.tensor(values).shape)
    made.grad = torch.tensor(values)
    return made


def test_the_norm_of_all_networks_together():
    one, rows = weight(3.0, 0.0), weight([0.0, 4.0], [0.0, 0.0])
    limit_norms([[one]], [rows], 1.0, apart=False)
    assert one.grad.tolist() == pytest.approx([0.6, 0.0])
    assert rows.grad.tolist() == [pytest.approx([0.0, 0.8]), [0.0, 0.0]]
    limit_norms([[one]], [rows], 1.1, apart=False)
    assert one.grad.tolist() == pytest.approx([0.6, 0.0])  # within the limit nothing changes


def test_the_norm_of_each_network_apart():
    one, rows = weight(3.0, 0.0), weight([0.0, 4.0], [0.0, 0.5])
    limit_norms([[one]], [rows], 1.0, apart=True)
    assert one.grad.tolist() == pytest.approx([1.0, 0.0])
    assert rows.grad.tolist() == [pytest.approx([0.0, 1.0]), pytest.approx([0.0, 0.5])]


def test_a_slope_falls_to_nothing_over_the_run_or_stays():
    assert [Slope(0.4, 100).at(steps) for steps in (0, 50, 100, 200)] == [0.4, 0.2, 0.0, 0.0]
    assert Slope(0.4, None).at(10**9) == 0.4


def test_the_slope_of_squares():
    one = weight(1.0)
    one.fill_(3.0)
    add_squares([one], 0.5)
    assert one.grad.tolist() == [1.0 + 2 * 0.5 * 3.0]


# --- Adam, clipped ---


def networks(seed=0):
    """Weights of four networks in two matrices."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(4, k, generator=generator).requires_grad_() for k in (37, 5)]


def loss_of(weights, step=0):
    return sum(
        (w * (1.0 + step) + w.square() * (4.0 * torch.arange(4.0)[:, None])).sum() for w in weights
    )


def by_the_book(weights, rates):
    """PyTorch's own Adam; the first two networks clipped together, each other one apart."""
    adam = torch.optim.Adam(weights)
    for step, rate in enumerate(rates):
        adam.zero_grad()
        loss_of(weights, step).backward()
        for rows in (slice(0, 2), slice(2, 3), slice(3, 4)):
            norm = torch.cat([w.grad[rows].flatten() for w in weights]).norm()
            for w in weights:
                w.grad[rows] *= min(3.0 / (norm.item() + 1e-6), 1.0)
        adam.param_groups[0]["lr"] = rate
        adam.step()


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("compiled", [True, False])
def test_a_descent_is_adam_on_gradients_clipped_by_network(monkeypatch, compiled, count):
    if not compiled:
        monkeypatch.setattr(optimisation, "row_squares", optimisation._row_squares)
        monkeypatch.setattr(optimisation, "descend", optimisation._descend)
    rates = (0.1, 0.1, 0.03, 0.01)
    weights, book = networks()[:count], networks()[:count]
    descent = Descent(weights, limit=3.0, together=2)
    descent._adam.compiled = compiled
    for step, rate in enumerate(rates):
        descent.step(loss_of(weights, step), rate)
    by_the_book(book, rates)
    for ours, theirs in zip(weights, book, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-6)
        assert (ours - networks()[0][:, : ours.shape[1]]).abs().max() > 0.1


def test_weights_of_any_shape_have_rates_of_their_own():
    ours, book = ([torch.ones(3).requires_grad_(), torch.ones(2, 4).requires_grad_()] for _ in "ab")
    adam = Adam(ours, epsilon=1e-5)
    groups = [{"params": [w], "lr": rate} for w, rate in zip(book, (0.1, 0.01), strict=True)]
    theirs = torch.optim.Adam(groups, eps=1e-5)
    for _ in range(3):
        for weights in (ours, book):
            for weight in weights:
                weight.grad = 2.0 * weight.detach() - 0.5
        adam.step([0.1, 0.01])
        theirs.step()
    for one, other in zip(ours, book, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-6)


def test_a_restored_descent_goes_on_bit_for_bit():
    weights = networks()
    descent = Descent(weights, limit=3.0)
    assert descent.state() == {}
    for step in range(3):
        descent.step(loss_of(weights, step), 0.1)
    saved, there = descent.state(), [w.detach().clone().requires_grad_() for w in weights]
    other = Descent(there, limit=3.0)
    other.restore(saved)
    for one, at in ((descent, weights), (other, there)):
        one.step(loss_of(at, 3), 0.1)
    assert all(torch.equal(a, b) for a, b in zip(weights, there, strict=True))
    assert int(saved["0/step"]) == 3  # a copy, which later steps leave alone
    other.restore({})
    assert other.state() == {}


def test_a_descent_refuses_the_state_of_other_networks():
    descent = Descent(networks(), limit=1.0)
    state = {"0/step": np.float32(1), "0/exp_avg": np.zeros((4, 37), np.float32)}
    with pytest.raises(UsageError, match="optimiser"):
        descent.restore(state)
