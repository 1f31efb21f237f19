"""Foreign environments in processes of their own: the same results, and failures that are seen."""

import os
import time

import gymnasium
import numpy as np
import pytest

from tests.envs.test_adapters import Thermostat, begin, variant
from ucpo.envs.adapters import GymnasiumTask
from ucpo.envs.processes import Elsewhere
from ucpo.envs.registry import make_task
from ucpo.errors import LostError, UsageError


def episodes(task, steps=60):
    """Everything that was seen in some random steps, with stocks and last observations."""
    seen = [*begin(task, seed=4)]
    random = np.random.default_rng(0)
    for _ in range(steps):
        step = task.step(random.uniform(-1, 1, (task.num_envs, task.spec.action_size)))
        seen += [step.obs, step.stock, step.successor, step.successor_stock, step.reward]
        seen += [step.costs, step.terminated, step.truncated, step.episodes.returns]
    task.close()
    return seen


@pytest.mark.parametrize("name", ["ucpo/SafetyHopperVelocity-v1", "ucpo/SafetyPointGoal1-v0"])
def test_processes_change_nothing_but_time(name):
    runs = [episodes(make_task(name, 3, asynchronous=choice)) for choice in (False, True)]
    for one, other in zip(*runs, strict=True):
        np.testing.assert_array_equal(one, other)


def test_last_observations_and_stocks_are_the_same():
    runs = [episodes(GymnasiumTask(Thermostat, 2, asynchronous=choice)) for choice in (False, True)]
    for one, other in zip(*runs, strict=True):
        np.testing.assert_array_equal(one, other)


def test_environments_work_at_the_same_time():
    def slow(heat):
        began = time.monotonic()
        time.sleep(0.2)
        return {"cost": began}

    task = GymnasiumTask(variant(info=staticmethod(slow)), 4, asynchronous=True)
    begin(task)
    assert np.ptp(task.step(np.zeros((4, 1))).costs) < 0.6  # as far apart as one after another
    task.close()


def test_each_environment_has_its_own_process():
    where = variant(info=staticmethod(lambda heat: {"cost": float(os.getpid())}))
    task = GymnasiumTask(where, 3, asynchronous=True)
    begin(task)
    processes = set(task.step(np.zeros((3, 1))).costs[:, 0])
    assert len(processes) == 3 and os.getpid() not in processes
    task.close()


def test_an_error_there_is_raised_here_with_its_traceback():
    def clumsy(heat):
        if heat > 9.0:
            raise ArithmeticError("too hot")
        return {"cost": heat}

    task = GymnasiumTask(variant(info=staticmethod(clumsy)), 2, name="Oven", asynchronous=True)
    begin(task)
    with pytest.raises(RuntimeError, match=r"(?s)Oven 1 failed in its process.*too hot"):
        task.step(np.array([[0.0], [1.0]]))
    task.close()


def test_a_process_that_ends_is_missed():
    def crash(heat):
        if heat > 9.0:
            os._exit(3)
        return {"cost": heat}

    oven = variant(info=staticmethod(crash))
    task = GymnasiumTask(oven, 1, name="Oven", asynchronous=True, restart_workers=False)
    begin(task)
    with pytest.raises(LostError, match=r"Oven 0 ended unasked \(exit code 3\)"):
        task.step(np.array([[1.0]]))
    task.close()


def test_an_environment_that_cannot_be_made_says_so():
    def make():
        raise OSError("no model file")

    host = Elsewhere(make, "Broken")
    host.ask("reset", seed=0)
    with pytest.raises(RuntimeError, match="no model file"):
        host.answer()
    host.close()


def test_closing_ends_the_processes():
    task = GymnasiumTask(Thermostat, 2, asynchronous=True)
    task.close()
    assert all(host._process.exitcode == 0 for host in task._hosts)


def test_our_own_tasks_need_no_processes():
    with pytest.raises(UsageError, match="needs no processes"):
        make_task("SafetyHopperVelocity-v1", 2, asynchronous=True)


def test_environments_registered_only_here_are_made_elsewhere_too():
    gymnasium.register("ThermostatElsewhere-v0", Thermostat, max_episode_steps=2)
    task = make_task("ThermostatElsewhere-v0", 1, asynchronous=True)
    begin(task)
    task.step(np.zeros((1, 1)))
    assert task.step(np.zeros((1, 1))).truncated.tolist() == [True]
    task.close()


def crash(heat):
    if heat > 9.0:
        os._exit(3)
    return {"cost": heat}


def hang(heat):
    if heat > 9.0:
        time.sleep(600.0)
    return {"cost": heat}


@pytest.mark.parametrize("accident", [crash, hang])
def test_a_lost_process_is_replaced_and_its_episode_dropped(accident, caplog):
    oven = variant(info=staticmethod(accident))
    task = GymnasiumTask(oven, 2, name="Oven", asynchronous=True, worker_timeout=2.0)
    begin(task)
    before = task.step(np.array([[0.0], [0.0]]))
    step = task.step(np.array([[1.0], [0.0]]))
    assert step.lost.tolist() == [True, False]
    assert len(step.episodes) == 0
    assert step.successor[0].tolist() == before.obs[0].tolist()
    assert task.lengths.tolist() == [0, 2]
    assert "Oven 0" in caplog.text and "replaced" in caplog.text
    step = task.step(np.array([[0.5], [0.5]]))  # the new one works
    assert step.lost is None
    assert step.reward.tolist() == [7.5, 7.5]
    assert step.episodes.rows.tolist() == [1]
    task.close()


def test_a_process_lost_between_questions_is_replaced_too():
    task = GymnasiumTask(Thermostat, 1, asynchronous=True)
    begin(task)
    os.kill(task._hosts[0]._process.pid, 9)
    task._hosts[0]._process.join()
    assert task.step(np.zeros((1, 1))).lost.tolist() == [True]
    for _ in range(2):
        task.step(np.zeros((1, 1)))
    os.kill(task._hosts[0]._process.pid, 9)
    task._hosts[0]._process.join()
    obs, _ = begin(task)  # a reset is simply asked again
    assert obs.shape == (1, 2)
    task.close()


def test_an_environment_that_only_ever_breaks_stops_the_run():
    task = GymnasiumTask(variant(info=staticmethod(crash)), 1, name="Oven", asynchronous=True)
    begin(task)
    with pytest.raises(LostError, match="Oven 0"):
        for _ in range(12):
            task.step(np.array([[1.0]]))
    task.close()


def test_training_goes_on_without_the_episode_that_was_lost():
    from ucpo import UCP

    def sometimes(heat):
        if heat > 9.95:
            os._exit(1)
        return {"cost": heat}

    oven = variant(info=staticmethod(sometimes))
    quick = {"random_steps": 400, "networks": {"hidden": [8]}, "num_envs": 2, "env_steps": 400}
    agent = UCP(oven, budget_range="0:9", asynchronous=True, **quick)
    before = [host._process.pid for host in agent.task._hosts]
    agent.learn(show=False)
    after = [host._process.pid for host in agent.task._hosts]
    agent.task.close()
    assert before != after
    assert agent.learner.env_steps == 400
    kept = agent.learner.memory.windows(np.arange(200), np.zeros(200, int))
    assert float(kept.action.max()) < 0.99  # no transition of a lost step
