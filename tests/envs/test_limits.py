import numpy as np
import pytest

from ucpo.envs.limits import NAMES, Limits
from ucpo.envs.navigation.env import NavigationTask
from ucpo.errors import UsageError


class Three:
    def speed(self):
        return np.array([0.4, 0.5, 2.0])

    def effort(self):
        return np.array([0.0, 0.25, 1.0])


def test_only_what_is_above_the_limit_costs():
    limits = Limits(speed=0.5, control=0.25)
    charged = {name: limits.charge(name, Three()).tolist() for name in NAMES}
    assert charged == {
        "speed": [0.0, 0.0, 1.0],
        "speed_excess": [0.0, 0.0, 1.5],
        "control": [0.0, 0.0, 1.0],
        "control_excess": [0.0, 0.0, 0.75],
    }


@pytest.mark.parametrize("limits", [(-0.1, 0.25), (np.nan, 0.25), (0.5, 1.0), (0.5, -0.1)])
def test_impossible_limits_are_refused(limits):
    with pytest.raises(UsageError, match="_limit must be"):
        Limits(*limits)


def test_navigation_robots_are_charged_for_speed_and_effort():
    names = ("speed", "hazards", "speed_excess", "control_excess")
    task = NavigationTask(2, "SafetyPointGoal1-v0", names, speed_limit=0.3, threads=1)
    task.begin(np.arange(2), [0, 1])
    for _ in range(10):
        out = task.advance(np.array([[1.0, 0.0], [9.0, 9.0]]))
    # Ten steps forward from rest make 0.479 m/s.
    assert out.costs[0, 0] == 1.0 and out.costs[0, 2] == pytest.approx(0.179, abs=1e-3)
    assert out.costs[:, 3].tolist() == [0.25, 0.75]  # half and all of what is possible


def test_a_blown_up_robot_is_charged_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # MuJoCo writes a log there
    task = NavigationTask(1, "SafetyPointGoal1-v0", ("speed", "control"), threads=1)
    task.begin(np.array([0]), [0])
    task.world.data[0].qvel[0] = 1e12
    assert task.advance(np.ones((1, 2))).costs.tolist() == [[0.0, 0.0]]
