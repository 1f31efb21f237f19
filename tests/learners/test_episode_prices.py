"""Prices that count every episode once."""

import numpy as np
import pytest
import torch

from ucpo.envs.interface import Episodes
from ucpo.errors import UsageError
from ucpo.learners.episode_prices import EpisodeAscent, Switch
from ucpo.learners.multipliers import ClampedAdam, Gradient, SoftplusAdam
from ucpo.problem import EXCESS, BudgetGrid, Constraint, Problem

GRID = BudgetGrid((0.0,), (20.0,), (3,))  # budgets 20, 10, 0 in the order of tables
EXCEEDED = Problem((Constraint("cost", EXCESS, 0.0),))


def finished(*pairs):
    """Episodes of (budget, cost)."""
    budgets, costs = np.array(pairs, np.float64).reshape(-1, 2).T
    k = len(costs)
    whole = np.zeros(k, np.int64)
    initial = -budgets[:, None].astype(np.float32)
    return Episodes(initial, np.zeros(k), costs[:, None], whole, whole, whole)


def ascent(kind=Gradient, rate=0.1, **changes):
    settings = {"initial": 1.0, "minimum": 1e-3} | changes
    return EpisodeAscent(EXCEEDED, GRID, kind(rate), **settings)


def test_each_episode_moves_the_price_of_its_own_budget():
    prices = ascent()
    prices.observe(finished((10, 13), (10, 12), (0, 1)))
    prices.update(0)
    assert prices.tables()[0].tolist() == pytest.approx([1.0, 1.5, 1.1])
    initial = torch.tensor([[-10.0], [-20.0]])
    assert prices.value(initial).ravel().tolist() == pytest.approx([1.5, 1.0])


def test_prices_do_not_depend_on_when_updates_come_in_between():
    one, two = ascent(), ascent()
    generator = np.random.default_rng(0)
    pairs = [(10 * generator.integers(3), generator.integers(30)) for _ in range(40)]
    one.observe(finished(*pairs))
    one.update(0)
    for first in range(0, 40, 7):
        two.observe(finished(*pairs[first : first + 7]))
        two.update(0)
        two.update(0)  # nothing new
    assert one.tables()[0].tolist() == pytest.approx(two.tables()[0].tolist(), rel=1e-5)


@pytest.mark.parametrize("kind", [Gradient, ClampedAdam, SoftplusAdam])
def test_levels_that_saw_no_episode_keep_their_price_to_the_bit(kind):
    prices = ascent(kind)
    prices.observe(finished((0, 5), (10, 15)))
    prices.update(0)
    before = prices.tables()[0].clone()
    for _ in range(5):
        prices.observe(finished((0, 5)))
        prices.update(0)
    after = prices.tables()[0]
    assert after[:2].tolist() == before[:2].tolist()
    assert after[2] > before[2]


def test_adam_counts_for_each_level_apart():
    """The first step of a level is as long as the first step of any."""
    prices = ascent(ClampedAdam)
    for _ in range(10):
        prices.observe(finished((0, 5)))
        prices.update(0)
    prices.observe(finished((10, 15)))
    prices.update(0)
    assert prices.tables()[0][1].item() == pytest.approx(1.1, rel=1e-4)


def test_prices_behind_a_softplus_sink_while_budgets_are_kept_and_stop_at_the_minimum():
    tolerant = Problem((Constraint("cost", EXCESS, 1e-6),))
    prices = EpisodeAscent(tolerant, GRID, SoftplusAdam(0.5), initial=1.0, minimum=0.5)
    for _ in range(50):
        prices.observe(finished((10, 2)))
        prices.update(0)
    assert prices.tables()[0][1].item() == pytest.approx(0.5, rel=1e-5)


def test_prices_wait_for_their_start_and_forget_what_came_before():
    prices = ascent(start=100)
    prices.observe(finished((0, 5)))
    prices.update(99)
    prices.update(100)
    assert prices.tables()[0].tolist() == [1.0] * 3
    prices.observe(finished((0, 5)))
    prices.update(100)
    assert prices.tables()[0][2] == 1.5


@pytest.mark.parametrize("kind", [Gradient, ClampedAdam, SoftplusAdam])
def test_saved_prices_go_on_to_the_bit(kind):
    one, two = ascent(kind), ascent(kind)
    one.observe(finished((0, 5), (10, 12)))
    one.update(0)
    one.observe(finished((0, 9)))  # not yet counted
    two.restore(one.state())
    for prices in (one, two):
        prices.update(0)
        prices.observe(finished((20, 25), (0, 3)))
        prices.update(0)
    assert one.tables()[0].tolist() == two.tables()[0].tolist()
    with pytest.raises(UsageError, match="multipliers"):
        two.restore({**one.state(), "levels": np.zeros(4, np.float32)})


def test_a_switch_turns_on_while_the_mean_cost_is_above_budget_and_slack():
    switch = Switch(BudgetGrid.fixed([10.0]), slack=2.0, window=2)
    initial = torch.tensor([[-10.0]])
    switch.update(0)
    assert switch.value(initial).item() == 0.0
    switch.observe(finished((10, 12), (10, 13)))
    switch.update(0)
    assert switch.value(initial).item() == torch.inf
    assert switch.tables()[0].item() == 1.0
    other = Switch(BudgetGrid.fixed([10.0]), slack=2.0, window=2)
    other.restore(switch.state())
    switch.observe(finished((10, 11)))
    switch.update(0)
    assert (switch.value(initial).item(), other.value(initial).item()) == (0.0, torch.inf)
    with pytest.raises(UsageError, match="give --budget"):
        Switch(GRID, slack=2.0, window=2)
