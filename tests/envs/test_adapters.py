import logging
import sys

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, Sequence, Tuple

from tests.choosing import Errands
from ucpo.envs.adapters import GymnasiumTask, to_bounds
from ucpo.envs.registry import make_task
from ucpo.errors import UsageError
from ucpo.stock import starts


class Thermostat(gymnasium.Env):
    """Action and reward are the heat, the cost is the energy; ends after 3 steps."""

    observation_space = Box(-np.inf, np.inf, (2,))
    action_space = Box(np.array([0.0]), np.array([10.0]), dtype=np.float64)
    info = staticmethod(lambda heat: {"cost": heat / 2})

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return np.array([self.np_random.random(), 0.0], np.float32), {}

    def step(self, action):
        self.time += 1
        heat = float(action[0])
        obs = np.array([heat, self.time], np.float32)
        return obs, heat, False, self.time >= 3, self.info(heat)


def variant(**attributes):
    return type("Variant", (Thermostat,), attributes)


def begin(task, seed=0):
    generator = np.random.default_rng(seed)
    width = len(task.spec.cost_names)
    return task.reset(starts(lambda: np.zeros(width, np.float32), generator))


def test_actions_are_mapped_to_the_bounds_and_costs_read():
    task = GymnasiumTask(Thermostat, 2)
    begin(task)
    step = task.step(np.array([[-1.0], [0.5]]))
    assert step.reward.tolist() == [0.0, 7.5]
    assert step.costs.tolist() == [[0.0], [3.75]]
    assert task.spec.cost_names == ("cost",)
    assert (task.spec.action_low, task.spec.action_high) == ((0.0,), (10.0,))


def test_actions_outside_are_clipped():
    low, high = np.array([0.0]), np.array([10.0])
    assert to_bounds(np.array([[7.0], [-7.0]]), low, high).tolist() == [[10.0], [0.0]]


def test_the_last_observation_survives_the_reset():
    task = GymnasiumTask(Thermostat, 1)
    begin(task)
    for _ in range(3):
        step = task.step(np.array([[0.0]]))
    assert step.truncated.tolist() == [True]
    assert step.successor.tolist() == [[5.0, 3.0]]
    assert step.obs[0, 1] == 0.0
    assert step.successor_stock.tolist() == [[7.5]]
    assert step.stock.tolist() == [[0.0]]


def test_seeds_make_episodes():
    task = GymnasiumTask(Thermostat, 3)
    assert begin(task, 1)[0].tolist() == begin(task, 1)[0].tolist()
    assert begin(task, 1)[0].tolist() != begin(task, 2)[0].tolist()


def test_named_costs_become_columns_in_the_order_asked_for():
    both = variant(info=staticmethod(lambda heat: {"costs": {"wear": 1.0, "energy": heat}}))
    assert GymnasiumTask(both, 1).spec.cost_names == ("wear", "energy")
    task = GymnasiumTask(both, 1, costs=["energy", "wear"])
    begin(task)
    assert task.step(np.array([[1.0]])).costs.tolist() == [[10.0, 1.0]]
    with pytest.raises(UsageError, match="did you mean 'wear'"):
        GymnasiumTask(both, 1, costs=["waer"])


def test_the_total_is_preferred_unless_names_are_asked_for():
    both = variant(info=staticmethod(lambda heat: {"cost": 3.0, "costs": {"wear": 1.0}}))
    assert GymnasiumTask(both, 1).spec.cost_names == ("cost",)
    assert GymnasiumTask(both, 1, costs=["wear"]).spec.cost_names == ("wear",)


def test_the_six_values_of_safety_gymnasium_are_understood():
    class SixValues(Thermostat):
        def step(self, action):
            obs, reward, terminated, truncated, _ = super().step(action)
            return obs, reward, 4.0, terminated, truncated, {}

    task = GymnasiumTask(SixValues, 1)
    begin(task)
    assert task.step(np.array([[0.0]])).costs.tolist() == [[4.0]]


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"action_space": Discrete(1)}, "a choice of two or more"),
        ({"action_space": MultiBinary(3)}, "a choice of two or more.*ActionWrapper"),
        ({"action_space": Box(-np.inf, np.inf, (1,))}, "finite range"),
        ({"observation_space": Sequence(Box(0, 1, (1,)))}, "what can be flattened"),
        ({"observation_space": Box(0, 255, (8, 8, 3), np.uint8)}, "observes images.*encoder"),
        ({"observation_space": Dict(a=Box(0, 255, (8, 8, 3), np.uint8))}, "FlattenObservation"),
        ({"info": staticmethod(lambda heat: {})}, "reports no cost"),
    ],
)
def test_environments_that_cannot_work_are_refused_with_a_remedy(attributes, message):
    with pytest.raises(UsageError, match=message):
        GymnasiumTask(variant(**attributes), 1)


def test_a_cost_that_is_left_out_later_is_noticed():
    forgetful = variant(info=staticmethod(lambda heat: {"cost": 1.0} if heat < 9.0 else {}))
    task = GymnasiumTask(forgetful, 1)
    begin(task)
    with pytest.raises(UsageError, match="left out the cost 'cost'"):
        task.step(np.array([[1.0]]))


def test_a_non_finite_cost_is_refused():
    task = GymnasiumTask(variant(info=staticmethod(lambda heat: {"cost": float("nan")})), 2)
    begin(task)
    with pytest.raises(UsageError, match="non-finite costs"):
        task.step(np.zeros((2, 1)))


def test_registered_environments_are_found_by_id():
    gymnasium.register("ThermostatTest-v0", Thermostat, max_episode_steps=2)
    task = make_task("ThermostatTest-v0", 1)
    begin(task)
    task.step(np.zeros((1, 1)))
    assert task.step(np.zeros((1, 1))).truncated.tolist() == [True]
    assert (task.spec.name, task.spec.max_episode_steps) == ("ThermostatTest-v0", 2)
    task.close()


def test_an_unknown_task_is_answered_with_the_nearest():
    with pytest.raises(UsageError, match="did you mean 'Courier-v0'"):
        make_task("Curier-v0", 1)
    with pytest.raises(UsageError, match=r"cannot import 'nowhere'.*`ucpo tasks` lists"):
        make_task("nowhere:Nothing-v0", 1)


MODULE = """
import gymnasium, numpy as np

class Heater(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,))
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,))

    def reset(self, *, seed=None, options=None):
        return np.zeros(2, np.float32), {}

    def step(self, action):
        return np.zeros(2, np.float32), 1.0, False, False, {"cost": 1.0}

gymnasium.register("NAME-v0", Heater, max_episode_steps=5)
"""


@pytest.fixture
def own_module(tmp_path, monkeypatch):
    """A module in the current folder, and a path without that folder, as for a console script."""
    name = f"heaters{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(MODULE.replace("NAME", name))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    return name


def test_a_module_in_the_current_folder_is_imported_for_the_task_it_names(own_module):
    task = make_task(f"{own_module}:{own_module}-v0", 1)
    assert (task.spec.name, task.spec.max_episode_steps) == (f"{own_module}:{own_module}-v0", 5)
    unregistered = make_task(f"{own_module}:Heater", 1)
    assert (unregistered.spec.name, unregistered.spec.observation_size) == (
        f"{own_module}:Heater",
        2,
    )
    with pytest.raises(UsageError, match=r"registered no environment 'Heeter-v0'.*register\(id="):
        make_task(f"{own_module}:Heeter-v0", 1)


def test_what_lies_in_the_current_folder_hides_nothing_that_is_installed(own_module, tmp_path):
    (tmp_path / "polars.py").write_text("raise RuntimeError('imported')")
    with pytest.raises(UsageError, match="registered no environment"):
        make_task("polars:Nothing-v0", 1)


def test_an_environment_that_exists_already_is_refused():
    with pytest.raises(UsageError, match="give the class Thermostat"):
        make_task(Thermostat(), 2)
    with pytest.raises(UsageError, match=r"got int"):
        make_task(3, 2)


@pytest.mark.parametrize("cost", [np.array([2.0]), np.float32(2.0), [2.0], 2])
def test_a_cost_may_be_an_array_of_one_number(cost):
    task = GymnasiumTask(variant(info=staticmethod(lambda heat: {"cost": cost})), 1)
    begin(task)
    assert task.step(np.zeros((1, 1))).costs.tolist() == [[2.0]]


@pytest.mark.parametrize("cost", [np.array([1.0, 2.0]), None, "much"])
def test_a_cost_that_is_no_number_is_refused(cost):
    task = GymnasiumTask(variant(info=staticmethod(lambda heat: {"cost": cost})), 1)
    begin(task)
    with pytest.raises(UsageError, match=r"the cost 'cost'.*one number a step"):
        task.step(np.zeros((1, 1)))


def test_an_observation_of_another_size_than_the_space_says_is_refused():
    with pytest.raises(UsageError, match=r"shape \(2,\), but its observation_space is Box.*\(3,\)"):
        begin(GymnasiumTask(variant(observation_space=Box(-9, 9, (3,))), 1))


def test_nested_observations_are_flattened_with_a_word(caplog):
    space = Dict(place=Box(-9, 9, (2,)), mode=Discrete(3), pair=Tuple([Box(0, 1, (1,))] * 2))
    seen = {"place": np.array([5.0, 6.0]), "mode": 1, "pair": (np.array([0.3]), np.array([0.4]))}

    class Nested(Thermostat):
        observation_space = space

        def reset(self, **named):
            super().reset(**named)
            return seen, {}

        def step(self, action):
            return seen, *super().step(action)[1:]

    task = GymnasiumTask(Nested, 1)
    assert task.spec.observation_size == 7
    assert "flattened into a vector of 7 numbers" in caplog.text
    assert begin(task)[0][0].tolist() == pytest.approx([5, 6, 0, 1, 0, 0.3, 0.4])
    assert task.step(np.zeros((1, 1))).obs[0].tolist() == pytest.approx([5, 6, 0, 1, 0, 0.3, 0.4])


def test_arrays_are_flattened_with_a_word(caplog):
    maze = variant(observation_space=Box(0.0, 1.0, (3, 4)))
    with caplog.at_level(logging.WARNING, "ucpo"):
        assert GymnasiumTask(maze, 1, name="Maze").spec.observation_size == 12
    assert "flattened here into 12 numbers" in caplog.text
    assert "encoder" in caplog.text


def test_choices_are_made_by_the_largest_number_and_counted_from_the_first():
    task = GymnasiumTask(Errands, 3)
    assert (task.spec.discrete, task.spec.action_size) == (True, 3)
    assert (task.spec.action_low, task.spec.action_high) == ((5.0,) * 3, (7.0,) * 3)
    begin(task)
    step = task.step(np.array([[0.2, -0.1, 0.1], [-1.0, 0.0, -1.0], [0.0, 0.0, 1.0]]))
    assert step.reward.tolist() == [1.0, 3.0, 0.0]
    assert step.costs.tolist() == [[0.0], [1.0], [1.0]]


def test_negative_costs_are_said_aloud_once(caplog):
    refund = type("Refund", (Thermostat,), {"info": staticmethod(lambda heat: {"cost": -1.0})})
    task = GymnasiumTask(refund, 2)
    begin(task)
    for _ in range(2):
        task.step(np.zeros((2, 1)))
    assert caplog.text.count("negative costs") == 1
