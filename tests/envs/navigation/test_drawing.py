"""Pictures: from above, from MuJoCo's renderer, and moving."""

import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from ucpo.envs.navigation import drawing
from ucpo.envs.navigation.env import NavigationTask
from ucpo.envs.navigation.gym import NavigationEnv
from ucpo.envs.navigation.names import NAMES
from ucpo.errors import UsageError
from ucpo.show.episodes import record


def pixel(image, seen, x, y):
    scale = image.width / (2 * seen.half_width)
    return image.getpixel((image.width / 2 + x * scale, image.height / 2 - y * scale))


@pytest.mark.parametrize("name", NAMES)
def test_every_task_can_be_drawn(name):
    task = NavigationTask(1, name, threads=1)
    task.begin(np.array([0]), [0])
    seen = drawing.scene(task)
    image = drawing.picture(seen, pixels=120)
    assert image.size == (120, 120)
    assert len(seen.shapes) == sum(objects.count for objects in task.arena.objects)


def test_objects_and_robot_are_where_they_are_and_costs_are_red():
    task = NavigationTask(1, "SafetyPointGoal1-v0", threads=1)
    task.begin(np.array([0]), [0])
    seen = drawing.scene(task)
    image = drawing.picture(seen, [(-1.6, 1.0), (-1.6, -1.0)], [False, True], 400)
    hazard = next(shape for shape in seen.shapes if shape.kind == "hazards")
    red, _, blue = pixel(image, seen, hazard.x, hazard.y)
    assert blue > red + 30
    red, _, blue = pixel(image, seen, -1.6, 0.0)  # on the path that cost something
    assert red > blue + 80
    red, _, blue = pixel(image, seen, seen.x, seen.y)  # the robot is red too
    assert red > blue + 80
    free = drawing.picture(seen, [(-1.6, 1.0), (-1.6, -1.0)], [False, False], 400)
    red, _, blue = pixel(free, seen, -1.6, 0.0)
    assert blue > red


def test_an_episode_becomes_a_moving_picture(tmp_path):
    target = tmp_path / "new" / "episode.gif"
    seen = record(
        "SafetyPointCircle1-v0",
        lambda obs, stock: np.ones((1, 2)),
        target,
        budget=5.0,
        max_steps=20,
        every=5,
        pixels=100,
    )
    assert seen.steps == 20 and seen.frames == 5 and len(seen.costs) == 1
    with Image.open(target) as image:
        assert image.n_frames == 5 and image.size == (100, 100)


def test_a_moving_picture_ends_with_its_episode(tmp_path):
    stocks = []

    def act(obs, stock):
        stocks.append(stock.copy())
        return np.zeros((1, 2))

    seen = record(
        "SafetyPointGoal1-v0",
        act,
        tmp_path / "episode.gif",
        budget=(3.0, 7.0),
        costs=("hazards", "vases"),
        max_episode_steps=12,
        pixels=60,
    )
    assert seen.steps == 12 and len(stocks) == 12
    assert stocks[0].tolist() == [[-3.0, -7.0]]


def test_only_gifs_of_robots_are_written(tmp_path):
    with pytest.raises(UsageError, match=r"written as \.gif"):
        record("SafetyPointGoal1-v0", lambda obs, stock: None, tmp_path / "episode.avi")
    with pytest.raises(UsageError, match="only navigation and velocity tasks"):
        record("Courier-v0", lambda obs, stock: None, tmp_path / "episode.gif")


RENDER = """
from ucpo.envs.navigation.gym import NavigationEnv
env = NavigationEnv("SafetyCarPush2-v0", render_mode="rgb_array", width=64, height=48)
env.reset(seed=0)
image = env.render()
assert image.shape == (48, 64, 3) and image.std() > 10
env.close()
print("rendered")
"""


def test_rendering_gives_an_image_or_says_what_is_missing():
    # Apart, because a graphics context that could not be made complains when it is collected.
    run = subprocess.run(
        [sys.executable, "-c", RENDER], check=False, capture_output=True, text=True
    )
    assert "rendered" in run.stdout or "set MUJOCO_GL=egl" in run.stderr


def test_without_a_render_mode_nothing_is_rendered():
    env = NavigationEnv("SafetyPointGoal1-v0")
    env.reset(seed=0)
    assert env.render() is None
    with pytest.raises(UsageError, match="rgb_array"):
        NavigationEnv("SafetyPointGoal1-v0", render_mode="human")


def test_watching_does_not_load_torch():
    code = "import sys, ucpo.show.episodes; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_path_that_leads_far_out_stays_in_the_picture():
    task = NavigationTask(1, "SafetyPointCircle1-v0", threads=1)
    task.begin(np.array([0]), [0])
    image = np.asarray(drawing.picture(drawing.scene(task), [(0, 5), (9, 5)], [True, True], 310))
    # zoomed out to 9.3 m: the path ends 0.3 m, five pixels, before the right edge
    row = image[round(155 - 5 * 155 / 9.3)].astype(int)
    red = np.flatnonzero(row[:, 0] - row[:, 2] > 60)
    assert 300 <= red.max() <= 307
