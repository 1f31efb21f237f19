"""Compare the navigation and velocity tasks with recordings of the original ones.

    python benchmarks/parity.py tests/golden/Safety*.npz

Prints, per quantity, the largest absolute error, the one 99.9 % of steps stay below, the mean and
the worst step. The exit code is 1 if any is above its tolerance (`ucpo.envs.navigation.parity`,
`ucpo.envs.velocity.parity`).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import mujoco

from ucpo.envs.navigation import parity
from ucpo.envs.velocity import parity as velocity


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path, help="recordings (tests/golden/README.md)")
    parser.add_argument("--no-sleep", action="store_true", help="compute resting objects too")
    parser.add_argument("--brief", action="store_true", help="one line per recording")
    options = parser.parse_args()
    print(f"MuJoCo {mujoco.__version__}")
    failed = 0
    for path in options.files:
        if "Velocity" in path.stem:
            fields = velocity.compare(path)
        else:
            fields = parity.compare(path, sleep=False if options.no_sleep else None)
        wrong = [field for field in fields if not field.holds]
        failed += bool(wrong)
        if options.brief:
            print(f"{path.stem:24} {brief(fields)}  {'ABOVE TOLERANCE' if wrong else 'ok'}")
        else:
            print(f"\n{path.stem}\n{parity.table(fields)}")
    return min(failed, 1)


def brief(fields: list[parity.Field]) -> str:
    worst = {field.name: field.worst for field in fields}
    if "stepped qpos" in worst:
        names = ("qpos", "qvel", "observation", "reward", "cost", "terminated")
        return "  ".join(f"{name} {worst[f'stepped {name}']:.0e}" for name in names)
    judged = max(
        value
        for name, value in worst.items()
        if name.startswith("judged") and "accelerometer" not in name
    )
    parts = {"judged": judged, "away qpos": worst["away qpos"], "away qvel": worst["away qvel"]}
    parts |= {"near qpos": worst["near qpos"], "near reward": worst["near reward"]}
    parts |= {"near cost": worst["near cost"]}
    return "  ".join(f"{name} {value:.0e}" for name, value in parts.items())


if __name__ == "__main__":
    sys.exit(main())
