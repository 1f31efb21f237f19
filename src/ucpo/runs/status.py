"""How a run stands, read from its folder while it may be under way, here or on another machine.

Nothing is asked of the process that trains, and nothing heavy is imported: what `ucpo runs` shows
of a thousand runs is what their files say.
"""

from __future__ import annotations

import csv
import json
import re
import struct
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ucpo.storage import files
from ucpo.storage.names import (
    BROKEN_STEP,
    BROKEN_UPDATE,
    CONFIG_FILE,
    COST,
    METRICS_FILE,
    OUTCOME_FILE,
    POLICY_FILE,
    parts,
)

State = Literal["waiting", "running", "evaluating", "stopped", "pruned", "finished", "failed"]
_TAIL = 2**16  # bytes of metrics.csv, more than any row has
_LONGEST_HEADER = 2**20  # bytes of a policy's description
_HOLDER = re.compile(r"process (\d+) on (\S+),")


@dataclass(frozen=True)
class Status:
    """How a run stands."""

    name: str
    """Its folder among others."""
    task: str
    method: str
    seed: int
    state: State
    said: str = ""
    """Where it is running, or why it failed."""
    env_steps: int = 0
    goal: int = 0
    """Environment steps in all."""
    speed: float | None = None
    """Environment steps a second at the last row of metrics."""
    returns: float | None = None
    """Mean return of the latest training episodes."""
    costs: Mapping[str, float] = field(default_factory=dict)
    """Their mean cost, by name."""

    @property
    def seconds_left(self) -> float | None:
        """At its last speed; None where it is not training or no speed is known."""
        if self.state != "running" or not self.speed:
            return None
        return max(0, self.goal - self.env_steps) / self.speed


def read_status(folder: Path, name: str, planned: Mapping[str, Any] | None = None) -> Status:
    """How the run in a folder stands.

    Args:
        folder: The run's, which need not be there yet.
        name: What to call it.
        planned: Task, method, seed and env_steps of a run that has not begun.
    """
    config = _toml(folder / CONFIG_FILE) or dict(planned or {})
    row = last_row(folder / METRICS_FILE)
    goal = int(config.get("env_steps", 0))
    state, said = _state(folder, goal)
    costs = {parts(key)[1]: row[key] for key in row if parts(key)[0] == COST}
    return Status(
        name=name,
        task=str(config.get("task", "")),
        method=str(config.get("method", "")),
        seed=int(config.get("seed", 0)),
        state=state,
        said=said,
        env_steps=max(int(row.get("env_steps", 0)), policy_steps(folder) or 0),
        goal=goal,
        speed=_speed(folder),
        returns=row.get("return"),
        costs=costs,
    )


def time_left(runs: Sequence[Status]) -> float | None:
    """Seconds until all are trained by as many workers as there are now, from speeds so far.

    What has not begun is taken to be as fast as the same method on the same task, else as the same
    method, else as the others. None while nothing runs or no speed is known.
    """
    known = [run for run in runs if run.speed]
    working = sum(run.state in ("running", "evaluating") for run in runs)
    if not known or not working:
        return None
    seconds = 0.0
    for run in runs:
        if run.state in ("running", "waiting", "stopped"):
            like = (
                [run] * bool(run.speed)
                or [one for one in known if (one.task, one.method) == (run.task, run.method)]
                or [one for one in known if one.method == run.method]
                or known
            )
            speed = sum(one.speed or 0.0 for one in like) / len(like)
            seconds += max(0, run.goal - run.env_steps) / speed
    return seconds / working


def run_folders(folder: Path) -> Iterator[Path]:
    """Folders of runs at or below one."""
    yield from sorted(file.parent for file in folder.rglob(CONFIG_FILE))


def is_finished(folder: Path) -> bool:
    """Whether a run has made all its steps and its policy is there, the last thing it writes."""
    config = _toml(folder / CONFIG_FILE)
    made = policy_steps(folder)
    return config is not None and made is not None and made >= int(config["env_steps"])


def policy_steps(folder: Path) -> int | None:
    """Environment steps the policy in a run folder was trained for; None where there is none."""
    try:
        with (folder / POLICY_FILE).open("rb") as file:
            length = struct.unpack("<Q", file.read(8))[0]
            header = json.loads(file.read(min(length, _LONGEST_HEADER)))
        return int(json.loads(header["__metadata__"]["ucpo"])["env_steps"])
    except (OSError, ValueError, KeyError, TypeError, struct.error, RecursionError):
        return None


def read_outcome(folder: Path) -> dict[str, Any]:
    """How the last attempt of a sweep at a run ended; empty where there was none."""
    try:
        found = json.loads((folder / OUTCOME_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def last_row(file: Path) -> dict[str, float]:
    """The last whole row of a metrics.csv, without what was not known yet; empty without a row."""
    try:
        with file.open("rb") as stream:
            header = stream.readline().decode()
            stream.seek(max(len(header.encode()), file.stat().st_size - _TAIL))
            tail = stream.read().decode(errors="replace")
    except OSError:
        return {}
    lines = tail[: tail.rfind("\n") + 1].splitlines()  # a row may be in the making
    if not lines:
        return {}
    names, values = next(csv.reader([header])), next(csv.reader([lines[-1]]))
    try:
        return {key: float(text) for key, text in zip(names, values, strict=False) if text}
    except ValueError:
        return {}


def _state(folder: Path, goal: int) -> tuple[State, str]:
    made = policy_steps(folder)
    trained = made is not None and goal > 0 and made >= goal
    holder = files.holder(folder)
    if holder is not None:
        found = _HOLDER.match(holder)
        where = f"{found[2]}, process {found[1]}" if found else holder
        return ("evaluating" if trained else "running"), where
    outcome = read_outcome(folder)
    if outcome.get("state") == "failed":
        return "failed", str(outcome.get("why", ""))
    if trained:
        return "finished", ""
    if outcome.get("state") == "pruned":
        return "pruned", ""
    for name in (BROKEN_STEP, BROKEN_UPDATE):
        about = _json(folder / f"{name}.json")
        if about is not None:
            return "failed", str(about.get("message", ""))
    return ("stopped" if (folder / CONFIG_FILE).is_file() else "waiting"), ""


def _speed(folder: Path) -> float | None:
    """Steps per second of the newest TensorBoard event, the only file with a clock in it."""
    events = sorted(folder.glob("events.out.tfevents.*"))
    for file in reversed(events):
        record = _last_record(file)
        if record is None:
            continue
        from tensorboard.compat.proto.event_pb2 import Event

        for value in Event.FromString(record).summary.value:
            if value.tag == "steps_per_second":
                return float(value.simple_value)
    return None


def _last_record(file: Path) -> bytes | None:
    """The last whole record of a file of events: a length, a checksum, the data, a checksum."""
    last = None
    try:
        size = file.stat().st_size
        with file.open("rb") as stream:
            at = 0
            while at + 12 <= size:
                stream.seek(at)
                length = struct.unpack("<Q", stream.read(8))[0]
                if at + 16 + length > size:
                    break
                last = (at + 12, length)
                at += 16 + length
            if last is None:
                return None
            stream.seek(last[0])
            return stream.read(last[1])
    except (OSError, struct.error):
        return None


def _toml(file: Path) -> dict[str, Any] | None:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None


def _json(file: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
