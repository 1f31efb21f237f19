"""UCP against UCP-Mean: the same budget, kept in every drive or only on average.

    python examples/risk_or_mean.py --seeds 3 -o runs/risk-or-mean

Trains both on the courier task, plays 1000 drives with each at budgets 5, 10 and 15, prints what
came of it and draws both distributions of the cost at budget 10.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import polars as pl

from ucpo import UCP
from ucpo.reports import cost_distributions
from ucpo.stats import summarise

BUDGETS = (5.0, 10.0, 15.0)


def main(seeds: int, folder: Path, env_steps: int | None = None) -> None:
    parts = []
    for seed in range(seeds):
        for variant in ("ucp", "ucp-mean"):
            agent = UCP("Courier-v0", method=variant, seed=seed)
            agent.learn(env_steps, run=folder / f"{variant}-seed{seed}")
            parts.append(agent.evaluate(BUDGETS, episodes=1000))
    episodes = pl.concat(parts)
    cost_distributions(episodes, 10.0, folder / "cost-distributions.png")

    columns = ["return", "cost_near_misses", "exceeded_near_misses", "excess_near_misses"]
    by_seed = pl.concat(
        summarise(part).with_columns(seed=part["training_seed"][0]) for part in parts
    )
    for (method, budget), rows in by_seed.group_by(
        ["method", "budget_near_misses"], maintain_order=True
    ):
        told = [
            f"{column.removesuffix('_near_misses')} {rows[column].to_numpy().mean():.3f} "
            f"({', '.join(f'{value:.3f}' for value in np.sort(rows[column].to_numpy()))})"
            for column in columns
        ]
        print(f"{method} at budget {budget:g}: " + "; ".join(told))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("-o", "--output", type=Path, default=Path("runs/risk-or-mean"))
    chosen = parser.parse_args()
    main(chosen.seeds, chosen.output)
