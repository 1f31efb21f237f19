"""Rollouts and advantages: the oracles of the specification, and the traps on the way."""

import dataclasses

import numpy as np
import pytest

from ucpo.envs.interface import Episodes, Step
from ucpo.envs.shaping import all_or_nothing, excess
from ucpo.errors import UsageError
from ucpo.learners.rollout import Rollout, Signals, advantages, increments_of
from ucpo.problem import EXCESS, MEAN, Constraint, Problem

NO_EPISODES = Episodes(
    *(np.zeros((0, 1)), np.zeros(0), np.zeros((0, 1))), *(np.zeros(0, np.int64),) * 3
)
STEP = Step(
    obs=np.zeros((1, 1), np.float32),
    stock=np.zeros((1, 1), np.float32),
    successor=np.zeros((1, 1), np.float32),
    successor_stock=np.zeros((1, 1), np.float32),
    initial_stock=np.zeros((1, 1), np.float32),
    reward=np.zeros(1),
    costs=np.zeros((1, 1)),
    env_steps=np.ones(1, np.int64),
    terminated=np.zeros(1, np.bool_),
    truncated=np.zeros(1, np.bool_),
    episodes=NO_EPISODES,
)


def fill(rewards, ended_at=None, how="terminated", limit=None, **changes):
    """A rollout of one environment, which ends an episode after some decisions."""
    rollout = Rollout(len(rewards), 1, 1, 1, 1, limit)
    nothing, column = np.zeros((1, 1), np.float32), np.zeros((1, 1), np.float32)
    for t, reward in enumerate(rewards):
        ends = t == (len(rewards) - 1 if ended_at is None else ended_at)
        flags = dict.fromkeys(how.split("+"), np.array([ends])) if how else {}
        step = dataclasses.replace(STEP, **flags, **changes)
        rollout.add(nothing, column, nothing, nothing, np.array([reward]), nothing, step)
    return rollout


def gae(rewards, values, after, gamma, lam, rollout, bootstraps=True):
    shape = (-1, 1, 1)
    arrays = [np.array(part, np.float32).reshape(shape) for part in (rewards, values, after)]
    return advantages(*arrays, rollout, Signals((gamma,), (lam,), (bootstraps,))).ravel()


# --- oracles ---


def test_advantages_of_an_episode_that_terminates():
    found = gae([1, 1, 1], [0, 0, 0], [9, 9, 9], 0.5, 0.5, fill([1, 1, 1]))
    assert found == pytest.approx([1.3125, 1.25, 1.0])


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("truncated", [4.80272, 4.726, 3.3]),
        ("terminated", [3.8696, 3.43, 1.5]),
        ("terminated+truncated", [3.8696, 3.43, 1.5]),  # a true end is one, whatever else it is
    ],
)
def test_a_time_limit_bootstraps_and_a_true_end_does_not(how, expected):
    rollout = fill([1, 2, 3], how=how)
    found = gae([1, 2, 3], [0.5, 1, 1.5], [7, 7, 2], 0.9, 0.8, rollout)
    assert found == pytest.approx(expected, rel=1e-5)


def test_without_bootstrap_a_time_limit_is_the_end_and_the_end_of_the_rollout_is_not():
    found = gae([1, 2, 3], [0] * 3, [5] * 3, 1.0, 1.0, fill([1, 2, 3], how="truncated"), False)
    assert found.tolist() == [6, 5, 3]
    found = gae([1, 2, 3], [0] * 3, [5] * 3, 1.0, 1.0, fill([1, 2, 3], how=""), False)
    assert found.tolist() == [11, 10, 8]


def test_undiscounted_advantages_of_increments_are_what_is_still_to_come():
    stock = np.array([-2.0, -1.0, 1.0, 2.0])
    added = np.diff(EXCESS(stock))
    found = gae(added, [0] * 3, [0] * 3, 1.0, 1.0, fill(added, how="truncated"), False)
    assert found == pytest.approx(EXCESS(stock[-1]) - EXCESS(stock[:-1]))


def problem(utility):
    return Problem((Constraint("cost", utility),))


@pytest.mark.parametrize(
    ("utility", "expected"), [(EXCESS, [0.0, 1.0, 1.0]), (MEAN, [1.0, 2.0, 1.0])]
)
def test_increments_of_utilities(utility, expected):
    stock = np.array([[-2.0], [-1.0], [1.0], [2.0]])  # costs 1, 2, 1
    added = increments_of(problem(utility))(stock[:-1], stock[1:], stock[:1])
    assert added.ravel().tolist() == expected


def test_all_or_nothing_charges_everything_in_the_step_that_crosses():
    stock, initial = np.array([-2.0, -1.0, 1.0, 2.0])[:, None], np.full((1, 1), -2.0)
    assert np.diff(all_or_nothing(stock, initial), axis=0).ravel().tolist() == [0.0, 3.0, 1.0]
    assert np.diff(excess(stock, initial), axis=0).ravel().tolist() == [0.0, 1.0, 1.0]


def test_increments_add_up_to_the_utility_at_the_end_whatever_the_discount():
    stock = np.cumsum(np.random.default_rng(0).uniform(0, 1, 20)) - 5.0
    added = increments_of(problem(EXCESS))(stock[:-1, None], stock[1:, None], stock[:1, None])
    assert added.sum() == pytest.approx(EXCESS(stock[-1]) - EXCESS(stock[0]))


# --- traps ---


@pytest.mark.parametrize("how", ["terminated", "truncated"])
def test_what_a_later_episode_brings_changes_nothing_in_the_one_before(how):
    rollout = fill([0] * 6, ended_at=2, how=how)
    one = gae([1, 1, 1, 5, 5, 5], [1] * 6, [3] * 6, 0.9, 0.9, rollout)
    two = gae([1, 1, 1, 9, -9, 9], [1] * 3 + [7] * 3, [3] * 6, 0.9, 0.9, rollout)
    assert one[:3].tolist() == two[:3].tolist()


def test_two_short_rollouts_say_the_same_as_one_long_one_with_exact_values():
    """The end of a rollout is no end of an episode."""
    rewards = np.arange(10.0)
    values = np.cumsum(rewards[::-1])[::-1]  # what is to come, exactly
    after = np.append(values[1:], 0.0)
    values = values - 0.5  # off, so that there is something to say
    whole = gae(rewards, values, after, 1.0, 1.0, fill(rewards))
    first = gae(rewards[:5], values[:5], after[:5], 1.0, 1.0, fill(rewards[:5], how=""))
    second = gae(rewards[5:], values[5:], after[5:], 1.0, 1.0, fill(rewards[5:]))
    assert np.append(first, second).tolist() == whole.tolist()


def test_held_decisions_are_discounted_by_their_environment_steps():
    rollout = fill([1, 1], env_steps=np.array([4]))
    assert gae([1, 1], [0, 2], [0, 0], 0.5, 0.0, rollout) == pytest.approx([1 + 2 / 16, -1])


def test_a_lost_step_says_nothing_and_the_one_before_ends_in_its_state():
    rollout = fill([0, 0, 0, 0], how="")
    rollout.lost[2] = rollout.truncated[2] = True
    found = gae([1, 1, 99, 1], [0, 5, 7, 2], [50, 50, 50, 3], 1.0, 1.0, rollout)
    assert found.tolist() == [1 + 5 + 1 + 7 - 5, 1 + 7 - 5, 0, 1 + 3 - 2]


def test_the_constant_cost_of_a_timed_episode_is_the_time_that_is_left():
    """A horizon needs the time: with it, values are bounded and exact."""
    rollout = fill([1] * 10, how="truncated", limit=10)
    assert rollout.left.ravel() == pytest.approx(1.0 - np.arange(10) / 10)
    assert rollout.left_after()[-1, 0] == pytest.approx(0.0, abs=1e-6)
    found = gae([1] * 10, [0] * 10, [99] * 10, 1.0, 0.95, rollout, bootstraps=False)
    exact = 10 * rollout.left.ravel()
    again = gae([1] * 10, exact, [99] * 10, 1.0, 0.95, rollout, bootstraps=False)
    assert found[-1] == 1.0
    assert again == pytest.approx(np.zeros(10), abs=1e-5)


def test_time_goes_on_from_one_rollout_into_the_next_and_begins_anew_with_an_episode():
    rollout = Rollout(2, 1, 1, 1, 1, 10)
    nothing = np.zeros((1, 1), np.float32)
    for t in range(5):
        step = dataclasses.replace(STEP, truncated=np.array([t == 3]))
        rollout.add(nothing, nothing, nothing, nothing, np.zeros(1), nothing, step)
    assert rollout.left.ravel() == pytest.approx([1.0, 0.7])  # the fifth decision, and the fourth
    assert rollout.begun == 3


def test_recent_actions_reach_back_into_the_rollout_before():
    rollout = Rollout(3, 1, 1, 1, 1, None)
    nothing = np.zeros((1, 1), np.float32)
    assert len(rollout.recent_actions(0, 5)) == 0
    for t in range(4):
        action = np.full((1, 1), t, np.float32)
        step = dataclasses.replace(STEP, env_steps=np.array([2]))
        rollout.add(nothing, nothing, nothing, action, np.zeros(1), nothing, step)
    assert rollout.recent_actions(0, 5).ravel().tolist() == [1.0, 2.0, 2.0, 3.0, 3.0]
    assert len(rollout.recent_actions(0, 100)) == 6


def test_actions_of_a_rollout_that_was_just_learned_from_are_still_known():
    rollout = fill([1, 2, 3])
    rollout.length = 0
    assert len(rollout.recent_actions(0, 100)) == 3


def test_a_saved_rollout_goes_on_and_a_strange_one_is_refused():
    rollout = fill([1, 2, 3])
    other = Rollout(3, 1, 1, 1, 1, None)
    other.restore(rollout.state())
    assert all((value == other.state()[key]).all() for key, value in rollout.state().items())
    with pytest.raises(UsageError, match="impossible length"):
        other.restore({**rollout.state(), "length": np.array(4)})
    with pytest.raises(UsageError, match="rollout"):
        Rollout(4, 1, 1, 1, 1, None).restore(rollout.state())
