import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete

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
        ({"action_space": Discrete(3)}, "continuous"),
        ({"action_space": Box(-np.inf, np.inf, (1,))}, "finite range"),
        ({"observation_space": Dict(a=Box(0, 1, (1,)))}, "FlattenObservation"),
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
    with pytest.raises(UsageError, match="`ucpo tasks` lists ours"):
        make_task("nowhere:Nothing-v0", 1)
