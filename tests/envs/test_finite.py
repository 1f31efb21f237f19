"""Finite problems as tasks: same seed, same episode; and solved policies are worth what is said."""

import subprocess
import sys
from itertools import count

import numpy as np
import pytest

from ucpo.envs.finite import FiniteTask
from ucpo.errors import UsageError
from ucpo.exact import Branch, FiniteProblem, solve
from ucpo.exact.problems import crossing, two_actions
from ucpo.problem import EXCESS, MEAN, Constraint, Problem
from ucpo.stock import Start


def starts(stock, seed=0):
    return (Start(number, np.array(stock, np.float32)) for number in count(seed))


def fork():
    """State 0 allows actions 0 and 2, state 1 all three; 2 ends with a reward of the state."""
    branches = {(0, 0): [Branch(1.0, 1, 0.5, (1.0, 0.0))], (0, 2): [Branch(1.0, None)]}
    branches |= {(1, action): [Branch(1.0, 1, action, (0.0, 2.0))] for action in (0, 1)}
    branches[1, 2] = [Branch(1.0, None, 1.0, (0.0, 0.0))]
    return FiniteProblem(branches, [1.0, 0.0], ("first", "second"), name="fork")


def play(policy, task, stock, episodes):
    """Undiscounted returns and costs under a solved policy, one uniform draw per action."""
    generator = np.random.default_rng(1)
    finished = []
    task.reset(starts([stock]))
    while sum(map(len, finished)) < episodes:
        chances = [
            policy(int(state), float(left[0]), int(step))
            for state, left, step in zip(task.states, task.stock, task.lengths, strict=True)
        ]
        cumulative = np.cumsum(chances, axis=1)
        choices = (generator.random((task.num_envs, 1)) * cumulative[:, -1:] > cumulative).sum(1)
        finished.append(task.step(task.encode(task.states, choices)).episodes)
    returns = np.concatenate([each.returns for each in finished])
    costs = np.concatenate([each.costs for each in finished])
    return returns, costs[:, 0]


@pytest.mark.parametrize(("encoding", "utility"), [("argmax", MEAN), ("bins", EXCESS)])
def test_playing_a_solved_policy_brings_what_the_solution_says(encoding, utility):
    problem = Problem((Constraint("cost", utility, 0.2),))
    (best,) = solve(crossing(), problem, [-2.0])
    task = FiniteTask(crossing(), 64, encoding=encoding)
    returns, costs = play(best.policy, task, -2.0, 1000)
    for seen, said in ((returns, best.value), (utility(costs - 2.0), best.utilities[0])):
        assert abs(seen.mean() - said) < 4.5 * seen.std() / np.sqrt(len(seen)) + 1e-9


def test_episodes_are_functions_of_their_seed():
    coin = FiniteProblem({(0, 0): [Branch(0.5, 0), Branch(0.5, 0, 0.0, (1.0,))]}, [1.0], horizon=20)

    def costs(rows, seed):
        task = FiniteTask(coin, rows)
        task.reset(starts([-2.0], seed))
        return [task.step(np.zeros((rows, 1))).costs[0, 0] for _ in range(20)]

    assert costs(1, seed=5) == costs(3, seed=5) != costs(1, seed=6)
    assert 0.0 < np.mean(costs(1, seed=5)) < 1.0


def test_the_horizon_terminates_and_the_limit_of_an_endless_problem_truncates():
    timed = FiniteProblem(two_actions(1.0).branches, [1.0], horizon=2)
    for problem, terminated in ((timed, True), (two_actions(0.9), False)):
        task = FiniteTask(problem, 1, max_episode_steps=2)
        task.reset(starts([-5.0]))
        stay = np.array([[-1.0, 1.0]])
        first, second = task.step(stay), task.step(stay)
        assert not first.terminated[0] and not first.truncated[0]
        assert (second.terminated[0], second.truncated[0]) == (terminated, not terminated)
        assert (second.episodes.returns[0], second.episodes.costs[0, 0]) == (2.0, 2.0)


def test_observations_are_the_state_and_the_time_left():
    task = FiniteTask(crossing(horizon=10), 2)
    obs, _ = task.reset(starts([-2.0]))
    assert obs.shape == (2, task.spec.observation_size) and obs.dtype == np.float32
    assert obs[0, :-1].argmax() == np.argmax(crossing().start) and obs[0, -1] == 1.0
    successor = task.step(np.zeros((2, 4))).successor
    assert successor[0, -1] == pytest.approx(0.9)
    seen = FiniteTask(two_actions(0.9), 1, features=np.array([[7.0, 8.0]])).reset(starts([-1.0]))
    np.testing.assert_array_equal(seen[0], [[7.0, 8.0]])


def test_impossible_actions_are_never_taken():
    task = FiniteTask(fork(), 1)
    task.reset(starts([-1.0, -1.0]))
    step = task.step(np.array([[0.1, 1.0, -0.5]]))  # 1 is not possible here, 0 is the next best
    assert task.states[0] == 1 and step.reward[0] == 0.5


def test_bins_share_the_range_between_the_actions_possible_in_a_state():
    task = FiniteTask(fork(), 1, encoding="bins")
    for action, expected in ((-1.0, 0.0), (-0.34, 0.0), (-0.32, 1.0), (0.32, 1.0), (0.34, None)):
        task.reset(starts([-1.0, -1.0]))
        task.step(np.array([[-0.01]]))  # the lower half of two
        step = task.step(np.array([[action]]))
        assert step.terminated[0] == (expected is None)
        assert step.reward[0] == (1.0 if expected is None else expected)


def test_costs_can_be_chosen_by_name():
    task = FiniteTask(fork(), 1, cost_names=["second"])
    task.reset(starts([-1.0]))
    task.step(np.array([[1.0, 0.0, 0.0]]))
    assert task.step(np.array([[1.0, 0.0, 0.0]])).costs.tolist() == [[2.0]]


def test_unsuitable_options_are_refused():
    with pytest.raises(UsageError, match="no cost 'third'"):
        FiniteTask(fork(), 1, cost_names=["third"])
    with pytest.raises(UsageError, match=r"\(2, size\)"):
        FiniteTask(fork(), 1, features=np.zeros((3, 1)))
    with pytest.raises(UsageError, match="encoding"):
        FiniteTask(fork(), 1, encoding="softmax")


def test_neither_the_task_nor_the_solver_imports_torch():
    code = "import sys, ucpo.envs.finite, ucpo.exact; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
