"""Constraints on the worst episodes: by levels (Chow et al.) and by the tail of quantiles."""

import numpy as np
import polars as pl
import pytest
import torch

from tests.learners.test_multipliers import episodes, price
from ucpo import Run
from ucpo.config.assembly import make_grid, make_problem
from ucpo.config.files import resolve
from ucpo.envs.interface import TaskSpec
from ucpo.errors import UsageError
from ucpo.learners.multipliers import DualAscent, Gradient
from ucpo.learners.ucp import actor_loss
from ucpo.problem import EXCESS, MEAN, BudgetGrid, Constraint, Problem, TailLimit, TailMean
from ucpo.stats import best_level, worst_mean

SPEC = TaskSpec("Test", 3, (-1.0,), (1.0,), ("cost",), None)


def tail(share):
    return TailMean("tail", lambda final_stock: final_stock, share)


def problem_of(**options):
    config = resolve("X", preset="courier", **options)
    make_grid(config, SPEC)
    return make_problem(config, SPEC.cost_names)


# --- the mean of the worst ---


def test_the_worst_quarter_of_ten_is_two_and_a_half_of_them():
    stocks = torch.tensor([3.0, 9.0, 1.0, 8.0, 7.0, 0.0, 2.0, 4.0, 5.0, 6.0])
    assert tail(0.25).expected(stocks).item() == pytest.approx((9.0 + 8.0 + 0.5 * 7.0) / 2.5)
    assert tail(0.1).expected(stocks).item() == pytest.approx(9.0)
    assert tail(0.01).expected(stocks).item() == pytest.approx(9.0)
    many = stocks.expand(4, 10)
    assert tail(0.25).expected(many).tolist() == pytest.approx([8.2] * 4)


def test_all_of_them_are_the_mean():
    stocks = torch.randn(5, 32)
    torch.testing.assert_close(tail(1.0).expected(stocks), MEAN.expected(stocks))
    torch.testing.assert_close(tail(1.0).contributions(stocks[0]), MEAN.contributions(stocks[0]))


def test_only_the_worst_quantiles_move_the_actor():
    costs = torch.arange(10.0).reshape(1, 1, 10).requires_grad_()
    loss = actor_loss(
        reward=torch.zeros(1),
        costs=costs,
        stock=torch.tensor([[-5.0]]),
        price=torch.tensor([[1.0]]),
        problem=Problem((Constraint("cost", tail(0.2)),)),
        penalty=torch.zeros(1),
    )
    assert loss.item() == pytest.approx((8.5 - 5.0) / 2.0)
    loss.backward()
    assert costs.grad.flatten().tolist() == pytest.approx([0.0] * 8 + [0.25, 0.25])


def test_prices_move_by_the_worst_of_a_window_and_not_by_single_episodes():
    constraint = Constraint("cost", tail(0.1), tolerance=0.0)
    grid = BudgetGrid.fixed([25.0])
    prices = DualAscent(Problem((constraint,)), grid, Gradient(1.0), initial=10.0, window=100)
    for k in range(100):
        prices.observe(episodes((25.0, 35.0 if k % 10 == 0 else 0.0)))
    prices.update(0)
    assert price(prices, 25.0) == pytest.approx(
        [20.0]
    )  # ten of 100 exceed by 10; the mean is -21.5


# --- levels ---


def test_each_level_has_a_tolerance_of_its_own():
    limit = TailLimit("cost", EXCESS, 0.0, limit=25.0, share=0.1)
    final, initial = torch.tensor([5.0, 5.0, -3.0, 5.0]), torch.tensor([-5.0, -20.0, -20.0, -30.0])
    expected = [5.0 - 0.1 * 20.0, 5.0 - 0.1 * 5.0, -0.1 * 5.0, 5.0]
    assert limit.violation(final, initial).tolist() == pytest.approx(expected)
    with pytest.raises(UsageError, match="know the budget"):
        limit.violation(final)


def test_prices_know_the_level_of_each_episode():
    limit = TailLimit("cost", EXCESS, 0.0, limit=20.0, share=0.5)
    grid = BudgetGrid((0.0,), (30.0,), (31,))
    prices = DualAscent(Problem((limit,)), grid, Gradient(1.0), initial=10.0, window=2)
    prices.observe(episodes((10.0, 18.0), (4.0, 10.0)))
    prices.update(0)  # half of 8 - 0.5 * 10, half of 6 - 0.5 * 16
    assert price(prices, 10.0) == pytest.approx([10.0 + 1.5])
    assert price(prices, 4.0) == pytest.approx([10.0 - 1.0])


@pytest.mark.parametrize("limit", [12.0, 25.0, 40.0])
def test_the_tail_keeps_its_limit_if_and_only_if_some_level_keeps_its_tolerance(limit):
    generator, share = np.random.default_rng(0), 0.2
    kept = []
    for _ in range(50):
        costs = generator.integers(0, generator.integers(2, 60), 10).astype(float)
        tolerated = [
            np.maximum(costs - level, 0.0).mean() <= share * (limit - level) + 1e-9
            for level in np.unique(costs)
        ]
        kept.append(worst_mean(costs, share) <= limit + 1e-9)
        assert any(tolerated) == kept[-1]
    assert 0 < sum(kept) < 50


def test_the_best_level_is_chosen_afterwards():
    def played(budget, value, costs):
        columns = {"return": [value] * len(costs), "cost_cost": costs}
        return pl.DataFrame({**columns, "budget_cost": [budget] * len(costs)})

    frame = pl.concat(
        [
            played(0.0, 1.0, [0.0] * 10),
            played(10.0, 5.0, [10.0] * 8 + [14.0, 16.0]),
            played(15.0, 7.0, [15.0] * 8 + [20.0, 40.0]),
        ]
    )
    chosen = best_level(frame, limit=15.0, share=0.2)
    assert (chosen.budget, chosen.mean_return, chosen.worst_mean) == (10.0, 5.0, 15.0)
    assert best_level(frame, limit=30.0, share=0.2).budget == 15.0
    assert best_level(frame.filter(pl.col("budget_cost") == 15.0), limit=20.0, share=0.2) is None
    with pytest.raises(UsageError, match="no budget at most the limit"):
        best_level(frame.filter(pl.col("budget_cost") > 0.0), limit=5.0, share=0.2)


# --- configurations ---


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tail": {"share": 0.0}}, "share must be above 0 and at most 1, got 0.0"),
        ({"tail": {"share": 1.5}}, "share must be above 0 and at most 1, got 1.5"),
        ({"tail": {"limit": 25.0}}, r"tail.limit 25 is outside the budgets .* 0 to 20"),
        ({"tail": {"limit": 10.0}, "utility": "mean"}, "needs --utility excess"),
        ({"utility": "tail"}, "for one budget"),
        ({"utility": "tail", "budget": "5"}, "of 8 episodes is no tail"),
        (
            {"utility": "tail", "budget": "5", "multiplier": {"kind": "pid", "window": 100}},
            "PID controller answers the mean",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(options, words):
    with pytest.raises(UsageError, match=words):
        problem_of(**options)


def test_tails_are_made_as_configured():
    (limit,) = problem_of(tail={"limit": 10.0, "share": 0.2}).constraints
    assert (limit.limit, limit.share, limit.utility) == (10.0, 0.2, EXCESS)
    (worst,) = problem_of(method="ucp-tail", budget="5", tail={"share": 0.3}).constraints
    assert worst.utility.expected(torch.arange(10.0)).item() == pytest.approx(8.0)


QUICK = {
    "env_steps": 800,
    "random_steps": 400,
    "networks": {"hidden": [16], "quantiles": 8},
    "replay": {"batch": 16},
}


@pytest.mark.parametrize(
    "options", [{"method": "ucp-tail", "budget": "5"}, {"tail": {"limit": 10.0, "share": 0.2}}]
)
def test_agents_of_tails_train(options):
    agent = Run("Courier-v0", **QUICK, **options, multiplier={"start": 0}).learn(show=False)
    assert agent.learner.updates == 50
    assert np.isfinite(agent.learner.prices()[0]).all()
