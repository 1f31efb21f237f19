import dataclasses

import numpy as np
import pytest
import torch

from ucpo.envs.interface import Episodes, Step
from ucpo.errors import UsageError
from ucpo.learners.replay import Replay


def step(successor, *, reward=1.0, cost=0.0, stock=0.0, initial=0.0, end=None, n=1, env_steps=1):
    """A step of n environments alike; `end` is None, "terminated" or "truncated"."""
    column = np.full((n, 1), 1.0, np.float32)
    none = np.empty(0)
    return Step(
        obs=column * -99.0,  # the next episode's: must never be stored
        stock=column * -99.0,
        successor=column * successor,
        successor_stock=column * stock,
        initial_stock=column * initial,
        reward=np.full(n, reward),
        costs=np.full((n, 1), cost),
        env_steps=np.full(n, env_steps),
        terminated=np.full(n, end == "terminated"),
        truncated=np.full(n, end == "truncated"),
        episodes=Episodes(none, none, none, none, none, none),
    )


def fill(replay, steps, n=1):
    """Store steps whose observations, stocks and actions are 0, 1, 2, ..."""
    for i, one in enumerate(steps):
        column = np.full((n, 1), float(i), np.float32)
        replay.add(column, column * 10.0, column * 0.1, one)


def make(n_step=3, gamma=0.5, capacity=8, num_envs=1, cost_gamma=0.5, hold=1):
    return Replay(capacity, num_envs, 1, 1, 1, n_step, gamma, cost_gamma, hold)


def window(replay, row, env=0):
    batch = replay.windows(np.array([row]), np.array([env]))
    return float(batch.reward), float(batch.discount), float(batch.successor)


def test_a_full_window_sums_discounted_rewards_and_bootstraps_after_n_steps():
    replay = make()
    fill(replay, [step(i + 1.0, reward=2.0**i) for i in range(5)])
    assert window(replay, 0) == (1.0 + 0.5 * 2.0 + 0.25 * 4.0, 0.5**3, 3.0)


def test_a_window_ends_at_a_time_limit_and_bootstraps_from_the_last_observation():
    replay = make()
    fill(replay, [step(1.0), step(2.0, end="truncated"), step(30.0), step(31.0)])
    assert window(replay, 0) == (1.0 + 0.5, 0.5**2, 2.0)
    assert window(replay, 1) == (1.0, 0.5, 2.0)


def test_a_window_ends_at_a_termination_and_does_not_bootstrap():
    replay = make()
    fill(replay, [step(1.0), step(2.0, end="terminated"), step(30.0), step(31.0)])
    assert window(replay, 0)[:2] == (1.5, 0.0)


def test_a_window_never_mixes_two_episodes():
    replay = make(n_step=3)
    fill(replay, [step(1.0, end="truncated"), *[step(9.0, reward=100.0, cost=100.0)] * 5])
    batch = replay.windows(np.array([0]), np.array([0]))
    assert (float(batch.reward), float(batch.costs)) == (1.0, 0.0)


def test_a_window_seen_under_another_budget_keeps_what_had_been_spent():
    replay = make(n_step=1)
    spent = [step(1.0, cost=3.0, stock=-4.0, initial=-10.0)] * 2
    for i, one in enumerate(spent):
        column = np.full((1, 1), float(i), np.float32)
        replay.add(column, column * 0.0 - 7.0, column, one)  # 3 of 10 spent, then 3 more
    both = replay.windows(np.array([0, 1]), np.array([0, 0]))
    seen = both.under(torch.tensor([[-5.0]]))
    assert seen.initial_stock.tolist() == [[-5.0], [-10.0]]
    assert seen.stock.tolist() == [[-2.0], [-7.0]]
    assert seen.successor_stock.tolist() == [[1.0], [-4.0]]
    assert seen.costs.tolist() == both.costs.tolist() == [[3.0], [3.0]]


def test_a_window_stops_at_the_newest_transition():
    replay = make()
    fill(replay, [step(1.0), step(2.0)])
    assert window(replay, 0) == (1.5, 0.25, 2.0)
    assert window(replay, 1) == (1.0, 0.5, 2.0)


def test_a_window_does_not_run_from_the_newest_row_into_the_oldest():
    replay = make(capacity=4)
    fill(replay, [step(i + 1.0) for i in range(6)])  # rows 0, 1 hold steps 4, 5
    assert window(replay, 1) == (1.0, 0.5, 6.0)
    assert window(replay, 3) == (1.0 + 0.5 + 0.25, 0.125, 6.0)  # wraps: steps 3, 4, 5
    assert len(replay) == 4


def test_costs_stocks_and_initial_stocks_come_from_their_own_ends_of_the_window():
    replay = make(n_step=2)
    fill(replay, [step(i + 1.0, cost=1.0, stock=-5.0 + i, initial=-7.0) for i in range(3)])
    batch = replay.windows(np.array([0]), np.array([0]))
    assert float(batch.stock) == 0.0 * 10.0
    assert float(batch.successor_stock) == -4.0
    assert float(batch.initial_stock) == -7.0
    assert float(batch.costs) == 1.5


def test_costs_have_a_discount_of_their_own():
    replay = make(n_step=2, gamma=0.5, cost_gamma=0.25)
    fill(replay, [step(1.0, cost=1.0), step(2.0, cost=1.0), step(3.0, end="terminated")])
    batch = replay.windows(np.array([0, 2]), np.array([0, 0]))
    assert (batch.reward.tolist(), batch.costs[:, 0].tolist()) == ([1.5, 1.0], [1.25, 0.0])
    assert batch.discount.tolist() == [0.25, 0.0]
    assert batch.cost_discount.tolist() == [0.0625, 0.0]


def test_environments_do_not_mix():
    replay = make(n_step=4, capacity=16, num_envs=2)
    for i in range(4):
        one = step(float(i), n=2)
        both = np.array([[0.0], [1.0]], np.float32)
        one.reward[:] = [1.0, 10.0]
        replay.add(both, both, both, one)
    batch = replay.windows(np.array([0, 0]), np.array([0, 1]))
    assert batch.obs.flatten().tolist() == [0.0, 1.0]
    assert batch.reward.tolist() == [1.875, 18.75]


def test_samples_are_uniform_over_what_is_stored():
    replay = make(n_step=1, capacity=8, num_envs=2)
    for i in range(3):
        rows = np.array([[2.0 * i], [2.0 * i + 1.0]], np.float32)
        replay.add(rows, rows, rows, step(0.0, n=2))
    drawn = replay.sample(6000, np.random.default_rng(0)).obs.flatten().numpy()
    counts = np.bincount(drawn.astype(int), minlength=6)
    assert len(counts) == 6
    assert (abs(counts - 1000) < 5 * np.sqrt(1000)).all()


def test_a_capacity_below_one_row_is_refused():
    with pytest.raises(UsageError, match="num_envs=8"):
        Replay(4, 8, 1, 1, 1, 1, 0.99, 0.99)


def test_where_an_environment_broke_the_step_before_is_there_twice_and_ends():
    replay = make(num_envs=2)
    steps = [step(1.0, n=2), step(2.0, n=2), step(99.0, reward=99.0, end="truncated", n=2)]
    steps[2] = dataclasses.replace(steps[2], lost=np.array([True, False]))
    fill(replay, [*steps, step(4.0, n=2)], n=2)
    assert window(replay, 0) == (1.0 + 0.5, 0.5**2, 2.0)  # stops at the gap, and looks beyond
    assert window(replay, 1) == window(replay, 2) == (1.0, 0.5, 2.0)
    assert window(replay, 2, env=1) == (99.0, 0.5, 99.0)


def test_an_environment_that_breaks_at_once_cannot_be_made_up_for():
    with pytest.raises(UsageError, match="very first step"):
        fill(make(), [dataclasses.replace(step(1.0), lost=np.array([True]))])


def test_rows_come_back_as_they_were_also_after_the_ring_has_gone_round():
    replay, other = make(capacity=4), make(capacity=4)
    fill(replay, [step(float(i), end="terminated" if i % 3 == 2 else None) for i in range(7)])
    other.restore(3, replay.rows(3, 5))
    other.restore(5, replay.rows(5, 7))
    assert (len(other), other.rows_written) == (4, 7)
    for row in range(4):
        assert window(other, row) == window(replay, row)


def test_rows_of_another_shape_are_refused():
    rows = make(num_envs=2).rows(0, 1)
    with pytest.raises(UsageError, match="saved state of the replay"):
        make().restore(0, rows)


def test_a_cut_keeps_windows_from_crossing_it():
    replay = make()
    fill(replay, [step(1.0), step(2.0)])
    replay.cut()
    fill(replay, [step(3.0)])
    assert window(replay, 0) == (1.0 + 0.5, 0.5**2, 2.0)


def test_the_latest_actions_of_an_environment():
    replay = make(capacity=4)
    fill(replay, [step(float(i)) for i in range(6)])
    np.testing.assert_allclose(replay.actions(0, 3)[:, 0], [0.3, 0.4, 0.5], rtol=1e-6)
    assert len(replay.actions(0, 9)) == 4


def test_a_window_of_held_decisions_discounts_by_the_environment_steps_each_was_kept_for():
    replay = make(n_step=2, gamma=0.5, cost_gamma=0.1, hold=4)
    fill(
        replay,
        [
            step(1.0, reward=1.0, cost=1.0, env_steps=4),
            step(2.0, reward=1.0, cost=1.0, env_steps=3, end="truncated"),
            step(3.0, reward=1.0, cost=1.0, env_steps=4),
        ],
    )
    window = replay.windows(np.array([0, 1]), np.array([0, 0]))
    assert window.reward.tolist() == [1.0 + 0.5**4, 1.0]
    np.testing.assert_allclose(window.costs[:, 0], [1.0 + 0.1**4, 1.0])
    assert window.discount.tolist() == [0.5**7, 0.5**3]
    np.testing.assert_allclose(window.cost_discount, [0.1**7, 0.1**3], rtol=1e-5)


def test_actions_of_an_episode_are_named_for_every_environment_step():
    replay = make(hold=4)
    fill(replay, [step(1.0, env_steps=4), step(2.0, env_steps=2)])
    np.testing.assert_allclose(replay.actions(0, 5)[:, 0], [0.0, 0.0, 0.0, 0.1, 0.1])
