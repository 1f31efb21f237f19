from itertools import repeat

import numpy as np
import pytest

from ucpo.envs.interface import Outcome, TaskSpec, VectorTask
from ucpo.errors import UsageError
from ucpo.stock import Start


class Counting(VectorTask):
    """Observes seed and time; costs 1 and 10 a step; row 0 ends after 2 steps, row 1 after 3."""

    def __init__(self, limits=(2, 3), terminates=True):
        super().__init__(TaskSpec("Counting", 2, (-1.0,), (1.0,), ("one", "ten"), None), 2)
        self.limits, self.terminates = np.array(limits), terminates
        self.born = np.zeros(2)
        self.broken = 1.0

    def _observe(self, time):
        return np.column_stack([self.born, time]).astype(np.float32)

    def begin(self, rows, seeds):
        self.born[rows] = seeds
        return np.column_stack([self.born[rows], np.zeros(len(rows))]).astype(np.float32)

    def advance(self, actions):
        over = self.lengths + 1 >= self.limits
        return Outcome(
            successor=self._observe(self.lengths + 1),
            reward=np.array([1.0, 2.0]) * self.broken,
            costs=np.array([[1.0, 10.0]] * 2),
            terminated=over & self.terminates,
            truncated=over & (not self.terminates),
        )


def starts():
    yield from (Start(seed, np.array([-seed, -100.0], np.float32)) for seed in range(1, 100))


NOTHING = np.zeros((2, 1))


def test_a_reset_takes_the_first_starts_in_order():
    obs, stock = Counting().reset(starts())
    assert obs[:, 0].tolist() == [1.0, 2.0]
    assert stock.tolist() == [[-1.0, -100.0], [-2.0, -100.0]]


def test_the_successor_at_an_end_is_the_last_observation_with_that_episodes_stock():
    task = Counting()
    task.reset(starts())
    task.step(NOTHING)
    step = task.step(NOTHING)  # row 0 ends
    assert step.successor.tolist() == [[1.0, 2.0], [2.0, 2.0]]
    assert step.successor_stock.tolist() == [[1.0, -80.0], [0.0, -80.0]]
    # What to act on next already belongs to the third start; row 1 just goes on.
    assert step.obs.tolist() == [[3.0, 0.0], [2.0, 2.0]]
    assert step.stock.tolist() == [[-3.0, -100.0], [0.0, -80.0]]
    assert step.initial_stock.tolist() == [[-1.0, -100.0], [-2.0, -100.0]]
    assert step.terminated.tolist() == [True, False]


def test_finished_episodes_carry_undiscounted_sums_of_their_own():
    task = Counting()
    task.reset(starts())
    assert len(task.step(NOTHING).episodes) == 0
    first = task.step(NOTHING).episodes
    second = task.step(NOTHING).episodes
    assert (first.rows.tolist(), second.rows.tolist()) == ([0], [1])
    assert second.costs.tolist() == [[3.0, 30.0]]
    assert (second.returns[0], second.lengths[0], second.seeds[0]) == (6.0, 3, 2)
    third = task.step(NOTHING).episodes  # row 0 again, from its second episode
    assert (third.returns[0], third.lengths[0], third.seeds[0]) == (2.0, 2, 3)
    assert third.initial_stock.tolist() == [[-3.0, -100.0]]


def test_truncation_is_not_termination():
    task = Counting(terminates=False)
    task.reset(starts())
    task.step(NOTHING)
    step = task.step(NOTHING)
    assert (step.terminated[0], step.truncated[0]) == (False, True)


def test_the_stock_is_discounted_when_asked():
    task = Counting()
    task.reset(starts(), stock_discount=0.5)
    assert task.step(NOTHING).stock[0].tolist() == [0.0, -180.0]


def test_non_finite_rewards_are_refused_naming_environment_and_step():
    task = Counting()
    task.reset(repeat(Start(0, np.zeros(2, np.float32))))
    task.step(NOTHING)
    task.broken = np.array([1.0, np.nan])
    with pytest.raises(UsageError, match=r"environment 1 .*reward.* step 2 "):
        task.step(NOTHING)


def test_an_empty_batch_is_refused():
    with pytest.raises(UsageError, match="num_envs"):
        VectorTask.__init__(Counting(), Counting().spec, 0)
