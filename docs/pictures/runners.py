"""Draw each velocity robot with the entries its joints have in an observation.

``python docs/pictures/runners.py`` writes a picture for each task into this folder.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import mujoco
import numpy as np
from PIL import Image

from ucpo.envs.velocity import runners
from ucpo.envs.velocity.world import build

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "site"))
SEEN_FROM_ABOVE = ("Swimmer", "Ant")
FREE = mujoco.mjtJoint.mjJNT_FREE


def entries(name: str) -> dict[str, str]:
    """Joint by joint the numbers of its angle and of its rate in an observation."""
    import sensor_pages

    found: dict[str, list[str]] = {}
    first = 0
    for sensor, size, _ in sensor_pages.velocity_blocks(name):
        joint = sensor.removesuffix(", rate")
        if size == 1:
            found.setdefault(joint, []).append(str(first))
        first += size
    return {joint: " and ".join(numbers) for joint, numbers in found.items()}


def draw(name: str) -> None:
    """One robot in the pose it starts from: limbs, joints and their numbers."""
    model = build(runners.RUNNERS[name])
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    above = any(each in name for each in SEEN_FROM_ABOVE)
    axis = 1 if above else 2
    across = 1 if "Humanoid" in name else 0  # seen from the front, both arms and legs are visible
    figure, axes = plt.subplots(figsize=(6.4, 4.6))
    for geom in range(model.ngeom):
        if model.geom_type[geom] == mujoco.mjtGeom.mjGEOM_PLANE:
            continue
        middle, turned = data.geom_xpos[geom], data.geom_xmat[geom].reshape(3, 3)
        along = turned[:, 2] * model.geom_size[geom, 1]
        if model.geom_type[geom] == mujoco.mjtGeom.mjGEOM_SPHERE:
            along = np.zeros(3)
        ends = np.stack([middle - along, middle + along])
        axes.plot(
            ends[:, across],
            ends[:, axis],
            color="#b9c3dd",
            linewidth=max(3.0, 160.0 * model.geom_size[geom, 0] / max(model.stat.extent, 0.1)),
            solid_capstyle="round",
            zorder=1,
        )
    told = entries(name)
    places: dict[tuple[float, float], list[str]] = {}
    for joint in range(model.njnt):
        label = model.joint(joint).name
        root = model.jnt_bodyid[joint] == 1 and label not in told
        if model.jnt_type[joint] == FREE or root or label.startswith(("root", "slider", "free")):
            continue
        place = data.xanchor[joint][[across, axis]]
        key = (round(float(place[0]), 2), round(float(place[1]), 2))
        places.setdefault(key, []).append(f"{label}: {told.get(label, 'not observed')}")
    _label(axes, places)
    seen = "from above" if above else "from the front" if across else "from the side"
    axes.set_title(f"{name}, {seen}: entries of each joint's angle and rate", fontsize=8)
    axes.set_aspect("equal")
    axes.margins(0.15, 0.08)
    axes.axis("off")
    figure.savefig(HERE / f"{name}.png", dpi=110, bbox_inches="tight")
    plt.close(figure)
    shown = Image.open(HERE / f"{name}.png").convert("RGB")
    shown.quantize(32).save(HERE / f"{name}.png", optimize=True)


def _label(axes: Any, places: dict[tuple[float, float], list[str]]) -> None:
    """Labels in a column on either side, in the order of height of what they point at."""
    across = sorted(places)
    left, right = across[: len(across) // 2], across[len(across) // 2 :]
    for side, x, align in ((left, -0.02, "right"), (right, 1.02, "left")):
        column = sorted(side, key=lambda place: place[1])
        heights = np.linspace(0.08, 0.92, len(column)) if len(column) > 1 else [0.5]
        for place, height in zip(column, heights, strict=True):
            axes.plot(*place, "o", color="#b03030", markersize=5, zorder=3)
            axes.annotate(
                "\n".join(places[place]),
                place,
                xytext=(x, height),
                textcoords="axes fraction",
                fontsize=7,
                ha=align,
                va="center",
                arrowprops={"arrowstyle": "-", "color": "#8a90a0", "linewidth": 0.6},
                zorder=4,
            )


def main() -> None:
    """Draw all of them."""
    for name in runners.NAMES:
        draw(name)


if __name__ == "__main__":
    main()
