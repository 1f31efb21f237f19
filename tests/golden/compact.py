"""Make the compact recordings of this folder from the full ones: ``compact.py FULL_FOLDER``."""

from __future__ import annotations

import json
import sys
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

KEPT = (
    *("obs", "action", "reward", "cost", "goal_met", "terminated", "truncated"),
    *("qpos", "qvel", "time", "ctrl", "qacc_warmstart", "mocap_pos", "torso_xpos", "mass_center"),
    *(
        "goal_pos",
        "last_dist_goal",
        "last_dist_box",
        "last_box_goal",
        "goal_button",
        "button_timer",
    ),
)
SINGLE = ("obs", "ctrl", "action")  # rounding to float32 is harmless here
DIGITS = {"qpos": 27, "qvel": 22}  # binary ones, of loose objects
OBJECT = ("name", "pos", "rot")
META = ("task", "versions", "timestep", "frameskip", "obs_slices", "max_episode_steps", "seeds")
ROBOT = {"SafetyPoint": {"qpos": 3, "qvel": 3}, "SafetyCar": {"qpos": 13, "qvel": 11}}


def compact(source: Path, target: Path) -> None:
    kept: dict[str, Any] = {}
    with np.load(source) as file:
        meta = json.loads(str(file["meta"]))
        if source.name.endswith("-v0.npz"):
            meta["seeds"] = most_eventful(file, meta["seeds"])
        for key in file.files:
            seed, _, name = key.rpartition("/")
            if not seed or int(seed[1:]) not in meta["seeds"]:
                continue
            array = file[key]
            if name == "layout":
                kept[key] = json.dumps(shortened(json.loads(str(array))))
            elif name in KEPT or name.startswith("cost_"):
                kept[key] = (
                    array.astype(np.float32) if name in SINGLE else rounded(array, name, source)
                )
    kept["meta"] = json.dumps({name: meta[name] for name in META})
    np.savez_compressed(target, **kept)


def most_eventful(file: Any, seeds: list[int]) -> list[int]:
    """The two episodes that show most kinds of events between them, then most events."""
    kinds = [key[3:] for key in file.files if key.startswith(("s0/cost_", "s0/goal_met"))]

    def events(pair: tuple[int, ...]) -> tuple[int, float]:
        totals = [sum(np.nansum(file[f"s{seed}/{kind}"]) for seed in pair) for kind in kinds]
        return np.count_nonzero(totals), sum(totals)

    return list(max(combinations(seeds, 2), key=events))


def shortened(layout: dict[str, Any]) -> dict[str, Any]:
    objects = layout.get("objects", [])
    return {
        "agent": layout.get("agent"),
        "objects": [{name: entry[name] for name in OBJECT} for entry in objects],
    }


def rounded(array: np.ndarray, name: str, source: Path) -> np.ndarray:
    """Loose objects to fewer digits; the robot amplifies errors, so its own stay exact."""
    if name == "qacc_warmstart":  # where a solver starts, not where it ends
        return truncated(array, 10)
    for robot, first in ROBOT.items():
        if source.name.startswith(robot) and name in first:
            array = array.copy()
            array[:, first[name] :] = truncated(array[:, first[name] :], DIGITS[name])
    return array


def truncated(array: np.ndarray, digits: int) -> np.ndarray:
    mantissa, exponent = np.frexp(array)
    return np.ldexp(np.round(mantissa * 2**digits), exponent - digits)


if __name__ == "__main__":
    for path in sorted(Path(sys.argv[1]).glob("*.npz")):
        compact(path, Path(__file__).parent / path.name)
