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
from ucpo.errors import UsageError


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

    task = GymnasiumTask(variant(info=staticmethod(crash)), 1, name="Oven", asynchronous=True)
    begin(task)
    with pytest.raises(RuntimeError, match=r"Oven 0 ended unasked \(exit code 3\)"):
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
