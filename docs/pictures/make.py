"""Draw the picture of each navigation task in this folder: ``python docs/pictures/make.py``."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ucpo.envs.navigation import drawing
from ucpo.envs.navigation.env import NavigationTask
from ucpo.envs.navigation.names import NAMES

LEVELS = [name for name in NAMES if not name.endswith("0-v0")]
SEED, STEPS = 4, 300


def main() -> None:
    """Play a few hundred random steps of each and draw where they led."""
    for name in LEVELS:
        task = NavigationTask(1, name, threads=1)
        task.begin(np.array([0]), [SEED])
        random = np.random.default_rng(SEED)
        path, costly = [], []
        for step in range(STEPS):
            if step % 20 == 0:
                action = random.uniform(-1, 1, 2)
                if task.arena.robot.name == "Car":  # its wheels saturate at 2 % of the range
                    action = 0.03 * action + 0.005
            out = task.advance(action[None])
            path.append(tuple(task.world.position[0, :2]))
            costly.append(bool(out.costs[0, 0]))
        shown = drawing.picture(drawing.scene(task), path, costly, 200)
        shown.quantize(48).save(Path(__file__).parent / f"{name}.png", optimize=True)
        task.close()


if __name__ == "__main__":
    main()
