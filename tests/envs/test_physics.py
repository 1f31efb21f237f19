"""The compiled loop over MuJoCo's own functions does what its Python functions do, bit for bit."""

import itertools

import mujoco
import numpy as np
import pytest

from ucpo.envs import native
from ucpo.envs.interface import Hold
from ucpo.envs.navigation.names import NAMES as NAVIGATION
from ucpo.envs.physics import Compiled, Interpreted
from ucpo.envs.registry import make_task
from ucpo.envs.velocity.runners import NAMES as VELOCITY
from ucpo.stock import Start

CASES = [(name, {}) for name in (*NAVIGATION, *VELOCITY)] + [
    ("SafetyPointGoal2-v0", {"sleep": False}),
    ("SafetyCarPush2-v0", {"sleep": False}),
    ("SafetyCarButton1-v0", {"counts": {"gremlins": 0}}),
    ("SafetyPointGoal1-v0", {"counts": {"vases": 20, "hazards": 0}}),
]
SOLID = ("buttons", "pillars", "vases", "gremlins", "push_box")
ENVS, STEPS = 4, 250


@pytest.fixture
def make(monkeypatch):
    """Makes tasks that step in either way."""
    made = []
    found = native.library()

    def build(name, way=Compiled, envs=ENVS, **options):
        monkeypatch.setattr(native, "library", lambda: found if way is Compiled else None)
        made.append(make_task(name, envs, **options))
        assert type(made[-1].world._physics) is way
        return made[-1]

    yield build
    for task in made:
        task.close()


def starts(task):
    for seed in itertools.count(3):
        yield Start(seed, np.zeros(len(task.spec.cost_names), np.float32))


def meet(task):
    """Put every other robot beside something solid, so that the two soon touch."""
    spans = getattr(task.world, "spans", {})
    solid = [kind for kind in SOLID if kind in spans]
    for row in range(0, task.num_envs, 2) if solid else ():
        x, y = task.world.objects[row, spans[solid[0]].start]
        data = task.world.data[row]
        place = data.qpos if task.arena.robot.name == "Car" else data.mocap_pos[0]
        place[:2] = x - 0.25, y
        task.world.refresh([row])


def seen(task, step):
    """Everything a step leaves behind, by name."""
    world = task.world
    names = ("qpos", "qvel", "time", "position", "broken", "sensors", "rotation", "objects")
    arrays = {name: getattr(world, name) for name in names if hasattr(world, name)}
    arrays |= {"touching": world.touching, **task.charged} if hasattr(world, "touching") else {}
    fields = ("obs", "successor", "reward", "costs", "terminated", "truncated")
    arrays |= {name: getattr(step, name) for name in fields}
    return {name: np.array(value) for name, value in arrays.items()}


@pytest.mark.parametrize(("name", "options"), CASES)
def test_both_ways_and_any_number_of_threads_give_the_same_bits(make, name, options):
    options = {"max_episode_steps": 100, **options}
    one = make(name, threads=2, **options)
    other = make(name, Interpreted, threads=1, **options)
    for task in (one, other):
        task.reset(starts(task))
        meet(task)
    random = np.random.default_rng(5)
    touched = False
    for index in range(STEPS):
        if index % 5 == 0:
            size = ENVS, one.spec.action_size
            actions = np.clip(random.normal(0.3, 0.7, size), -1.0, 1.0).astype(np.float32)
        mine, theirs = (seen(task, task.step(actions)) for task in (one, other))
        for field, value in mine.items():
            np.testing.assert_array_equal(value, theirs[field], err_msg=f"{field} at {index}")
        touched |= bool(mine.get("touching", np.zeros(1)).any())
    saved, expected = one.get_state(), other.get_state()
    for field, value in saved.items():
        np.testing.assert_array_equal(value, expected[field], err_msg=field)
    assert touched == any(kind in getattr(one.world, "spans", {}) for kind in SOLID)


@pytest.mark.parametrize("name", ["SafetyPointGoal2-v0", "SafetyCarButton2-v0", VELOCITY[3]])
def test_a_state_saved_in_one_way_goes_on_in_the_other(make, name):
    one, other = make(name), make(name, Interpreted)
    one.reset(starts(one))
    random = np.random.default_rng(0)
    actions = random.uniform(-1, 1, (60, ENVS, one.spec.action_size))
    for action in actions[:30]:
        one.step(action)
    other.set_state(one.get_state(), starts(other))
    one.set_state(one.get_state(), starts(one))  # what is not saved is recomputed in both
    for action in actions[30:]:
        mine, theirs = (seen(task, task.step(action)) for task in (one, other))
        for field, value in mine.items():
            np.testing.assert_array_equal(value, theirs[field], err_msg=field)


@pytest.mark.parametrize("speed", [np.nan, np.inf, 1e12])
@pytest.mark.parametrize("name", ["SafetyCarGoal2-v0", "SafetyPointButton1-v0", *VELOCITY])
def test_physics_that_fails_is_noticed_in_both_ways(make, name, speed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # MuJoCo writes a log there
    answers = []
    for way in (Compiled, Interpreted):
        task = make(name, way)
        task.reset(starts(task))
        task.step(np.zeros((ENVS, task.spec.action_size)))
        task.world.data[1].qvel[-1] = speed
        out = task.advance(np.full((ENVS, task.spec.action_size), 0.5))
        assert task.world.broken.tolist() == [False, True, False, False]
        assert out.terminated[1] and out.reward[1] == 0.0 and not out.costs[1].any()
        answers.append(out)
    for field in ("successor", "reward", "costs", "terminated", "truncated"):
        np.testing.assert_array_equal(getattr(answers[0], field), getattr(answers[1], field))


@pytest.mark.parametrize("way", [Compiled, Interpreted])
@pytest.mark.parametrize("name", ["SafetyCarGoal1-v0", "SafetyPointButton1-v0", VELOCITY[0]])
def test_rows_that_are_not_awake_are_not_stepped(make, name, way):
    task, free = make(name, way), make(name, way)
    for each in (task, free):
        each.reset(starts(each))
    actions = np.full((ENVS, task.spec.action_size), 0.7)
    before = [np.array(data.qpos) for data in task.world.data]
    task.awake = np.array([True, False, True, False])
    for _ in range(5):
        task.advance(actions)
        free.advance(actions)
    for row in range(ENVS):
        expected = free.world.data[row].qpos if task.awake[row] else before[row]
        np.testing.assert_array_equal(task.world.data[row].qpos, expected)
        np.testing.assert_array_equal(task.world.qpos[row], expected)


@pytest.mark.parametrize("name", ["SafetyPointGoal1-v0", "SafetyHopperVelocity-v1"])
def test_held_decisions_give_the_same_bits_in_both_ways(make, name):
    one, other = make(name, max_episode_steps=33), make(name, Interpreted, max_episode_steps=33)
    for task in (one, other):
        task.reset(starts(task))
    random = np.random.default_rng(2)
    for actions in random.uniform(-1, 1, (40, ENVS, one.spec.action_size)):
        mine, theirs = (seen(task, task.step(actions, Hold(4))) for task in (one, other))
        for field, value in mine.items():
            np.testing.assert_array_equal(value, theirs[field], err_msg=field)


def test_sensors_are_those_of_the_last_state_alone(make):
    task = make("SafetyCarGoal1-v0", envs=1)
    task.reset(starts(task))
    task.step(np.ones((1, 2)))
    sensed = task.world.sensors[0].copy()
    mujoco.mj_forward(task.world.model, task.world.data[0])
    np.testing.assert_array_equal(task.world.data[0].sensordata, sensed)
    assert sensed[:12].all()


def test_the_library_is_found_and_lets_go_of_the_interpreter_lock():
    assert native.library() is not None
    assert native.step.targetoptions["nogil"]


def test_time_and_contacts_are_where_they_are_said_to_be(make):
    task = make("SafetyPointGoal2-v0", sleep=False)
    task.reset(starts(task))
    for _ in range(3):
        task.step(np.ones((ENVS, 2)))
    for row, data in enumerate(task.world.data):
        at = task.world._physics._at
        assert np.ctypeslib.as_array((native.ctypes.c_int * 1).from_address(
            int(at.contact_counts[row])))[0] == data.ncon > 0  # fmt: skip
        assert task.world.time[row] == data.time > 0.0


@pytest.mark.parametrize("lacking", ["_loaded", "_offset_of"])
def test_without_library_or_known_places_in_a_state_there_is_the_other_way(lacking, monkeypatch):
    monkeypatch.setattr(native, lacking, lambda *_: None)
    native.library.cache_clear()
    task = make_task("SafetyPointGoal1-v0", 1)
    native.library.cache_clear()
    assert type(task.world._physics) is Interpreted


def test_a_number_that_cannot_be_told_from_others_is_not_found():
    assert native._offset_of("time", np.float64) is not None
    assert native._offset_of("nf", np.int32) is None  # 0, like much else


def test_controls_of_another_shape_are_refused(make):
    task = make("SafetyPointGoal1-v0")
    task.reset(starts(task))
    for shape in ((ENVS, 3), (ENVS - 1, 2), (ENVS, 1)):
        with pytest.raises(ValueError, match="controls must be of shape"):
            task.world.step(np.zeros(shape), task.awake)
