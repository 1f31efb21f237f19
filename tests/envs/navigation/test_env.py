"""Rules of the tasks: rewards, costs, timers, ends of episodes, options, Gymnasium's interface."""

import itertools
import subprocess
import sys

import gymnasium
import mujoco
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from ucpo.envs.navigation import layout
from ucpo.envs.navigation.env import NavigationTask
from ucpo.envs.navigation.names import NAMES
from ucpo.envs.navigation.tasks import arena
from ucpo.envs.registry import make_task
from ucpo.errors import UsageError
from ucpo.stock import Start

STILL = np.zeros((1, 2))


@pytest.fixture
def task():
    made = []

    def make(name, seed=0, **options):
        made.append(NavigationTask(1, f"Safety{name}-v0", threads=1, **options))
        made[-1].begin(np.array([0]), [seed])
        return made[-1]

    yield make
    for each in made:
        each.close()


def put_point(task, x, y):
    """Move a Point robot, whose joints are relative to its start."""
    task.world.data[0].mocap_pos[0, :2] = x, y
    task.world.refresh([0])


def test_a_hazard_costs_up_to_its_rim(task):
    goal = task("PointGoal1")
    x, y = goal.world.objects[0, goal.world.spans["hazards"]][0]
    for distance, cost in ((0.1999, 1.0), (0.2001, 0.0)):
        put_point(goal, x + 0.6 * distance, y - 0.8 * distance)
        assert goal.judge().costs[0, 0] == cost


def test_reaching_a_goal_pays_one_and_the_next_reward_does_not_jump(task):
    goal = task("PointGoal1")
    x, y = goal.world.objects[0, 0]
    put_point(goal, x + 0.2999, y)
    goal.aim.memory[0] = 0.2999
    out = goal.advance(STILL)
    assert goal.reached[0] and out.reward[0] == pytest.approx(1.0, abs=1e-6)
    assert np.linalg.norm(goal.world.objects[0, 0] - (x + 0.2999, y)) >= 0.705
    assert abs(goal.advance(STILL).reward[0]) < 1e-3


def test_a_vase_that_moves_costs_whoever_moved_it(task):
    vases = task("PointGoal2", cost_names=("cost", "vases_velocity", "vases_contact"), sleep=False)
    for speed, cost in ((2e-4, 1.0), (5e-5, 0.0)):
        vases.world.data[0].qvel[:] = 0.0
        vases.world.data[0].qvel[3] = speed
        vases.world.refresh([0])
        assert vases.judge().costs[0].tolist() == [cost, cost, 0.0]


@pytest.mark.parametrize("name", ["PointGoal2", "CarGoal2"])
def test_standing_still_from_the_start_costs_nothing(task, name):
    vases = task(name)
    assert sum(vases.advance(STILL).costs[0, 0] for _ in range(40)) == 0.0


def test_a_sleeping_vase_wakes_when_it_is_hit(task):
    goal = task("PointGoal2", cost_names=("vases",))
    for _ in range(20):
        goal.advance(STILL)
    x, y = goal.world.objects[0, goal.world.spans["vases"]][0]
    assert not goal.world.qvel[0, 3:9].any()  # asleep: exactly at rest
    put_point(goal, x - 0.3, y)
    goal.world.data[0].mocap_quat[0] = 1.0, 0.0, 0.0, 0.0
    costs = [goal.advance(np.array([[1.0, 0.0]])).costs[0, 0] for _ in range(60)]
    assert sum(costs) > 5
    moved = goal.world.objects[0, goal.world.spans["vases"]][0]
    assert np.linalg.norm(moved - (x, y)) > 0.01


@pytest.mark.parametrize("name", ["PointGoal2", "CarGoal2", "PointPush2", "CarPush1"])
def test_sleeping_objects_look_and_cost_as_resting_ones_do(task, name):
    asleep, awake = task(name, seed=5, sleep=True), task(name, seed=5, sleep=False)
    own = asleep.arena.robot.sensor_size
    for _ in range(60):
        one, other = asleep.advance(STILL), awake.advance(STILL)
        np.testing.assert_array_equal(one.costs, other.costs)
        np.testing.assert_allclose(one.reward, other.reward, rtol=0, atol=2e-6)
        lidar = asleep.observation[:, own:], awake.observation[:, own:]
        np.testing.assert_allclose(*lidar, rtol=0, atol=1e-6)
    assert awake.world.data[0].ncon > 0 and asleep.world.data[0].ntree_awake == 1


def test_pressing_the_goal_button_pays_and_hides_the_buttons_for_ten_steps(task):
    button = task("PointButton1", cost_names=("buttons",), counts={"gremlins": 0})
    x, y = button.world.objects[0, button.aim.button[0]]
    put_point(button, x - 0.19, y)
    out = button.judge()
    assert out.reward[0] > 0.99 and button.aim.timer[0] == 10
    put_point(button, 9.0, 9.0)
    hidden = []
    for _ in range(11):
        hidden.append(not button.observe()[0, 12:28].any())
        wrong = button.world.objects[0, (button.aim.button[0] + 1) % 4]
        put_point(button, *wrong - (0.19, 0.0))
        button.aim.memory[:] = 0.0
        hidden_cost = button.judge().costs[0, 0]
        assert hidden_cost == (1.0 if len(hidden) == 11 else 0.0)
    assert hidden == [True] * 10 + [False]


def test_a_wrong_button_costs_from_the_first_step(task):
    button = task("PointButton1", cost_names=("buttons",))
    wrong = button.world.objects[0, (button.aim.button[0] + 1) % 4]
    put_point(button, *wrong - (0.19, 0.0))
    assert button.judge().costs[0, 0] == 1.0


def test_gremlins_circle_their_places_and_float(task):
    button = task("PointButton1")
    put_point(button, 9.0, 9.0)
    homes = button.world.objects[0, button.world.spans["gremlins"]].copy()
    for _ in range(60):
        button.advance(STILL)
    turn = 0.02 * 60
    targets = homes + 0.35 * np.array([np.sin(turn), np.cos(turn)])
    lag = np.linalg.norm(button.world.objects[0, button.world.spans["gremlins"]] - targets, axis=-1)
    np.testing.assert_allclose(lag, 0.0314, atol=1e-3)
    np.testing.assert_allclose(button.world.qpos[0, 5::7], 0.1996, atol=1e-3)


def test_push_distances_are_three_dimensional(task):
    push = task("PointPush1")
    box = push.world.data[0].qpos[-7:]
    goal = push.world.objects[0, 0]
    for distance, reached in ((0.2980, False), (0.2965, True)):
        box[:3] = goal[0] + distance, goal[1], 0.2
        push.world.refresh([0])
        assert push.aim.reached(push.world, push.aim.measure(push.world))[0] == reached


def test_circle_pays_for_running_counterclockwise_near_the_rim(task):
    for level, outside_in_y in ((1, 0.0), (2, 1.0)):
        circle = task(f"PointCircle{level}")
        data = circle.world.data[0]
        data.mocap_quat[0] = 1.0, 0.0, 0.0, 0.0
        data.qvel[:] = 0.0, 1.0, 0.0
        put_point(circle, 1.0, 0.0)
        assert circle.judge().reward[0] == pytest.approx(0.1 / 1.5)
        for (x, y), cost in (((1.124, 0.0), 0.0), ((1.13, 0.0), 1.0), ((0.0, 1.13), outside_in_y)):
            put_point(circle, x, y)
            assert circle.judge().costs[0, 0] == cost


def test_the_point_robot_moves_as_specified(task):
    circle = task("PointCircle1")
    circle.world.data[0].mocap_quat[0] = 1.0, 0.0, 0.0, 0.0
    circle.advance(np.array([[1.0, 1.0]]))
    for _ in range(9):
        circle.advance(np.array([[1.0, 1.0]]))
    np.testing.assert_allclose(circle.world.qpos[0], [0.052806, 0.000782, 0.583415], atol=2e-6)


@pytest.mark.parametrize("name", NAMES)
def test_episodes_end_at_the_time_limit_and_only_there(name):
    env = NavigationTask(1, name, threads=1)
    env.begin(np.array([0]), [1])
    limit = 500 if "Circle" in name else 1000
    assert env.spec.max_episode_steps == limit
    env.lengths[:] = limit - 2
    assert not env.advance(STILL).truncated[0]
    env.lengths += 1
    out = env.advance(STILL)
    assert out.truncated[0] and not out.terminated[0]


@pytest.mark.parametrize("speed", [np.nan, np.inf, 1e12])
def test_a_blown_up_simulation_ends_the_episode_without_reward_or_cost(
    speed, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)  # MuJoCo writes a log there
    batch = NavigationTask(2, "SafetyPointGoal2-v0", threads=1)
    before = batch.begin(np.array([0, 1]), [0, 1])
    batch.world.data[0].qvel[3] = speed  # of a vase: moving costs something
    out = batch.advance(np.zeros((2, 2)))
    assert out.terminated.tolist() == [True, False] and not out.truncated.any()
    assert out.reward[0] == 0.0 and out.costs[0, 0] == 0.0
    assert not any(charged[0] for charged in batch.charged.values())
    np.testing.assert_array_equal(out.successor[0], before[0])
    assert np.isfinite(out.successor).all()
    batch.begin(np.array([0]), [0])
    np.testing.assert_array_equal(batch.observe()[0].astype(np.float32), before[0])
    assert not batch.advance(np.zeros((2, 2))).terminated.any()


def test_costs_are_chosen_by_name_in_any_order(task):
    chosen = task("PointGoal2", cost_names=("vases", "hazards", "cost"))
    assert chosen.spec.cost_names == ("vases", "hazards", "cost")
    x, y = chosen.world.objects[0, chosen.world.spans["hazards"]][0]
    put_point(chosen, x, y)
    assert chosen.judge().costs[0].tolist() == [0.0, 1.0, 1.0]


def test_an_unconstrained_kind_is_not_in_the_total_but_can_be_chosen(task):
    push = task("PointPush1", cost_names=("cost", "pillars"))
    x, y = push.world.objects[0, push.world.spans["pillars"]][0]
    put_point(push, x - 0.29, y)
    assert push.judge().costs[0].tolist() == [0.0, 1.0]
    total = task("PointPush1", constrained=("pillars",))
    put_point(total, x - 0.29, y)
    assert total.judge().costs[0, 0] == 1.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cost_names": ("hazard",)}, "did you mean 'hazards'"),
        ({"cost_names": ("pillars",)}, "has no cost 'pillars'"),
        ({"counts": {"vase": 3}}, "did you mean 'vases'"),
        ({"counts": {"vases": -1}}, "cannot have -1 vases"),
        ({"constrained": ("goals",)}, "has no 'goals'"),
        ({"extent": 0.2}, "smaller than the largest keep-out"),
    ],
)
def test_impossible_options_are_refused_with_a_hint(options, message):
    with pytest.raises(UsageError, match=message):
        NavigationTask(1, "SafetyPointGoal1-v0", **options)


def test_a_misspelt_task_gets_the_nearest_name():
    with pytest.raises(UsageError, match="did you mean 'SafetyPointGoal1-v0'"):
        NavigationTask(1, "SafetyPointGoals1-v0")


def test_counts_change_the_arena_and_not_the_observation(task):
    fewer = task("PointGoal1", counts={"hazards": 2, "vases": 3})
    assert fewer.world.objects.shape == (1, 6, 2)
    assert fewer.spec.observation_size == 60
    none = task("PointGoal1", counts={"hazards": 0})
    assert not none.observe()[0, 28:44].any()


def test_rows_do_not_depend_on_their_neighbours_or_on_threads():
    actions = np.random.default_rng(0).uniform(-1, 1, (30, 4, 2))
    runs = []
    for threads, rows in ((1, [0, 1, 2, 3]), (3, [0, 1, 2, 3]), (1, [2])):
        batch = NavigationTask(len(rows), "SafetyCarButton1-v0", threads=threads)
        batch.begin(np.arange(len(rows)), rows)
        runs.append(np.array([batch.advance(each[rows]).successor for each in actions]))
        batch.close()
    np.testing.assert_array_equal(runs[0], runs[1])
    np.testing.assert_array_equal(runs[0][:, 2], runs[2][:, 0])


@pytest.mark.parametrize(
    "name", ["SafetyPointPush2-v0", "SafetyCarGoal1-v0", "SafetyCarButton1-v0"]
)
def test_a_saved_state_goes_on_as_if_nothing_had_happened(name):
    actions = np.random.default_rng(1).uniform(-1, 1, (40, 1, 2))
    one, other = (NavigationTask(1, name, sleep=False, threads=1) for _ in range(2))
    one.begin(np.array([0]), [7])
    for action in actions[:20]:
        one.advance(action)
    other.begin(np.array([0]), [8])
    other.set_row_state(0, one.row_state(0))
    for action in actions[20:]:
        np.testing.assert_allclose(
            one.advance(action).successor, other.advance(action).successor, atol=1e-4
        )


def test_the_registry_makes_them_with_chosen_costs():
    made = make_task("SafetyPointGoal2-v0", 2, costs=("hazards", "vases"))
    starts = (Start(seed, np.array([-5.0, -5.0], np.float32)) for seed in itertools.count())
    obs, stock = made.reset(starts)
    assert obs.shape == (2, 60) and obs.dtype == np.float32 and stock.shape == (2, 2)
    step = made.step(np.ones((2, 2)))
    assert step.costs.shape == (2, 2)
    made.close()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.filterwarnings("ignore:.*A Box observation space m.*:UserWarning")
def test_gymnasium_accepts_the_single_environments(name):
    env = gymnasium.make(f"ucpo/{name}")
    check_env(env.unwrapped, skip_render_check=True)
    env.reset(seed=3)
    observation, _, _, _, info = env.step(np.array([5.0, -5.0]))  # clipped, as in the original
    assert observation.dtype == np.float64
    assert info["cost"] in (0.0, 1.0) and set(info["costs"]) <= {
        "hazards", "vases", "buttons", "gremlins", "pillars", "sigwalls",
    }  # fmt: skip
    env.close()


def test_without_a_seed_the_random_numbers_go_on():
    env = gymnasium.make("ucpo/SafetyPointGoal1-v0")
    first, _ = env.reset(seed=3)
    env.step(np.zeros(2))
    second, _ = env.reset()
    world = env.unwrapped.task.world
    stream, rules = layout.Stream(3), env.unwrapped.task.rules
    drawn = layout.draw(rules, stream)
    layout.redraw(rules, stream, 1, np.vstack([drawn.robot, drawn.objects]))
    stream.idle()
    np.testing.assert_array_equal(world.position[0, :2], layout.draw(rules, stream).robot)
    again, _ = env.reset(seed=3)
    assert (first == again).all() and (first != second).any()
    env.close()


@pytest.mark.parametrize(
    ("name", "constrained"),
    [
        ("Goal1", {"hazards"}),
        ("Goal2", {"hazards", "vases"}),
        ("Button0", set()),
        ("Button1", {"buttons", "hazards", "gremlins"}),
        ("Push1", {"hazards"}),
        ("Push2", {"hazards", "pillars"}),
        ("Circle2", {"sigwalls"}),
    ],
)
def test_the_total_is_made_of_the_right_kinds(name, constrained):
    for robot in ("Point", "Car"):
        objects = arena(f"Safety{robot}{name}-v0").objects
        assert {each.kind for each in objects if each.constrained} == constrained


def test_importing_the_package_loads_neither_mujoco_nor_torch():
    code = (
        "import sys, ucpo.envs, ucpo.envs.registry, gymnasium;"
        "gymnasium.spec('ucpo/SafetyCarGoal1-v0');"
        "sys.exit('mujoco' in sys.modules or 'torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def assert_keeps_out(task, row):
    """A layout just drawn, with the goal where it is now, leaves everything the room it needs."""
    radii = task.rules.keepout[:, None] + task.rules.keepout[None]
    np.fill_diagonal(radii, 0.0)
    if task.arena.aim == "Button":  # the goal stands on a button
        goal = 1 + task.world.spans["goal"].start
        radii[goal] = radii[:, goal] = 0.0
    places = np.vstack([task.world.position[row, :2], task.world.objects[row]])
    gaps = np.linalg.norm(places[:, None] - places[None], axis=-1)
    assert (gaps >= radii - 1e-12).all()


def soak(steps_per_task):
    for index, name in enumerate(NAMES):
        task = NavigationTask(8, name)
        random = np.random.default_rng(index)
        starts = (Start(int(random.integers(2**31)), np.zeros(1)) for _ in itertools.count())
        task.reset(starts)
        for row in range(8):
            assert_keeps_out(task, row)
        held = random.uniform(-1, 1, (8, 2))
        for step in range(steps_per_task // 8):
            if step % 5 == 0:
                held = random.uniform(-1, 1, (8, 2))
            out = task.step(held)
            assert np.isfinite(out.successor).all() and np.isfinite(out.obs).all()
            assert not out.terminated.any()
            for row in out.episodes.rows:
                assert_keeps_out(task, row)
        task.close()


def test_random_steps_stay_finite_on_every_task():
    soak(800)


@pytest.mark.slow
def test_a_million_random_steps_stay_finite():
    soak(1_000_000 // len(NAMES) + 8)


def test_the_collider_is_the_old_one():
    model = NavigationTask(1, "SafetyCarGoal1-v0").world.model
    assert model.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_NATIVECCD
    assert model.opt.integrator == mujoco.mjtIntegrator.mjINT_EULER
