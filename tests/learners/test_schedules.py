"""Which budgets training episodes begin with."""

import numpy as np
import pytest

from ucpo import UCP, BudgetGrid, UsageError
from ucpo.envs.interface import Episodes
from ucpo.learners.schedules import Simmer, Uniform
from ucpo.runs.run import Run

GRID = BudgetGrid.fixed([10.0])


def finished(*costs):
    k = len(costs)
    nothing = np.zeros(k, np.int64)
    cost = np.array(costs, float)[:, None]
    return Episodes(np.full((k, 1), -10.0), np.zeros(k), cost, nothing, nothing, nothing)


def test_a_grid_is_drawn_from_evenly():
    levels = Uniform(BudgetGrid((0.0,), (4.0,), (3,)))
    generator = np.random.default_rng(0)
    drawn = np.array([levels.draw(generator)[0] for _ in range(3000)])
    assert {level: float((drawn == level).mean()) for level in (-4.0, -2.0, 0.0)} == pytest.approx(
        {-4.0: 1 / 3, -2.0: 1 / 3, 0.0: 1 / 3}, abs=0.03
    )


def test_simmer_lowers_its_budget_by_a_pi_controller_worked_by_hand():
    schedule = Simmer(GRID, (0.5, 0.1, 0.2), smoothing=0.5, reach=3.0)
    found = []
    for cost in (14.0, 18.0, 10.0, 4.0):
        schedule.observe(finished(cost))
        found.append(float(schedule.budget[0]))
    # e = -2, -5, -2.5, 1.75; sums -2, -7, -9.5, -7.75; raw -1.2, -3.2, -2.2 + 0.2 * 0.2, 0.1
    assert found == pytest.approx([8.8, 7.0, 7.84, 10.0])
    assert schedule.draw(np.random.default_rng(0)) == pytest.approx([-10.0])


def test_simmer_never_trains_above_the_budget_nor_below_0_nor_further_than_it_may():
    eager = Simmer(GRID, (100.0, 0.0, 0.0), smoothing=0.0, reach=50.0)
    eager.observe(finished(40.0))
    assert eager.budget.tolist() == [0.0]
    eager.observe(finished(0.0))
    assert eager.budget.tolist() == [10.0]
    near = Simmer(GRID, (100.0, 0.0, 0.0), smoothing=0.0)
    near.observe(finished(40.0))
    assert near.budget.tolist() == [9.0]


def test_where_episodes_come_in_one_by_one_or_together_makes_no_difference():
    one, two = (Simmer(GRID, (1.0, 0.1, 0.1)) for _ in range(2))
    one.observe(finished(20.0, 30.0, 5.0))
    for cost in (20.0, 30.0, 5.0):
        two.observe(finished(cost))
    assert one.budget.tolist() == two.budget.tolist() != [10.0]
    three = Simmer(GRID, (1.0, 0.1, 0.1))
    three.restore(one.state())
    one.observe(finished(12.0))
    three.observe(finished(12.0))
    assert one.budget.tolist() == three.budget.tolist()


def test_simmer_is_for_one_budget():
    with pytest.raises(UsageError, match="give --budget"):
        Simmer(BudgetGrid((0.0,), (4.0,), (3,)), (1.0, 0.0, 0.0))
    with pytest.raises(UsageError, match=r"ppo-simmer trains for one budget.*--budget 25"):
        UCP("Courier-v0", method="ppo-simmer")


QUICK = {"num_envs": 8, "env_steps": 3200, "ppo": {"rollout": 40}, "show": False, "seed": 3}
STEEP = {"gains": [2.0, 0.1, 0.0], "smoothing": 0.5, "reach": 5.0}


def test_episodes_of_a_training_begin_with_the_lowered_budget_and_a_resumed_one_goes_on(tmp_path):
    def made():
        how = {key: value for key, value in QUICK.items() if key != "show"}
        return UCP("Courier-v0", method="ppo-simmer", budget=3, schedule=STEEP, **how)

    begun = []
    whole = made().learn(
        run=tmp_path / "whole",
        show=False,
        on_episode=lambda some: begun.extend((-some.initial_stock[:, 0]).tolist()),
    )
    assert begun[0] == 3.0
    assert min(begun) < 2.0
    made().learn(1600, run=tmp_path / "half", show=False)
    rest = Run.resume(tmp_path / "half", env_steps=3200).learn(show=False)
    assert rest.training.schedule.budget.tolist() == whole.training.schedule.budget.tolist()
    last = (tmp_path / "whole" / "metrics.csv").read_text().splitlines()
    column = last[0].split(",").index("excess/near_misses/3")
    assert float(last[-1].split(",")[column]) >= 0.0


class Rising:
    """A budget more with every episode."""

    def __init__(self, grid):
        self.made = 0

    def draw(self, generator):
        return np.array([-float(self.made)], np.float32)

    def observe(self, episodes):
        self.made += len(episodes)

    def state(self):
        return {"made": np.array(self.made)}

    def restore(self, state):
        self.made = int(state["made"])


def test_a_schedule_of_ones_own_is_a_class():
    begun = []
    run = UCP("Courier-v0", method="ppo-saute-any", schedule={"own": Rising}, num_envs=4, seed=0)
    run.learn(800, show=False, on_episode=lambda some: begun.extend(-some.initial_stock[:, 0]))
    assert run.config.schedule.own == "tests.learners.test_schedules:Rising"
    assert begun[0] == 0.0
    assert begun == sorted(begun)
    assert begun[-1] >= 4.0


class Mute:
    def __init__(self, grid):
        pass


def test_a_class_that_is_no_schedule_is_refused():
    with pytest.raises(UsageError, match=r"Mute does not answer draw.*interface\.Schedule says"):
        UCP("Courier-v0", schedule={"own": Mute})
    with pytest.raises(UsageError, match=r"is called with \(BudgetGrid\) to make a schedule"):
        UCP("Courier-v0", schedule={"own": lambda: None})
    with pytest.raises(UsageError, match="has no 'Rise' to make a schedule of; did you mean"):
        UCP("Courier-v0", schedule={"own": "tests.learners.test_schedules:Rise"})
    with pytest.raises(UsageError, match="is named my_module:my_name, got 'Rise'"):
        UCP("Courier-v0", schedule={"own": "Rise"})
