"""Pictures of running robots, which need OpenGL."""

import subprocess
import sys

import pytest

from ucpo.envs.velocity.gym import VelocityEnv
from ucpo.errors import UsageError
from ucpo.show.episodes import record

RENDER = """
import sys
import numpy as np
from PIL import Image
from ucpo.envs.velocity.gym import VelocityEnv
from ucpo.show.episodes import record
env = VelocityEnv("SafetyHopperVelocity-v1", render_mode="rgb_array", width=64, height=48)
env.reset(seed=0)
image = env.render()
assert image.shape == (48, 64, 3) and image.std() > 10
env.close()
act = lambda obs, stock: np.zeros((1, 2))
seen = record("SafetySwimmerVelocity-v1", act, sys.argv[1], max_steps=9, every=3, pixels=48)
assert (seen.steps, seen.frames) == (9, 4)
with Image.open(sys.argv[1]) as film:
    assert film.n_frames == 4 and film.info["duration"] == 120  # 3 steps of 0.04 s
print("rendered")
"""


def test_rendering_gives_images_or_says_what_is_missing(tmp_path):
    # Apart, because a graphics context that could not be made complains when it is collected.
    run = subprocess.run(
        [sys.executable, "-c", RENDER, str(tmp_path / "episode.gif")],
        check=False,
        capture_output=True,
        text=True,
    )
    assert "rendered" in run.stdout or "set MUJOCO_GL=egl" in run.stderr, run.stderr


def test_without_a_render_mode_nothing_is_rendered():
    env = VelocityEnv("SafetyHopperVelocity-v1")
    env.reset(seed=0)
    assert env.render() is None
    with pytest.raises(UsageError, match="rgb_array"):
        VelocityEnv("SafetyHopperVelocity-v1", render_mode="human")


def test_there_is_no_camera_to_choose(tmp_path):
    with pytest.raises(UsageError, match="shown from the side"):
        record("SafetyAntVelocity-v1", lambda obs, stock: None, tmp_path / "a.gif", camera="track")
