"""Draw each navigation task and the lidar in this folder: ``python docs/pictures/make.py``."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from ucpo.envs.navigation import drawing, sensors
from ucpo.envs.navigation.env import NavigationTask
from ucpo.envs.navigation.names import NAMES

LEVELS = [name for name in NAMES if not name.endswith("0-v0")]
SEED, STEPS = 4, 300
HERE = Path(__file__).parent


def lidar() -> None:
    """Draw hazards around a robot and what its sixteen directions read."""
    hazards = np.array([(1.1, 0.35), (-0.4, 1.7), (-1.2, -0.9), (0.5, -2.3), (3.4, 1.5)])
    reading = np.zeros((1, sensors.BINS))
    sensors.lidar(
        hazards[None],
        np.array([[0, len(hazards)]]),
        np.zeros((1, 3)),
        np.eye(3).reshape(1, 9),
        3.0,
        reading,
    )
    width = 2 * np.pi / sensors.BINS
    figure, axes = plt.subplots(figsize=(5.2, 4.4))
    for i, value in enumerate(reading[0]):
        turn = np.linspace(i * width, (i + 1) * width, 20)
        x, y = 3.0 * np.cos(turn), 3.0 * np.sin(turn)
        axes.fill([0, *x], [0, *y], color="#2f5fd0", alpha=0.75 * value, linewidth=0)
        axes.plot([0, x[0]], [0, y[0]], color="#c8ccd8", linewidth=0.6)
        middle = (i + 0.5) * width
        label = f"{i}: {value:.2f}"
        axes.text(
            3.55 * np.cos(middle), 3.4 * np.sin(middle), label, ha="center", va="center", fontsize=7
        )
    axes.add_patch(plt.Circle((0, 0), 3.0, fill=False, color="#8a90a0", linewidth=0.8))
    for place in hazards:
        axes.add_patch(plt.Circle(tuple(place), 0.2, color="#e08a1e", zorder=3))
    axes.plot(0, 0, "o", color="#b03030", markersize=9, zorder=4)
    axes.annotate(
        "", (0.75, 0), (0, 0), arrowprops={"arrowstyle": "->", "color": "#20305f"}, zorder=5
    )
    axes.text(0.55, -0.3, "x, the nose", fontsize=7, color="#20305f")
    axes.set(xlim=(-4.1, 4.4), ylim=(-3.7, 3.7), aspect="equal")
    axes.axis("off")
    figure.savefig(HERE / "lidar.png", dpi=130, bbox_inches="tight")
    plt.close(figure)


def main() -> None:
    """Play a few hundred random steps of each and draw where they led."""
    lidar()
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
        shown.quantize(48).save(HERE / f"{name}.png", optimize=True)
        task.close()


if __name__ == "__main__":
    main()
