"""Damaged and hostile files for the loaders: each must load or be refused in one paragraph.

`python -m tests.fuzzing 12000` tries so many and prints what came of them. Memory is limited, so a
header that talks a loader into a large allocation counts as a crash, and starting a program,
unpickling or connecting to anything ends the process.
"""

import contextlib
import io
import json
import logging
import random
import shutil
import struct
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path

from ucpo import UCP, UsageError, load
from ucpo.config.files import read_config, resolve, to_toml
from ucpo.storage import files

WILD = (
    *(0, -1, 1, 2, 3, 2**31, 2**53, 2**64, 10**30, -(2**63), 1e308, -0.5, float("nan"), True),
    *(None, "", "x", "../../etc/passwd", "os:system", "\x1b[2J", "\0", "ü" * 300, "A" * 5000),
    *([], [[]], [1] * 2000, [-1], ["a", 1], {}, {"a": {}}, [2**40, 2**40], [[[[1]]]]),
)
FORBIDDEN = ("os.system", "os.exec", "os.posix_spawn", "subprocess.Popen", "pickle.find_class")
SLOWEST = 10.0  # seconds for one file


def scramble(data: bytes, chance: random.Random) -> bytes:
    """Bytes flipped, cut out, repeated, inserted, or cut off."""
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 8))):
        place = chance.randrange(len(changed) + 1)
        length = chance.choice((1, 4, 64, max(len(changed) // 2, 1)))
        kind = chance.randrange(5)
        if kind == 0 and place < len(changed):
            changed[place] ^= 1 << chance.randrange(8)
        elif kind == 1:
            del changed[place : place + length]
        elif kind == 2:
            changed[place:place] = changed[place : place + length]
        elif kind == 3:
            changed[place:place] = chance.randbytes(length)
        else:
            del changed[place:]
    return bytes(changed)


def tamper(value, chance):
    """A JSON value with one of its parts changed, added or removed."""
    if isinstance(value, dict) and value and chance.random() < 0.9:
        key = chance.choice(sorted(value))
        changed = dict(value)
        kind = chance.randrange(6)
        if kind == 0:
            del changed[key]
        elif kind == 1:
            changed[chance.choice(("__class__", key + "x", "", "a/b"))] = changed[key]
        else:
            changed[key] = tamper(changed[key], chance)
        return changed
    if isinstance(value, list) and value and chance.random() < 0.7:
        place = chance.randrange(len(value))
        return [*value[:place], tamper(value[place], chance), *value[place + chance.randrange(2) :]]
    return chance.choice(WILD)


def retold(data: bytes, chance: random.Random, inner: str | None = None) -> bytes:
    """A safetensors file whose header, or the text `inner` in its metadata, lies."""
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    if inner is not None and chance.random() < 0.7:
        about = tamper(json.loads(header["__metadata__"][inner]), chance)
        header["__metadata__"][inner] = json.dumps(about)
    else:
        header = tamper(header, chance)
    text = json.dumps(header).encode()
    announced = chance.choice((len(text),) * 9 + (2**62,))
    return struct.pack("<Q", announced) + text + data[8 + length :]


class Policies:
    """Policy files."""

    def __init__(self, folder: Path) -> None:
        options = {"hidden": [8], "stock_features": 4}
        self._path = folder / "policy.safetensors"
        UCP("Courier2-v0", networks=options).policy().save(self._path)
        self._data = self._path.read_bytes()

    def __call__(self, chance: random.Random) -> None:
        """Load one that was changed."""
        how = chance.choice((scramble, lambda data, chance: retold(data, chance, "ucpo")))
        self._path.write_bytes(how(self._data, chance))
        info = load(self._path).info
        assert 4 * info.weights() <= len(self._data) + 10_000


class Configurations:
    """config.toml, and presets, which are read the same way."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "config.toml"
        self._text = to_toml(resolve("SafetyPointGoal1-v0", budget_range="0:25"))

    def __call__(self, chance: random.Random) -> None:
        """Read one that was changed."""
        data = scramble(self._text.encode(), chance)
        if chance.random() < 0.6:
            lines = self._text.splitlines()
            place = chance.choice([i for i, line in enumerate(lines) if "=" in line])
            key, _, value = lines[place].partition(" = ")
            wild = chance.choice(("-1", "0", "1e999", "nan", "[]", "'x'", "9" * 5000, "{a = 1}"))
            swapped = (f"{key} = {wild}", f"{key[::-1]} = {value}", f"tasks.x.{key} = {wild}")
            lines[place] = chance.choice(swapped)
            data = "\n".join(lines).encode()
        self._path.write_bytes(data)
        if chance.random() < 0.5:
            read_config(self._path)
        else:
            resolve("Courier-v0", preset=str(self._path))


class Checkpoints:
    """Checkpoints, whose checksums are as often put right again as not."""

    def __init__(self, folder: Path) -> None:
        small = {"hidden": [4], "quantiles": 4}
        self._whole, self._run = folder / "whole", folder / "run"
        agent = UCP(
            *("Courier-v0",),
            networks=small,
            replay={"capacity": 64, "batch": 4},
            num_envs=2,
            random_steps=40,
            env_steps=160,
            checkpoint_steps=80,
            log_every=40,
        )
        agent.learn(run=self._whole, show=False)
        agent.task.close()

    def __call__(self, chance: random.Random) -> None:
        """Resume from one that was changed."""
        shutil.rmtree(self._run, ignore_errors=True)
        shutil.copytree(self._whole, self._run)
        folder = self._run / "checkpoint"
        first, last = sorted(folder.glob("manifest-*"))
        if chance.random() < 0.7:
            first.unlink()  # nothing to fall back on
        about = json.loads(json.loads(last.read_text())["checkpoint"])
        kind = chance.randrange(4)
        if kind == 0:
            last.write_bytes(scramble(last.read_bytes(), chance))
        elif kind == 1:
            self._sign(last, tamper(about, chance))
        else:
            parts = [about["state_part"], *(one["part"] for one in about["segments"])]
            part = chance.choice((parts[0], *parts))
            path = folder / part["name"]
            how = chance.choice((scramble, retold))
            data = how(path.read_bytes(), chance)
            path.write_bytes(data)
            if kind == 2:
                part |= {"size": len(data), "sha256": files.digest(data)}
                self._sign(last, about)
        UCP.resume(self._run, env_steps=1000)

    def _sign(self, path, about):
        text = json.dumps(about)
        signed = {"sha256": files.digest(text.encode()), "checkpoint": text}
        path.write_text(json.dumps(signed))


KINDS = (Policies, Configurations, Checkpoints)


def fuzz(kind, count: int, seed: int, folder: Path) -> Counter:
    """Try so many files of a kind; how many loaded and how many were refused."""
    target, outcomes = kind(folder), Counter()
    logging.getLogger("ucpo").addHandler(logging.NullHandler())
    for number in range(count):
        chance = random.Random(f"{kind.__name__} {seed} {number}")
        began = time.monotonic()
        try:
            with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
                warnings.simplefilter("error")
                target(chance)
            outcomes["loaded"] += 1
        except UsageError as error:
            text = str(error)
            assert 10 < len(text) < 1000 and text.isprintable(), f"{number}: {text!r}"
            outcomes["refused"] += 1
        except BaseException as error:
            raise AssertionError(f"file {number} of {kind.__name__}: {error!r}") from error
        assert time.monotonic() - began < SLOWEST, f"file {number} took too long"
    return outcomes


def main() -> None:
    import os
    import resource

    count = int(sys.argv[1]) // len(KINDS)
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    armed = []

    def watch(event, args):
        if armed and event in FORBIDDEN:
            os.write(2, f"a file made the loader do {event} {args}\n".encode())
            os._exit(1)

    sys.addaudithook(watch)
    with tempfile.TemporaryDirectory() as folder:
        for kind in KINDS:
            place = Path(folder) / kind.__name__
            place.mkdir()
            fuzz(kind, 3, -1, place)  # everything imported and compiled
            shutil.rmtree(place)
            place.mkdir()
            armed.append(kind)
            used = resource.getpagesize() * int(Path("/proc/self/statm").read_text().split()[0])
            resource.setrlimit(resource.RLIMIT_AS, (used + 2**30, resource.RLIM_INFINITY))
            began = time.monotonic()
            outcomes = fuzz(kind, count, seed, place)
            armed.clear()
            seconds = time.monotonic() - began
            told = f"{kind.__name__}: {count} files, {dict(outcomes)}, {seconds:.0f} s"
            print(told, flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
