"""Pictures as a film: an animated GIF, or an MP4 that is a tenth of its size."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ucpo.errors import UsageError
from ucpo.storage import files

if TYPE_CHECKING:
    from PIL import Image

Frames = list["Image.Image"]


def writer(target: Path) -> Callable[[Frames, float], None]:
    """What writes frames, each shown for some seconds, to a file; its name says how.

    Raises a `UsageError` for a name or place that cannot work, so that it is known before playing.
    """
    kind = target.suffix.lower()
    if kind not in (".gif", ".mp4"):
        raise UsageError(f"a moving picture is written as .gif or .mp4, got {target.name!r}")
    files.must_be_writable(target, "name another file with --output")
    return partial(_gif, target) if kind == ".gif" else partial(_mp4, target, ffmpeg())


def ffmpeg() -> str:
    """The program that makes MP4s: the system's, or what ``ucpo[video]`` brings."""
    found = shutil.which("ffmpeg")
    if found is not None:
        return found
    try:
        from imageio_ffmpeg import get_ffmpeg_exe
    except ImportError:
        raise UsageError(
            "MP4 needs ffmpeg, which is not installed: pip install 'ucpo[video]', or write a .gif"
        ) from None
    return str(get_ffmpeg_exe())


def _gif(target: Path, frames: Frames, seconds: float) -> None:
    frames[0].save(
        target,
        save_all=True,
        append_images=frames[1:],
        duration=max(20, round(1000 * seconds)),
        loop=0,
        optimize=True,
    )


def _mp4(target: Path, program: str, frames: Frames, seconds: float) -> None:
    width, height = frames[0].size
    given = ("-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}")
    even = ("-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2")  # the codec wants even sides
    made = ("-c:v", "libx264", "-crf", "20", "-pix_fmt", "yuv420p", "-movflags", "+faststart")
    words = [program, "-loglevel", "error", "-y", *given, "-r", f"{1.0 / seconds:.6g}", "-i", "-"]
    film = b"".join(np.asarray(frame.convert("RGB")).tobytes() for frame in frames)
    done = subprocess.run(
        [*words, *even, *made, str(target)], input=film, capture_output=True, check=False
    )
    if done.returncode:
        reason = done.stderr.decode(errors="replace").strip()[:300]
        raise UsageError(f"{program} could not write {target} ({reason}); write a .gif instead")
