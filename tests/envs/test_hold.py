"""Held decisions, with numbers worked out by hand."""

import gymnasium
import numpy as np
import pytest

from ucpo.envs.adapters import GymnasiumTask
from ucpo.envs.interface import Hold, Outcome, TaskSpec, VectorTask
from ucpo.stock import Start


class Script(VectorTask):
    """Row r's episode lasts `ends[r]` steps; step t pays t (1, 2, ...) and costs 10 t."""

    def __init__(self, ends, terminates=True):
        super().__init__(TaskSpec("Script-v0", 1, (-1.0,), (1.0,), ("cost",), None), len(ends))
        self.ends, self.terminates, self.begun = np.array(ends), terminates, []

    def begin(self, rows, seeds):
        self.begun += rows.tolist()
        return np.full((len(rows), 1), -1.0, np.float32)

    def advance(self, actions):
        t = self.lengths + 1.0
        over = t >= self.ends
        nonsense = np.where(self.awake, t, np.nan)  # of rows that sit out nothing is looked at
        return Outcome(
            successor=nonsense[:, None].astype(np.float32),
            reward=nonsense.copy(),
            costs=10.0 * nonsense[:, None],
            terminated=over & self.terminates,
            truncated=over & (not self.terminates),
        )


def starts(budget):
    while True:
        yield Start(0, np.array([-budget], np.float32))


def begin(ends, budget=25.0, **how):
    task = Script(ends, **how)
    task.reset(starts(budget))
    return task


ACTIONS = np.zeros((2, 1), np.float32)


def test_rewards_and_costs_of_a_decision_are_discounted_and_its_stock_is_a_plain_sum():
    step = begin([9, 9]).step(ACTIONS, Hold(4, gamma=0.5, cost_gamma=0.1))
    assert step.reward.tolist() == [1 + 2 * 0.5 + 3 * 0.25 + 4 * 0.125] * 2
    np.testing.assert_allclose(step.costs[:, 0], [10 + 2 + 0.3 + 0.04] * 2)
    assert step.successor_stock[:, 0].tolist() == [-25 + 10 + 20 + 30 + 40] * 2
    assert step.env_steps.tolist() == [4, 4]
    assert step.successor[:, 0].tolist() == [4.0, 4.0]
    assert not len(step.episodes)


def test_an_episode_that_ends_inside_a_decision_ends_it_for_its_row_alone():
    task = begin([2, 9])
    step = task.step(ACTIONS, Hold(4, gamma=0.5, cost_gamma=1.0))
    assert step.env_steps.tolist() == [2, 4]
    assert step.reward.tolist() == [1 + 2 * 0.5, 1 + 2 * 0.5 + 3 * 0.25 + 4 * 0.125]
    assert step.costs[:, 0].tolist() == [30.0, 100.0]
    assert step.terminated.tolist() == [True, False]
    assert step.successor[:, 0].tolist() == [2.0, 4.0]  # of its own episode, not the next one's
    assert step.successor_stock[:, 0].tolist() == [5.0, 75.0]
    assert step.obs[:, 0].tolist() == [-1.0, 4.0]
    assert step.stock[:, 0].tolist() == [-25.0, 75.0]
    # The next episode waits for a decision of its own: it has not been stepped with the old one.
    assert task.lengths.tolist() == [0, 4]
    assert task.begun == [0, 1, 0]


def test_sums_of_an_episode_do_not_know_how_long_decisions_were_held():
    whole = []
    for steps in (1, 3, 4, 50):
        task, found = begin([7, 7], terminates=False), []
        while len(found) < 2:
            made = task.step(ACTIONS, Hold(steps, gamma=0.5, cost_gamma=0.5)).episodes
            sums = (made.returns, made.costs[:, 0], made.lengths)
            found += list(zip(*(column.tolist() for column in sums), strict=True))
        whole.append(found)
    assert whole == [[(28.0, 280.0, 7)] * 2] * 4


def test_a_cost_inside_a_decision_that_crosses_the_budget_shows_in_the_stock():
    step = begin([9, 9], budget=25.0).step(ACTIONS, Hold(2))
    assert step.successor_stock[:, 0].tolist() == [5.0, 5.0]  # 10 within the budget, then 20


def test_a_discounted_stock_grows_at_every_environment_step():
    task = Script([9, 9])
    task.reset(starts(10.0), stock_discount=0.5)
    held = task.step(ACTIONS, Hold(2)).successor_stock
    assert held[:, 0].tolist() == [((-10.0 + 10.0) / 0.5 + 20.0) / 0.5] * 2


class Fragile(gymnasium.Env):
    """Refuses to be stepped after its end, as many environments do."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,))
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,))

    def reset(self, *, seed=None, options=None):
        self.left = 3
        return np.zeros(1), {}

    def step(self, action):
        assert self.left, "stepped after the end of its episode"
        self.left -= 1
        return np.ones(1), 1.0, not self.left, False, {"cost": 1.0}


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_foreign_environment_is_not_stepped_after_its_end(asynchronous):
    task = GymnasiumTask(Fragile, 2, asynchronous=asynchronous)
    task.reset(starts(5.0))
    first, second = (task.step(ACTIONS, Hold(2)) for _ in range(2))
    assert first.env_steps.tolist() == [2, 2]
    assert second.env_steps.tolist() == [1, 1]
    assert second.episodes.costs[:, 0].tolist() == [3.0, 3.0]
    task.close()


@pytest.mark.parametrize("name", ["Courier-v0", "Streets-v0", "SafetyHopperVelocity-v1"])
def test_our_own_tasks_bear_decisions_that_outlast_their_episodes(name):
    from ucpo.envs.registry import make_task

    task = make_task(name, 3)
    C = len(task.spec.cost_names)
    task.reset(Start(seed, np.full(C, -5.0, np.float32)) for seed in range(10**6))
    actions = np.random.default_rng(0).uniform(-1, 1, (3, task.spec.action_size))
    ended = 0
    while ended < 4:
        step = task.step(actions, Hold(7))
        ended += len(step.episodes)
        assert (step.env_steps <= 7).all()
        assert np.isfinite(step.reward).all()
    task.close()
