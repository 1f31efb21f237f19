"""Paths of a navigation task, seen from above: budgets from left to right, episodes downwards."""

from __future__ import annotations

from itertools import repeat
from pathlib import Path

import numpy as np
import polars as pl

from ucpo.envs.registry import entry_of, make_task
from ucpo.stats import cost_names
from ucpo.stock import Start
from ucpo.storage import parquet

MOST = 4  # of budgets and of episodes in one picture
_PIXELS = 320
_APART = 326


def draw_paths(file: Path) -> Path | None:
    """Draw whole episodes from a file of them; None for tasks that are not navigation tasks.

    Objects are where they were at the start of the episode; the path is red where it cost.
    """
    rows = parquet.read(file)
    task_name = rows["task"][0]
    rows = rows.filter(pl.col("task") == task_name)
    entry = entry_of(task_name)
    if "x" not in rows.columns or entry is None or entry.view != "above":
        return None
    from PIL import Image

    from ucpo.envs.navigation.drawing import needed, picture, scene

    names = cost_names(rows)
    budgets = rows.select(f"budget_{name}" for name in names).unique(maintain_order=True).rows()
    seeds = rows["episode_seed"].unique(maintain_order=True).to_list()
    chosen = [budgets[i] for i in np.unique(np.linspace(0, len(budgets) - 1, MOST).astype(int))]
    episodes = seeds[:MOST]
    sheet = Image.new("RGB", (_APART * len(chosen), _APART * len(episodes)), "white")
    task = make_task(task_name, 1, names)
    shown = [
        (tuple(row[f"budget_{name}"] for name in names), row)
        for row in rows.iter_rows(named=True)
        if row["episode_seed"] in episodes
    ]
    shown = [(budget, row) for budget, row in shown if budget in chosen]
    widths: dict[int, float] = {}  # panels of one episode have one scale
    for _, row in shown:
        path = list(zip(row["x"], row["y"], strict=True))
        widths[row["episode_seed"]] = max(widths.get(row["episode_seed"], 0.0), needed(path))
    for budget, row in shown:
        task.reset(repeat(Start(row["episode_seed"], -np.array(budget, np.float32))))
        costs = np.array([row[f"cost_{name}"] for name in names])  # (C, steps)
        spent = ", ".join(
            f"{name} {cost:g} of {limit:g}"
            for name, cost, limit in zip(names, costs.sum(1), budget, strict=True)
        )
        image = picture(
            scene(task),  # type: ignore[arg-type]
            list(zip(row["x"], row["y"], strict=True)),
            (costs.sum(0) > 0.0).tolist(),
            _PIXELS,
            f"return {np.sum(row['reward']):.1f}   {spent}",
            widths[row["episode_seed"]],
        )
        place = (chosen.index(budget) * _APART, episodes.index(row["episode_seed"]) * _APART)
        sheet.paste(image, place)
    task.close()
    target = file.with_suffix(".png")
    sheet.save(target)
    return target
