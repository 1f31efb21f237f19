"""Checkpoints: what a run needs to go on as if nothing had happened.

A checkpoint is a manifest that names its files with their sizes and checksums: one with the state
of everything small, and, for learners with a memory, segments of it. A memory is a ring whose rows,
but for the newest, never change, so a segment is written once, when its rows are there, and serves
all checkpoints until the ring has overwritten it; only the last, unfinished one is written anew.
That is why a checkpoint takes no longer with a million rows than with a thousand.

The manifest comes last and appears as a whole, so at every moment the folder holds the last
complete checkpoint, and the one before it in case the last is damaged later. Whole segments, which
both of them need, are kept twice.
"""

from __future__ import annotations

import dataclasses
import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.numpy import load as read_arrays
from safetensors.numpy import save as write_arrays

from ucpo.envs.interface import Arrays
from ucpo.errors import UsageError
from ucpo.learners.interface import Memory
from ucpo.storage import files
from ucpo.storage.names import CHECKPOINT_FOLDER as FOLDER

MIRROR = "mirror"  # the folder in it with second copies
FORMAT = 1
_SEGMENT_BYTES = 2**23  # small enough that writing one is hardly noticed
_LONGEST_MANIFEST = 2**24
_PART = re.compile(r"state-\d+\.safetensors|rows-\d+-\d+-[0-9a-f]+\.safetensors")
_OURS = re.compile(rf"({_PART.pattern}|manifest-\d+\.json)({files.PARTIAL})?")


class DamagedError(UsageError):
    """A checkpoint is not what was written; an earlier one may be."""


@dataclass(frozen=True, slots=True)
class Part:
    """One file of a checkpoint."""

    name: str
    size: int  # bytes
    sha256: str


@dataclass(frozen=True, slots=True)
class Segment:
    """Rows of the memory, numbered from the beginning of the run, `last` excluded."""

    first: int
    last: int
    part: Part


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One complete checkpoint in a run folder."""

    folder: Path
    number: int
    env_steps: int
    state_part: Part
    segments: tuple[Segment, ...]

    def state(self) -> Arrays:
        """Everything but the rows of the memory."""
        return _read(self.folder, self.state_part)

    def restore(self, memory: Memory) -> None:
        """Put the rows back."""
        for segment in self.segments:
            rows = _read(self.folder, segment.part, mirrored=True)
            if any(len(column) != segment.last - segment.first for column in rows.values()):
                raise DamagedError(f"{segment.part.name} does not hold the rows it is named after")
            memory.restore(segment.first, rows)

    def names(self) -> set[str]:
        """Its files."""
        parts = [self.state_part, *(segment.part for segment in self.segments)]
        return {_manifest_name(self.number), *(part.name for part in parts)}


class Checkpoints:
    """Writes the checkpoints of one run.

    Args:
        run: The run's folder.
        memory: Its rows are written ahead of the checkpoints, as they come; None: there are none.
        minutes: Between checkpoints.
        env_steps: Also after this many environment steps; 0: by time only.
        last: The checkpoint the run goes on from.
    """

    def __init__(
        self,
        run: Path,
        memory: Memory | None,
        *,
        minutes: float,
        env_steps: int = 0,
        last: Checkpoint | None = None,
    ) -> None:
        self._folder, self._minutes, self._env_steps = run / FOLDER, minutes, env_steps
        self._last = last
        self._memory: Memory = _NoMemory() if memory is None else memory
        self._length = min(max(_SEGMENT_BYTES // self._memory.row_bytes, 1), self._memory.rows_kept)
        written = self._memory.rows_written
        self._whole = [s for s in last.segments if s.last < written] if last else []
        # A damaged checkpoint that is newer than the one in use keeps its number until it goes.
        self._number = max(_numbers(self._folder), default=0)
        self._clock, self._steps = time.monotonic(), last.env_steps if last else 0

    def holds(self, env_steps: int) -> bool:
        """Whether the last checkpoint was written at this step, so that another adds nothing."""
        return self._last is not None and self._last.env_steps == env_steps

    def due(self, env_steps: int) -> bool:
        """Whether it is time for a checkpoint."""
        if self._env_steps and env_steps - self._steps >= self._env_steps:
            return True
        return time.monotonic() - self._clock >= 60.0 * self._minutes

    def keep_up(self) -> None:
        """Write the segments that have become whole. Costs nothing while there is none."""
        written, kept = self._memory.rows_written, self._memory.rows_kept
        first = self._whole[-1].last if self._whole else max(0, written - kept)
        while (last := (first // self._length + 1) * self._length) < written:
            self._whole.append(self._write_segment(first, last, mirrored=True))
            first = last

    def write(self, state: Arrays, env_steps: int) -> None:
        """Write a checkpoint, then remove what neither it nor the one before it needs.

        Args:
            state: Everything but the rows of the memory.
            env_steps: Environment steps made so far.
        """
        self.keep_up()
        written, kept = self._memory.rows_written, self._memory.rows_kept
        self._whole = [segment for segment in self._whole if segment.last > written - kept]
        first = self._whole[-1].last if self._whole else max(0, written - kept)
        tail = [self._write_segment(first, written)] if first < written else []
        number = self._number + 1
        new = Checkpoint(
            folder=self._folder,
            number=number,
            env_steps=env_steps,
            state_part=self._write(f"state-{number:06d}.safetensors", write_arrays(state)),
            segments=(*self._whole, *tail),
        )
        files.replace(self._folder / _manifest_name(number), _to_json(new))
        kept_names = new.names() | (self._last.names() if self._last else set())
        self._last, self._number = new, number
        self._clock, self._steps = time.monotonic(), env_steps
        # Manifests first: one without its files would be a damaged checkpoint.
        for path in sorted(self._folder.rglob("*"), key=lambda path: path.suffix != ".json"):
            if path.name not in kept_names and _OURS.fullmatch(path.name):
                path.unlink()

    def _write_segment(self, first: int, last: int, mirrored: bool = False) -> Segment:
        data = write_arrays(self._memory.rows(first, last))
        # Named after its content, so that no other content can take its place.
        name = f"rows-{first:09d}-{last:09d}-{files.digest(data)[:12]}.safetensors"
        if mirrored:
            (self._folder / MIRROR).mkdir(parents=True, exist_ok=True)
            files.replace(self._folder / MIRROR / name, data)
        return Segment(first, last, self._write(name, data))

    def _write(self, name: str, data: bytes) -> Part:
        self._folder.mkdir(exist_ok=True)
        return Part(name, len(data), files.replace(self._folder / name, data))


class _NoMemory:
    """Of a learner that keeps everything in its state."""

    rows_written, rows_kept, row_bytes = 0, 1, 1

    def rows(self, first: int, last: int) -> Arrays:
        return {}

    def restore(self, first: int, rows: Arrays) -> None:
        raise DamagedError("the checkpoint has rows of a memory, and its learner has none")


def checkpoints(run: Path) -> Iterator[Checkpoint]:
    """The checkpoints in a run folder, the newest first; damaged manifests are skipped and told."""
    folder = run / FOLDER
    for number in sorted(_numbers(folder), reverse=True):
        try:
            yield _from_json(folder, number)
        except DamagedError as error:
            files.log.warning("%s; trying the checkpoint before it", error)


def any_written(run: Path) -> bool:
    """Whether a run folder has a checkpoint, whole or not."""
    return bool(_numbers(run / FOLDER))


def _numbers(folder: Path) -> list[int]:
    found = (re.fullmatch(r"manifest-(\d{1,9})\.json", p.name) for p in folder.glob("manifest-*"))
    return [int(match[1]) for match in found if match]


def _manifest_name(number: int) -> str:
    return f"manifest-{number:06d}.json"


def _to_json(checkpoint: Checkpoint) -> bytes:
    about = dataclasses.asdict(checkpoint)
    del about["folder"]
    text = json.dumps({"format": FORMAT, **about}, sort_keys=True)
    return json.dumps({"sha256": files.digest(text.encode()), "checkpoint": text}).encode()


def _from_json(folder: Path, number: int) -> Checkpoint:
    path = folder / _manifest_name(number)
    try:
        if path.stat().st_size > _LONGEST_MANIFEST:
            raise ValueError("it is too long")
        outer = json.loads(path.read_bytes())
        if files.digest(outer["checkpoint"].encode()) != outer["sha256"]:
            raise ValueError("its checksum does not match")
        about = json.loads(outer["checkpoint"])
        if about.pop("format") != FORMAT:
            raise UsageError(f"{path} was written by another version of ucpo; resume it with that")
        return Checkpoint(
            folder=folder,
            number=number,
            env_steps=_count(about["env_steps"]),
            state_part=_part(about["state_part"]),
            segments=tuple(
                Segment(_count(one["first"]), _count(one["last"]), _part(one["part"]))
                for one in about["segments"]
            ),
        )
    except UsageError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedError(f"{path} is damaged ({type(error).__name__}: {error})") from None


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 2**53:
        raise ValueError(f"{value!r:.50} is not a count")
    return value


def _part(about: Any) -> Part:
    part = Part(str(about["name"]), _count(about["size"]), str(about["sha256"]))
    if not _PART.fullmatch(part.name):  # above all: no path that leads elsewhere
        raise ValueError(f"{part.name!r:.100} is no file of a checkpoint")
    return part


def _read(folder: Path, part: Part, mirrored: bool = False) -> Arrays:
    """What a file holds; where it is damaged and has a whole copy, that one takes its place."""
    path, copy = folder / part.name, folder / MIRROR / part.name
    try:
        data = _verified(path, part)
    except DamagedError as error:
        if not (mirrored and copy.is_file()):
            raise
        data = _verified(copy, part)
        files.log.warning("%s; it is replaced by its copy", error)
        files.replace(path, data)
    try:
        arrays: Arrays = read_arrays(data)
        return arrays
    except (ValueError, KeyError, TypeError, OverflowError, SafetensorError) as error:
        raise DamagedError(f"{path} holds no arrays ({type(error).__name__}: {error})") from None


def _verified(path: Path, part: Part) -> bytes:
    try:
        if path.stat().st_size != part.size:
            raise ValueError(f"it has {path.stat().st_size} bytes instead of {part.size}")
        data = path.read_bytes()
        if files.digest(data) != part.sha256:
            raise ValueError("its checksum does not match")
        return data
    except FileNotFoundError:
        raise DamagedError(f"{path} is gone") from None
    except (OSError, ValueError) as error:
        raise DamagedError(f"{path} is damaged: {error}") from None
