"""How exactly the tasks reproduce recordings of the original ones, step by step.

Two comparisons per recorded step. *Judged*: the state the step led to is set, and what depends on
that state alone is computed: reward, costs, the next goal, the observation. *Away* and *near*: the
state before is set and the step is made, physics included. Contacts amplify the smallest
differences between MuJoCo versions, so steps near an object are reported apart from those away
from all of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ucpo.envs.interface import Bools, Outcome
from ucpo.envs.navigation import layout, model
from ucpo.envs.navigation.env import NavigationTask
from ucpo.envs.navigation.tasks import FIXED
from ucpo.problem import Floats

NEAR = 0.6
"""Distance between centres within which robot and object might touch during a step."""


@dataclass(frozen=True)
class Tolerance:
    """What errors may be: the largest, all but one in a thousand, and their mean."""

    worst: float
    usual: float
    mean: float


EXACT = Tolerance(1e-6, 1e-6, 1e-6)
"""For all that depends on the state alone; recordings in float32 are themselves rounded to 6e-8."""

TOLERANCES = {
    # Away from objects the physics is the original's to rounding, 5e-11 in velocities, unless
    # objects may sleep: what falls asleep during a step loses the last of its speed.
    "away qvel": Tolerance(2e-4, 2e-4, 2e-5),
    "away accelerometer": Tolerance(1e-5, 1e-5, 1e-6),
    # In contact, MuJoCo's box-against-box collider finds other points since 3.4, and a solver that
    # stops at its tolerance repeats itself to 5e-3 in accelerations only. Most steps near an object
    # touch none, so that means stay small; a contact that only just exists may flip a cost.
    "judged accelerometer near": Tolerance(5.0, 5.0, 5e-2),
    "near qpos": Tolerance(5e-2, 5e-2, 1e-3),
    "near qvel": Tolerance(8.0, 8.0, 5e-2),
    "near accelerometer": Tolerance(50.0, 50.0, 1.0),
    "near sensors": Tolerance(4.0, 4.0, 2e-2),
    "near lidar": Tolerance(0.2, 0.2, 4e-3),
    "near reward": Tolerance(4e-3, 4e-3, 5e-5),
    "near cost buttons": Tolerance(1.0, 1.0, 5e-3),
    "near cost gremlins": Tolerance(1.0, 1.0, 5e-3),
    "near cost pillars": Tolerance(1.0, 1.0, 5e-3),
    "near cost vases_contact": Tolerance(1.0, 1.0, 5e-3),
}


@dataclass(frozen=True)
class Field:
    """Absolute errors of one compared quantity, and the (seed, step) of each."""

    name: str
    errors: Floats
    where: list[tuple[int, int]]
    allowed: Tolerance | None = None
    """If not what `TOLERANCES` says."""

    @property
    def worst(self) -> float:
        """The largest error."""
        return float(self.errors.max(initial=0.0))

    @property
    def usual(self) -> float:
        """The error all but one of a thousand steps stay below."""
        return float(np.quantile(self.errors, 0.999)) if len(self.errors) else 0.0

    @property
    def mean(self) -> float:
        """The average error."""
        return float(self.errors.mean()) if len(self.errors) else 0.0

    @property
    def worst_step(self) -> tuple[int, int]:
        """Seed and step of the largest error."""
        return self.where[int(self.errors.argmax())] if len(self.errors) else (-1, -1)

    @property
    def tolerance(self) -> Tolerance:
        """What is allowed."""
        return self.allowed or TOLERANCES.get(self.name, EXACT)

    @property
    def holds(self) -> bool:
        """Whether the errors are within tolerance."""
        allowed = self.tolerance
        return (
            self.worst <= allowed.worst
            and self.usual <= allowed.usual
            and self.mean <= allowed.mean
        )


def compare(path: Path, sleep: bool | None = None) -> list[Field]:
    """Compare every step of a recording (format: ``tests/golden/README.md``)."""
    with np.load(path) as file:
        arrays = dict(file)
    meta = json.loads(str(arrays["meta"]))
    found: dict[str, list[tuple[float, tuple[int, int]]]] = {}
    for seed in meta["seeds"]:
        prefix = f"s{seed}/"
        recorded = {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}
        steps = len(recorded["action"])
        with _Replay(meta["task"], recorded, seed, sleep) as replay:
            for name, rows, errors in replay.errors():
                pairs = zip(
                    errors, [(seed, int(step)) for step in np.arange(steps)[rows]], strict=True
                )
                found.setdefault(name, []).extend(pairs)
    return [
        Field(name, np.array([error for error, _ in pairs]), [where for _, where in pairs])
        for name, pairs in found.items()
    ]


class _Replay:
    """One recorded episode, every step of it in an environment of its own."""

    def __init__(self, name: str, recorded: dict[str, Any], seed: int, sleep: bool | None) -> None:
        self.recorded = recorded
        self.seed = seed
        self.steps = len(recorded["action"])
        self.task = NavigationTask(self.steps, name, sleep=sleep)
        self.start = read_layout(self.task, json.loads(str(recorded["layout"])))

    def __enter__(self) -> _Replay:
        return self

    def __exit__(self, *_: object) -> None:
        self.task.close()

    def errors(self) -> Iterator[tuple[str, Any, Floats]]:
        """Names, steps and absolute errors of everything there is to compare."""
        everywhere = slice(None)
        streams = self._streams()
        self._restore(1, streams)
        near = self._near()
        judged = dict(self._outcome_errors(self.task.judge()))
        accelerometer = judged.pop("accelerometer")
        yield "judged accelerometer away", ~near, accelerometer[~near]
        yield "judged accelerometer near", near, accelerometer[near]
        for name, errors in judged.items():
            yield f"judged {name}", everywhere, errors
        self._restore(0, streams)
        near |= self._near()
        near[0] = True  # wheels, box and gremlins start at a distance of exactly 0 from the floor
        stepped = self.task.advance(self.recorded["action"])
        world = self.task.world
        stepped_errors = [
            ("qpos", _largest(world.qpos - self.recorded["qpos"][1:])),
            ("qvel", _largest(world.qvel - self.recorded["qvel"][1:])),
            *self._outcome_errors(stepped),
        ]
        for label, rows in (("away", ~near), ("near", near)):
            for name, values in stepped_errors:
                yield f"{label} {name}", rows, values[rows]

    def _outcome_errors(self, out: Outcome) -> Iterator[tuple[str, Floats]]:
        recorded, own = self.recorded, self.task.arena.robot.sensor_size
        difference = np.abs(self.task.observation - recorded["obs"][1:])
        yield "accelerometer", difference[:, :3].max(-1)
        yield "sensors", difference[:, 3:own].max(-1)
        yield "lidar", difference[:, own:].max(-1)
        yield "reward", np.abs(out.reward - recorded["reward"])
        yield "goal reached", np.abs(self.task.reached - recorded["goal_met"])
        yield "cost", np.abs(out.costs[:, 0] - recorded["cost"])
        for name, charged in self.task.charged.items():
            if f"cost_{name}" in recorded:  # not a number where the original said nothing
                yield f"cost {name}", np.abs(charged - np.nan_to_num(recorded[f"cost_{name}"]))

    def _streams(self) -> list[dict[str, Any]]:
        """The random numbers ahead of each step, from the seed and the recorded successes."""
        task, stream = self.task, layout.Stream(self.seed, self.task.idling)
        task.streams[0] = stream
        task.begin_row(0)
        self._restore(1, [stream.get_state()] * self.steps)
        states = []
        for step in range(self.steps):
            states.append(stream.get_state())
            stream.idle()
            if self.recorded["goal_met"][step]:
                task.aim.renew(task.world, step, stream, fresh=False)
        return states

    def _restore(self, offset: int, streams: list[dict[str, Any]]) -> None:
        """Set row t to the recorded state t + offset, with the goal and memory of step t."""
        task, world, recorded = self.task, self.task.world, self.recorded
        for row in range(self.steps):
            world.place(row, self.start)
            data = world.data[row]
            for name in ("qpos", "qvel", "ctrl", "qacc_warmstart"):
                getattr(data, name)[:] = recorded[name][row + offset]
            data.time = recorded["time"][row + offset]
            if "mocap_pos" in recorded:
                data.mocap_pos[-recorded["mocap_pos"].shape[1] :] += recorded["mocap_pos"][
                    row + offset
                ]
            task.streams[row].set_state(streams[row])
        if "goal_pos" in recorded:
            world.objects[:, world.spans["goal"]] = recorded["goal_pos"][:-1, None, :2]
        names = [name for name in MEMORY[task.arena.aim] if name in recorded]
        task.aim.memory = (
            np.stack([recorded[name][:-1] for name in names], -1) if names else task.aim.memory
        )
        for name, array in (("goal_button", task.aim.button), ("button_timer", task.aim.timer)):
            if name in recorded:
                array[:] = recorded[name][:-1]
        world.refresh(range(self.steps))

    def _near(self) -> Bools:
        world = self.task.world
        near = np.zeros(self.steps, np.bool_)
        for kind in (*FIXED, world.mover):
            if kind in world.spans:
                offsets = world.objects[:, world.spans[kind]] - world.position[:, None, :2]
                near |= (np.hypot(offsets[..., 0], offsets[..., 1]) < NEAR).any(-1)
        return near


MEMORY = {
    "Goal": ("last_dist_goal",),
    "Button": ("last_dist_goal",),
    "Push": ("last_dist_box", "last_box_goal"),
    "Circle": (),
}
"""Recorded names of the distances each aim remembers."""


def read_layout(task: NavigationTask, recorded: dict[str, Any]) -> layout.Layout:
    """The layout of a recorded episode."""
    entries = {entry["name"].removesuffix("obj"): entry for entry in recorded["objects"]}
    names = [name for objects in task.arena.objects for name in model.object_names(objects)]
    chosen = [entries[name] for name in names]
    return layout.Layout(
        np.array(recorded["agent"]["xy"]),
        recorded["agent"]["rot"],
        np.array([entry["pos"][:2] for entry in chosen]),
        np.array([entry["rot"] for entry in chosen]),
    )


def _largest(errors: Floats) -> Floats:
    largest: Floats = np.abs(errors).max(-1)
    return largest


def table(fields: list[Field]) -> str:
    """The errors of a recording as text, a line per quantity."""
    lines = [
        f"{'quantity':28} {'steps':>5} {'max':>8} {'99.9 %':>8} {'mean':>8}  worst (seed, step)"
    ]
    lines += [
        f"{field.name:28} {len(field.errors):5} {field.worst:8.1e} {field.usual:8.1e} "
        f"{field.mean:8.1e}  {field.worst_step}{'' if field.holds else '  ABOVE TOLERANCE'}"
        for field in fields
    ]
    return "\n".join(lines)
