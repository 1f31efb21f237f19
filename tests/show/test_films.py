"""Films are written whole, in the size and number of their frames."""

import re
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from ucpo.errors import UsageError
from ucpo.show import episodes, films


def frames(count=6, size=(61, 40)):
    """From black to white."""
    return [
        Image.new("RGB", size, (shade,) * 3) for shade in np.linspace(0, 255, count).astype(int)
    ]


def read(path):
    """What ffmpeg says of a film, and its frames (n, height, width, 3)."""
    program = films.ffmpeg()
    about = subprocess.run([program, "-i", path], capture_output=True, check=False).stderr.decode()
    words = [program, "-loglevel", "error", "-i", path, "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    raw = subprocess.run(words, capture_output=True, check=True).stdout
    width, height = map(int, re.search(r"Video: h264.* (\d+)x(\d+)", about).groups())
    return about, np.frombuffer(raw, np.uint8).reshape(-1, height, width, 3)


def test_an_mp4_shows_the_frames_in_order_with_even_sides(tmp_path):
    films.writer(tmp_path / "film.mp4")(frames(), 0.1)
    about, film = read(tmp_path / "film.mp4")
    assert "10 fps" in about
    assert film.shape == (6, 40, 62, 3)
    assert film[..., :60, :].mean((1, 2, 3)) == pytest.approx(np.linspace(0, 255, 6), abs=8)


def test_a_gif_is_written_as_before(tmp_path):
    films.writer(tmp_path / "film.gif")(frames(), 0.1)
    with Image.open(tmp_path / "film.gif") as film:
        assert (film.n_frames, film.info["duration"], film.size) == (6, 100, (61, 40))


def test_what_cannot_be_written_is_noticed_before_anything_is_played(tmp_path, monkeypatch):
    monkeypatch.setattr(episodes, "play", lambda *a, **k: pytest.fail("played"))

    def record(name):
        return episodes.record("SafetyPointGoal1-v0", None, tmp_path / name)

    with pytest.raises(UsageError, match=r"as \.gif or \.mp4, got 'film.avi'"):
        record("film.avi")
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot be written"):
        record("file/film.gif")
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    monkeypatch.setattr(films.shutil, "which", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'ucpo\[video\]', or write a \.gif"):
        record("film.mp4")


def test_an_episode_is_recorded_as_mp4(tmp_path):
    seen = episodes.record(
        "SafetyPointCircle1-v0",
        lambda obs, stock: np.zeros((1, 2)),
        tmp_path / "episode.mp4",
        every=100,
        pixels=64,
    )
    assert read(tmp_path / "episode.mp4")[1].shape == (seen.frames, 64, 64, 3)
