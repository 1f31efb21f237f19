"""Step sizes and gradient norms."""

import pytest
import torch

from ucpo.learners.optimisation import Slope, add_squares, limit_norms


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
