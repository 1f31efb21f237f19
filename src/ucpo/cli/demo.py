"""``make demo``: train on the courier task and compare with the exact optimum at each budget."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
from rich.console import Console

from ucpo.envs.illustration import courier_optimum
from ucpo.envs.registry import make_task
from ucpo.evaluation import evaluate
from ucpo.reports import frontier, table
from ucpo.runs.run import Run
from ucpo.storage.names import EVALUATION_FILE

BUDGETS = (0.0, 5.0, 10.0, 15.0)  # the odd ones lie between the levels trained for
EPISODES = 1000


def demo(folder: Path, env_steps: int | None = None, seed: int = 0) -> None:
    """Train, evaluate at four budgets, print a table and draw ``frontier.png`` in `folder`."""
    console = Console()
    console.print(
        "A courier earns by speeding and risks near misses. One agent is trained for all budgets "
        "from 0 to 20 near misses a drive; afterwards it is told the budget.",
    )
    if folder.exists():
        shutil.rmtree(folder)
    agent = Run("Courier-v0", seed=seed)
    agent.learn(env_steps, run=folder)
    console.print(f"{EPISODES} drives at each budget:")
    episodes = evaluate(agent.policy(), make_task("Courier-v0", 100), BUDGETS, EPISODES)
    episodes.write_parquet(folder / EVALUATION_FILE)
    best = courier_optimum([int(max(BUDGETS))])
    console.print(table(episodes, {budget: best[int(budget)] for budget in BUDGETS}))
    frontier(episodes, folder / "frontier.png", (np.arange(len(best)) * 1.0, best))
    console.print(
        f"Return and cost against the budget, beside the exact optimum: {folder / 'frontier.png'}"
    )
