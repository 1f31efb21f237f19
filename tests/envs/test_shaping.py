"""What methods change about tasks: rewards, ends of episodes, and nothing else."""

import dataclasses

import numpy as np
import pytest

from ucpo import stock as stocks
from ucpo.envs.illustration import Courier, TwoActions
from ucpo.envs.shaping import (
    EarlyTermination,
    NothingOnceExceeded,
    Penalty,
    Plain,
    Saute,
    Staggered,
    all_or_nothing,
    excess,
    unshaped,
)
from ucpo.stock import Start

STAY = np.ones((1, 1), np.float32)


def started(task, budget):
    task.reset(iter(Start(seed, np.array([-budget], np.float32)) for seed in range(1000)))
    return task


def shaped(shaping, stock, cost, reward=7.0):
    z = np.array([[float(stock)]])
    return shaping(np.array([reward]), z, z + cost, np.array([[-3.0]])).item()


@pytest.mark.parametrize(
    ("stock", "cost", "expected"), [(-1, 1, 7.0), (0, 0, 7.0), (0, 1, -0.2), (5, 0, -0.2)]
)
def test_exactly_on_budget_is_within_it(stock, cost, expected):
    assert shaped(Saute(0.2), stock, cost) == expected
    assert shaped(NothingOnceExceeded(), stock, cost) == (expected if expected > 0 else 0.0)
    assert shaped(Plain(), stock, cost) == 7.0


def test_of_several_budgets_every_one_must_hold():
    """Costs of 1 after stocks of -5 and 0: the second budget is exceeded, by 1."""
    stock, cost = np.array([[-5.0, 0.0]]), np.array([[1.0, 1.0]])
    step = np.array([7.0]), stock, stock + cost, np.array([[-5.0, -3.0]])
    assert Saute(0.2)(*step).item() == -0.2
    assert NothingOnceExceeded()(*step).item() == 0.0
    assert Penalty(2.0, excess)(*step).item() == 7.0 - 2.0 * 1.0
    assert Penalty(2.0, all_or_nothing)(*step).item() == 7.0 - 2.0 * 4.0


@pytest.mark.parametrize(("budgets", "ended"), [((9, 9), None), ((9, 2), 3), ((1, 9), 2)])
def test_whichever_budget_is_exceeded_first_ends_the_episode(budgets, ended):
    class Both(TwoActions):
        def advance(self, actions):
            out = super().advance(actions)
            return dataclasses.replace(out, costs=np.repeat(out.costs, 2, axis=1))

    task = Both(1)
    task.spec = dataclasses.replace(task.spec, cost_names=("one", "two"))
    task = EarlyTermination(task)
    task.reset(iter([Start(0, -np.array(budgets, np.float32))] * 9))
    lengths = [step.episodes.lengths.tolist() for step in (task.step(STAY) for _ in range(4))]
    assert lengths.index([ended]) + 1 == ended if ended else lengths == [[]] * 4


def test_penalties_charge_what_a_step_adds():
    assert shaped(Penalty(2.0, excess), -1, 3) == 7.0 - 2.0 * 2
    assert shaped(Penalty(2.0, all_or_nothing), -1, 3) == 7.0 - 2.0 * 5
    assert shaped(Penalty(2.0, all_or_nothing), -2, 1) == 7.0


@pytest.mark.parametrize(("discount", "expected"), [(0.999, 15.807614), (0.9999, 23.791777)])
def test_the_budget_of_a_discounted_stock(discount, expected):
    assert stocks.discounted_budget(25.0, discount, 1000) == pytest.approx(expected, abs=1e-6)
    assert stocks.discounted_budget(25.0, 1.0, 1000) == 25.0


def test_the_discounted_stock_of_saute():
    budget = stocks.discounted_budget(25.0, 0.999, 1000)
    stock, left = np.array([-budget]), []
    for cost in (1.0, 0.0, 1.0):
        stock = stocks.advance(stock, np.array([cost]), 0.999)
        left.append(-stock.item() / budget)
    assert left == pytest.approx([0.937677, 0.938616, 0.876231], abs=1e-6)


def test_episodes_end_in_the_step_that_exceeds_and_not_in_one_that_reaches():
    task = started(EarlyTermination(TwoActions(1)), 2)
    steps = [task.step(STAY) for _ in range(3)]  # costs 1, 1, 1
    assert [bool(step.terminated[0]) for step in steps] == [False, False, True]
    assert [bool(step.truncated[0]) for step in steps] == [False] * 3
    assert steps[-1].episodes.costs.tolist() == [[3.0]]
    rewards = NothingOnceExceeded()
    last = steps[-1]
    before = last.successor_stock - last.costs
    assert rewards(last.reward, before, last.successor_stock, last.initial_stock).item() == 0.0


def test_an_episode_that_exceeds_its_budget_as_time_runs_out_has_no_future():
    task = started(EarlyTermination(TwoActions(1, max_episode_steps=3)), 2)
    last = [task.step(STAY) for _ in range(3)][-1]
    assert (last.terminated.tolist(), last.truncated.tolist()) == ([True], [False])


def test_what_an_episode_spent_does_not_count_in_the_next():
    task = started(EarlyTermination(TwoActions(1, max_episode_steps=20)), 25)
    ends = [task.step(STAY) for _ in range(40)]
    assert [len(step.episodes) for step in ends] == ([0] * 19 + [1]) * 2
    assert not any(step.terminated.any() for step in ends)


def test_a_task_around_a_task_around_a_task_still_knows_the_stock():
    task = started(Staggered(EarlyTermination(TwoActions(1))), 2)
    lengths = []
    for _ in range(30):
        lengths += task.step(STAY).episodes.lengths.tolist()
    assert set(lengths) == {3}
    assert isinstance(unshaped(task), TwoActions)


def test_spread_out_episodes_are_saved_and_go_on():
    def make():
        return Staggered(EarlyTermination(Courier(8)))

    one = started(make(), 3)
    actions = np.zeros((8, 1), np.float32)
    for _ in range(3):
        one.step(actions)
    two = started(make(), 3)
    two.set_state(one.get_state(), one._starts)
    copied = [int(two.row_state(row)["drop_at"]) for row in range(8)]
    assert copied == [int(one.row_state(row)["drop_at"]) for row in range(8)]
    assert len(set(copied)) > 1
    step = two.step(actions)
    assert (step.successor[:, -1] == one.step(actions).successor[:, -1]).all()


@pytest.mark.parametrize(
    ("shaping", "mean", "doubtful"),
    [
        (Saute(1.0), -0.5, False),
        (Saute(1.0), -1.5, True),
        (NothingOnceExceeded(), 0.1, False),
        (NothingOnceExceeded(), -0.1, True),
        (Penalty(1.0, excess), -9.0, False),
        (Plain(), -9.0, False),
    ],
)
def test_doubts_are_told_where_exceeding_pays(shaping, mean, doubtful):
    assert (shaping.doubt(mean) is not None) == doubtful
