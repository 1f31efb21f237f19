import itertools
import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from ucpo.envs.registry import TASKS, family_of, make_task
from ucpo.envs.velocity import world as worlds
from ucpo.envs.velocity.env import COST_NAMES, VelocityTask
from ucpo.envs.velocity.runners import NAMES, RUNNERS
from ucpo.errors import UsageError
from ucpo.stock import Start

ROW = np.array([0])


def full(robot):
    return f"Safety{robot}Velocity-v1"


@pytest.fixture
def task():
    made = []

    def make(robot, num_envs=1, **options):
        made.append(VelocityTask(num_envs, full(robot), threads=1, **options))
        made[-1].begin(np.arange(num_envs), list(range(num_envs)))
        return made[-1]

    yield make
    for each in made:
        each.close()


def at_rest(task):
    """Put the only robot where it starts without noise."""
    task.world.place(0, task.world.model.qpos0, np.zeros(task.world.model.nv))


# Three steps of a constant action from rest, in the original.
CONSTANT = [
    ("Ant", 0.3, [0.644756, 0.705843, 0.690445]),
    ("Ant", 1.0, [-2.985109, -2.860099, -2.978189]),
    ("HalfCheetah", 0.3, [0.230438, 0.326365, 0.081908]),
    ("HalfCheetah", 1.0, [0.318091, 0.379232, -0.572996]),
    ("Hopper", 0.3, [1.010619, 1.019417, 1.026342]),
    ("Hopper", 1.0, [1.032069, 1.057630, 1.081668]),
    ("Humanoid", 0.3, [4.975524, 4.975522, 4.975521]),
    ("Humanoid", 1.0, [4.728011, 4.727988, 4.728535]),
    ("Swimmer", 0.3, [0.000134, 0.002177, 0.008854]),
    ("Swimmer", 1.0, [0.001443, 0.021655, 0.077373]),
    ("Walker2d", 0.3, [1.067566, 1.115868, 1.147351]),
    ("Walker2d", 1.0, [1.206819, 1.332797, 1.316478]),
]


@pytest.mark.parametrize(("robot", "share", "rewards"), CONSTANT)
def test_actions_are_shares_of_the_control_range(task, robot, share, rewards):
    runner = task(robot)
    at_rest(runner)
    action = np.full((1, runner.spec.action_size), share)
    paid = [runner.advance(action).reward[0] for _ in range(3)]
    np.testing.assert_allclose(paid, rewards, rtol=0, atol=2e-6)


@pytest.mark.parametrize(
    ("robot", "first"),
    [
        ("Ant", [0.658195, 0.993210, 0.068890, 0.090767, 0.023450]),
        ("HalfCheetah", [-0.046043, -0.091805, -0.096694, 0.062654, 0.082551]),
        ("Hopper", [1.247698, -0.004590, -0.004835, 0.003133, 0.004128]),
        ("Humanoid", [1.390819, 0.999943, 0.006326, 0.008335, 0.002153]),
        ("Swimmer", [-0.091805, -0.096694, 0.062654, 0.082551, 0.021327]),
        ("Walker2d", [1.247698, -0.004590, -0.004835, 0.003133, 0.004128]),
    ],
)
def test_a_seed_gives_the_noise_of_the_original(task, robot, first):
    np.testing.assert_allclose(task(robot).observation[0, :5], first, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_the_cost_begins_just_above_the_limit(name):
    runner = VelocityTask(1, name, COST_NAMES, threads=1)
    world, limit = runner.world, runner.runner.speed_limit
    rest = np.zeros((1, runner.spec.action_size))
    runner.begin(ROW, [0])
    for change, above in ((1e-9, True), (-1e-9, False)):
        speed = limit + change
        sideways = (0.6 * speed, -0.8 * speed) if runner.runner.planar else (speed, -9.0)
        world.before[:] = 0.0
        world.position[0] = np.array(sideways) * world.seconds
        costs = dict(zip(COST_NAMES, runner.judge(rest).costs[0], strict=True))
        assert costs["cost"] == costs["speed"] == above
        assert costs["speed_excess"] == pytest.approx(1e-9 if above else 0.0, abs=1e-12)
    world.position[0] = -9.0 * world.seconds, 0.0
    assert runner.judge(rest).costs[0, 0] == runner.runner.planar  # backwards is free in a plane


def test_effort_is_a_share_of_what_is_possible(task):
    humanoid = task("Humanoid", cost_names=("control", "control_excess"), control_limit=0.3)
    for control, excess in ((0.2, 0.0), (0.4, 0.7), (1.2, 0.7)):
        costs = humanoid.drive(np.full((1, 17), control)).costs[0]
        assert costs.tolist() == [float(excess > 0), pytest.approx(excess)]


def test_the_speed_limit_can_be_chosen_beside_that_of_the_original(task):
    slow = task("Swimmer", cost_names=("cost", "speed", "speed_excess"), speed_limit=0.1)
    slow.world.before[:], slow.world.position[:] = 0.0, 0.15 * slow.world.seconds
    assert slow.judge(np.zeros((1, 2))).costs[0].tolist() == [0.0, 1.0, pytest.approx(0.05)]


@pytest.mark.parametrize(
    ("robot", "index", "healthy", "fallen"),
    [
        ("Ant", 2, [0.2, 1.0], [0.1999, 1.0001, np.nan]),
        ("Hopper", 1, [0.7001, 5.0], [0.7, np.nan]),
        ("Hopper", 2, [-0.1999, 0.1999], [-0.2, 0.2]),
        ("Hopper", 4, [99.9], [-100.0]),
        ("Humanoid", 2, [1.0001, 1.9999], [1.0, 2.0]),
        ("Walker2d", 1, [0.8001, 1.9999], [0.8, 2.0]),
        ("Walker2d", 2, [-0.9999, 0.9999], [-1.0, 1.0]),
        ("HalfCheetah", 1, [-9.0, 9.0], []),
        ("Swimmer", 2, [-9.0, 9.0], []),
    ],
)
def test_episodes_end_with_a_fall_and_the_last_step_is_paid_too(
    task, robot, index, healthy, fallen
):
    runner = task(robot)
    alive = RUNNERS[full(robot)].alive
    for places, ends in ((healthy, False), (fallen, True)):
        for place in places:
            at_rest(runner)
            runner.world.before[:] = runner.world.position
            runner.world.qpos[0, index] = place
            out = runner.judge(np.zeros((1, runner.spec.action_size)))
            assert out.terminated[0] == ends and out.reward[0] == alive


def test_control_is_charged_as_asked_for_and_clamped_by_the_physics(task):
    one, other = task("Hopper"), task("Hopper")
    out, strong = one.drive(np.ones((1, 3))), other.drive(np.full((1, 3), 2.0))
    np.testing.assert_array_equal(out.successor, strong.successor)
    assert out.reward[0] - strong.reward[0] == pytest.approx(1e-3 * (12 - 3))

    # Humanoid's controls go to 0.4; an action of 1 is all of that, and one of 2 is charged as 0.8.
    one, other = task("Humanoid"), task("Humanoid")
    out, strong = one.advance(np.ones((1, 17))), other.advance(np.full((1, 17), 2.0))
    np.testing.assert_array_equal(out.successor, strong.successor)
    assert out.reward[0] - strong.reward[0] == pytest.approx(0.1 * 17 * (0.8**2 - 0.4**2))


def test_observed_velocities_are_clipped_where_the_original_clips(task):
    for robot, observed in (("Hopper", 10.0), ("Walker2d", 10.0), ("HalfCheetah", 12.0)):
        runner = task(robot)
        runner.world.qvel[0, :2] = 12.0, -12.0
        nv = runner.world.model.nv
        runner.judge(np.zeros((1, runner.spec.action_size)))
        assert runner.observation[0, -nv : 2 - nv].tolist() == [observed, -observed]


def test_humanoid_sees_no_contact_forces_at_first_and_28_zeros_always(task):
    humanoid = task("Humanoid")
    assert not humanoid.observation[0, 292:].any()
    for _ in range(12):  # until its feet are on the floor
        humanoid.advance(np.zeros((1, 17)))
    zero = humanoid.observation[0] == 0.0
    structural = [*range(45, 55), *range(185, 191), *range(269, 275), *range(292, 298)]
    assert zero[structural].all() and len(structural) == 28
    assert humanoid.observation[0, 298:].any()


def test_the_models_are_those_of_the_original(task):
    masses = {"Ant": 0.91088, "HalfCheetah": 14.0, "Hopper": 15.82, "Humanoid": 42.116}
    for robot, mass in (masses | {"Swimmer": 106.8142, "Walker2d": 23.6771}).items():
        model = task(robot).world.model
        assert model.body_mass.sum() == pytest.approx(mass, abs=1e-4)
        assert len(set(model.geom_margin)) == 1
    walker = task("Walker2d").world.model
    feet = [walker.geom(name).friction[0] for name in ("foot_geom", "foot_left_geom")]
    assert feet == [0.9, 1.9]


def test_contacts_begin_where_they_did_in_the_original(task):
    ant = task("Ant")
    floor, torso = ant.world.model.geom("floor"), ant.world.model.geom("torso_geom")
    for gap, touching in ((0.0099, True), (0.0101, False)):
        place = ant.world.model.qpos0.copy()
        place[2] = 0.25 + gap  # the torso is a ball of radius 0.25
        ant.world.place(0, place, np.zeros(14))
        pairs = {tuple(pair) for pair in ant.world.data[0].contact.geom.tolist()}
        assert ((floor.id, torso.id) in pairs) == touching


@pytest.mark.parametrize("name", NAMES)
def test_the_time_limit_truncates(name):
    runner = VelocityTask(1, name, threads=1)
    runner.begin(ROW, [0])
    runner.lengths[:] = 998
    rest = np.zeros((1, runner.spec.action_size))
    assert not runner.advance(rest).truncated[0]
    runner.lengths += 1
    out = runner.advance(rest)
    assert out.truncated[0] and not out.terminated[0]


def test_a_blown_up_simulation_ends_the_episode_without_reward_or_cost(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # MuJoCo writes a log there
    batch = VelocityTask(2, full("Hopper"), COST_NAMES, threads=1)
    batch.begin(np.arange(2), [0, 1])
    push = np.full((2, 3), 0.9)
    before = batch.advance(push).successor
    batch.world.data[0].qvel[0] = np.nan
    out = batch.advance(push)
    assert out.terminated.tolist() == [True, False] and not out.truncated.any()
    assert out.reward[0] == 0.0 and not out.costs[0].any() and out.costs[1].any()
    assert not any(batch.charge(name)[0] for name in COST_NAMES) and not batch.velocity[0].any()
    np.testing.assert_array_equal(out.successor[0], before[0])
    batch.begin(ROW, [0])
    assert not batch.advance(push).terminated.any()


def test_rows_do_not_depend_on_their_neighbours_or_on_threads():
    actions = np.random.default_rng(0).uniform(-1, 1, (30, 4, 8))
    runs = []
    for threads, rows in ((1, [0, 1, 2, 3]), (3, [0, 1, 2, 3]), (1, [2])):
        batch = VelocityTask(len(rows), full("Ant"), threads=threads)
        batch.begin(np.arange(len(rows)), rows)
        runs.append(np.array([batch.advance(each[rows]).successor for each in actions]))
        batch.close()
    np.testing.assert_array_equal(runs[0], runs[1])
    np.testing.assert_array_equal(runs[0][:, 2], runs[2][:, 0])


def test_starting_one_row_leaves_the_others_alone(task):
    batch = task("Humanoid", num_envs=2)
    batch.advance(np.full((2, 17), 0.5))
    other, place = batch.observation[1].copy(), batch.world.position[1].copy()
    batch.begin(ROW, [5])
    np.testing.assert_array_equal(batch.observation[1], other)
    np.testing.assert_array_equal(batch.world.position[1], place)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "SafetyHoperVelocity-v1"}, "did you mean 'SafetyHopperVelocity-v1'"),
        ({"cost_names": ("sped",)}, "did you mean 'speed'"),
        ({"cost_names": ("hazards",)}, "has no cost 'hazards'; known: control, "),
        ({"control_limit": 1.0}, "control_limit must be from 0 to below 1"),
        ({"num_envs": 0}, "num_envs must be at least 1"),
    ],
)
def test_what_cannot_be_is_refused_with_a_hint(options, message):
    with pytest.raises(UsageError, match=message):
        VelocityTask(**{"num_envs": 1, **options})


def test_the_registry_makes_them_with_chosen_costs():
    assert all(name in TASKS and family_of(name) == "velocity" for name in NAMES)
    made = make_task(full("Walker2d"), 2, costs=("control_excess", "cost"))
    starts = (Start(seed, np.array([-5.0, -5.0], np.float32)) for seed in itertools.count())
    obs, stock = made.reset(starts)
    assert obs.shape == (2, 17) and obs.dtype == np.float32 and stock.shape == (2, 2)
    step = made.step(np.ones((2, 6)))
    assert step.costs.tolist() == [[0.75, 0.0]] * 2
    made.close()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.filterwarnings("ignore:.*A Box observation space m.*:UserWarning")
def test_gymnasium_accepts_the_single_environments(name):
    env = gymnasium.make(f"ucpo/{name}")
    check_env(env.unwrapped, skip_render_check=True)
    assert env.spec.max_episode_steps == 1000 and env.action_space.dtype == np.float32
    env.reset(seed=3)
    observation, _, _, _, info = env.step(env.action_space.sample())
    assert observation.dtype == np.float64 and info["cost"] in (0.0, 1.0)
    assert set(info["costs"]) == set(COST_NAMES) - {"cost"}
    with pytest.raises(UsageError, match="an action has shape"):
        env.unwrapped.step(np.zeros(1))
    env.close()


@pytest.mark.parametrize(
    "robot", ["Ant", "HalfCheetah", "Hopper", "Humanoid", "Swimmer", "Walker2d"]
)
def test_single_environments_equal_the_old_ones_of_gymnasium(robot):
    """Gymnasium still has the v4 environments; only contact margins and quaternions are undone."""
    with pytest.warns(DeprecationWarning, match="out of date"):
        old = gymnasium.make(f"{robot}-v4")
    new = gymnasium.make(f"ucpo/{full(robot)}")
    if worlds.margins_add_up():
        old.unwrapped.model.geom_margin *= 0.5
    first, _ = old.reset(seed=11)
    observed, _ = new.reset(seed=11)
    if robot not in ("Ant", "Humanoid"):
        np.testing.assert_array_equal(observed, first)
    random = np.random.default_rng(0)
    limit = new.action_space.high
    for _ in range(8):
        action = random.uniform(-limit, limit).astype(np.float32)
        was, reward, terminated, _, info = old.step(action)
        now, paid, ended, _, said = new.step(action)
        np.testing.assert_allclose(now, was, rtol=1e-6, atol=1e-6)
        assert paid == pytest.approx(reward, abs=1e-6) and ended == terminated
        assert said["x_velocity"] == pytest.approx(info["x_velocity"], abs=1e-6)
        if ended:
            break
    old.close()
    new.close()


def test_without_a_seed_the_random_numbers_go_on():
    env = gymnasium.make("ucpo/SafetySwimmerVelocity-v1")
    first, _ = env.reset(seed=3)
    second, _ = env.reset()
    generator = np.random.default_rng(3)
    np.testing.assert_array_equal(first, generator.uniform(-0.1, 0.1, 10)[2:])
    np.testing.assert_array_equal(second, generator.uniform(-0.1, 0.1, 10)[2:])
    env.close()


def test_importing_the_package_loads_neither_mujoco_nor_torch():
    code = (
        "import sys, ucpo, ucpo.envs.registry, gymnasium;"
        "gymnasium.spec('ucpo/SafetyAntVelocity-v1');"
        "sys.exit('mujoco' in sys.modules or 'torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_random_steps_stay_finite():
    random = np.random.default_rng(0)
    for name in NAMES:
        batch = VelocityTask(4, name)
        batch.reset(Start(seed, np.zeros(1, np.float32)) for seed in itertools.count())
        for _ in range(150):
            out = batch.step(random.uniform(-1, 1, (4, batch.spec.action_size)))
            assert np.isfinite(out.obs).all() and np.isfinite(out.successor).all()
        batch.close()
