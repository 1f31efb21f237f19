"""Seconds and memory of a report over as many rows as the paper's whole evaluation has.

    python benchmarks/report.py [--tasks 22] [--episodes 1000] [--json] [--output DIR]

Makes synthetic rows (22 tasks x 8 methods x 5 seeds x 4 budgets x 1000 episodes: 3.5 million), one
file per run as evaluations write them, then builds the report against the paper in a process of its
own and prints its elapsed time and the most memory it held.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

from ucpo.reports import paper
from ucpo.storage import parquet

METHODS = (*paper.METHODS, "PPOLag", "SACLag")
SEEDS = 5


def make_rows(folder: Path, tasks: int, episodes: int) -> int:
    """Write the files; returns how many rows they have."""
    random = np.random.default_rng(0)
    names = paper.comparison()["task"].unique(maintain_order=True).to_list()[:tasks]
    count = episodes * len(paper.BUDGETS)
    budgets = np.repeat(paper.BUDGETS, episodes)
    for task in names:
        for place, method in enumerate(METHODS):
            for seed in range(SEEDS):
                shift = random.normal()
                costs = random.negative_binomial(4.0, 0.25, count) * budgets / 12.0
                rows = pl.DataFrame(
                    {
                        "task": [task] * count,
                        "method": [method] * count,
                        "training_seed": np.full(count, seed),
                        "env_steps": np.full(count, 3_000_000),
                        "updates": np.full(count, 3_000_000),
                        "budget_cost": budgets,
                        "episode_seed": random.integers(2**31, size=count),
                        "return": random.normal(10.0 + place + shift + budgets / 5.0, 3.0),
                        "cost_cost": np.round(costs),
                        "length": np.full(count, 1000),
                    }
                )
                parquet.write(rows, folder / f"{task}-{method}-{seed}" / "evaluation.parquet")
    return len(names) * len(METHODS) * SEEDS * count


def build(folder: str, output: str) -> None:
    """What is measured."""
    from ucpo.envs.threads import processors
    from ucpo.reports import build

    build([Path(folder)], Path(output), against_paper=True, processes=processors())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", type=int, default=22)
    parser.add_argument("--episodes", type=int, default=1000)
    parser.add_argument("--output", type=Path, help="keep the report here")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--build", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.build:
        build(*options.build)
        return
    with tempfile.TemporaryDirectory() as place:
        rows = make_rows(Path(place) / "runs", options.tasks, options.episodes)
        output = options.output or Path(place) / "report"
        began = time.perf_counter()
        arguments = ["--build", str(Path(place) / "runs"), str(output)]
        subprocess.run([sys.executable, __file__, *arguments], check=True)
        seconds = time.perf_counter() - began
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        result = {
            "rows": rows,
            "seconds": round(seconds, 1),
            "processor_seconds": round(used.ru_utime + used.ru_stime, 1),
            "peak_mib": round(used.ru_maxrss / 1024),
            "page_mib": round((output / "report.html").stat().st_size / 2**20, 2),
        }
    print(json.dumps(result) if options.json else result)


if __name__ == "__main__":
    main()
