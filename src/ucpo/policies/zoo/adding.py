"""Put finished runs into the zoo: ``python -m ucpo.policies.zoo.adding --machine "..." RUN ...``.

For maintainers, in a clone: it writes into the package. A run must be finished and evaluated, as
`ucpo evaluate RUN` does it by default, or with ``--hold`` where a policy needs that.
"""

from __future__ import annotations

import dataclasses
import shlex
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from ucpo.config.files import read_config, resolve
from ucpo.config.options import RunConfig
from ucpo.envs.registry import family_of, make_task
from ucpo.errors import UsageError, shell
from ucpo.evaluation.episodes import file_of
from ucpo.policies import zoo
from ucpo.policies.critics import CostCritics, load_critics, save_small
from ucpo.policies.policy import Policy, load
from ucpo.policies.zoo.cards import Card
from ucpo.problem import BudgetGrid
from ucpo.stats import cost_names, summarise
from ucpo.stock import random_starts
from ucpo.storage import parquet
from ucpo.storage.names import CONFIG_FILE, CRITICS_FILE, EVALUATION_FILE, METRICS_FILE, POLICY_FILE

EPISODES = 1000  # evaluated at each budget
LARGEST = 1_000_000  # bytes of a policy
TOLERANCE = 0.1  # cost units; half precision keeps three digits of every weight
_NO_RESULT = ("preset", "checkpoint_every", "checkpoint_steps")  # options that change none


def add(run: Path, machine: str, root: Path, hold: int = 1) -> Path:
    """Copy what an entry needs from a run, write its card, and return the entry's folder.

    Args:
        run: Folder of a finished and evaluated run.
        machine: What it was trained on, in words.
        root: The zoo to add to.
        hold: Environment steps each action is kept for in the evaluation that counts.
    """
    config, policy = read_config(run / CONFIG_FILE), load(run)
    if policy.info.env_steps < config.env_steps:
        raise UsageError(
            f"{run} is not finished: {policy.info.env_steps:,} of {config.env_steps:,} "
            f"environment steps; go on with ucpo resume {shell(run)}"
        )
    if (run / POLICY_FILE).stat().st_size > LARGEST:
        raise UsageError(f"the policy of {run} is larger than {LARGEST:,} bytes")
    played = file_of(EVALUATION_FILE, hold)
    episodes = parquet.read(run / played)
    evaluation = _evaluation(episodes, run)
    folder = root / config.folder
    folder.mkdir(parents=True, exist_ok=True)
    for name in (POLICY_FILE, CONFIG_FILE, METRICS_FILE):
        shutil.copyfile(run / name, folder / name)
    if (run / CRITICS_FILE).is_file():
        add_critics(run, policy, folder / CRITICS_FILE)
    parquet.write(episodes, folder / played)
    Card(
        command=command(config),
        env_steps=policy.info.env_steps,
        updates=policy.info.updates,
        hours=round(hours(run), 2),
        machine=machine,
        evaluation=evaluation,
        hold=hold,
    ).write(folder)
    return folder


def add_critics(run: Path, policy: Policy, target: Path) -> float:
    """Write the critics of costs in a small form; returns how far its predictions are off.

    In cost units, the largest difference of any quantile in any state of some episodes. Where that
    is more than `TOLERANCE` the entry is refused.
    """
    whole = load_critics(run, policy.info)
    save_small(whole.critics, policy.info, target)
    off = _difference(policy, whole, load_critics(target, policy.info))
    if off > TOLERANCE:
        target.unlink()
        raise UsageError(f"small critics of {run} would be off by {off:.3f} cost units")
    return off


def _difference(policy: Policy, whole: CostCritics, small: CostCritics) -> float:
    """The largest difference of two predictions in the states of some episodes."""
    info = policy.info
    task = make_task(info.task, 8, info.cost_names)
    grid = BudgetGrid(info.budget_low, info.budget_high, (9,) * len(info.cost_names))
    starts = random_starts(grid, np.random.default_rng(0))
    obs, stock = task.reset(starts, info.stock_discount)
    off = 0.0
    for _ in range(200):
        actions = policy.act(obs, stock)
        one, other = (each.quantiles(obs, stock, actions) for each in (whole, small))
        off = max(off, float(np.abs(one - other).max()))
        step = task.step(actions)
        obs, stock = step.obs, step.stock
    task.close()
    return off


def command(config: RunConfig) -> str:
    """The command that trains with this configuration."""
    usual = resolve(
        config.task,
        method=config.method,
        preset=config.preset,
        family=family_of(config.task),
        budget=config.budget,
    )
    words = ["ucpo", "train", config.task]
    words += ["--preset", config.preset] if config.preset != "auto" else []
    words += ["--method", config.method] if config.method != "ucp" else []
    words += ["--budget", *config.budget] if config.budget else []
    chosen, expected = deciding(config), deciding(usual)
    for name in chosen:
        if name != "seed" and chosen[name] != expected[name]:
            words += _option(name.replace("_", "-"), chosen[name])
    return shlex.join([*words, "--seed", str(config.seed)])


def _option(name: str, value: Any) -> list[str]:
    """The words that set an option, nested ones named a.b."""
    if isinstance(value, bool):
        group, dot, last = name.rpartition(".")
        return [f"--{group}{dot}{last if value else 'no-' + last}"]
    return [f"--{name}", *map(str, value if isinstance(value, tuple) else (value,))]


def deciding(config: RunConfig) -> dict[str, Any]:
    """The options that decide what comes out, nested ones as a.b."""
    table = dataclasses.asdict(config)
    for name in _NO_RESULT:
        del table[name]
    flat: dict[str, Any] = {}
    for name, value in table.items():
        if isinstance(value, dict):
            flat |= {f"{name}.{key}": each for key, each in value.items()}
        else:
            flat[name] = value
    return flat


def hours(run: Path) -> float:
    """Wall-clock time of a training, over all its parts."""
    from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
    from tensorboard.compat.proto.event_pb2 import Event

    seconds = 0.0
    for file in run.glob("events.out.tfevents.*"):
        times = [Event.FromString(raw).wall_time for raw in RawEventFileLoader(str(file)).Load()]
        seconds += max(times) - min(times)
    return seconds / 3600


def _evaluation(episodes: pl.DataFrame, run: Path) -> list[dict[str, float]]:
    """What the card says about the evaluation of a policy under one cost."""
    (cost,) = cost_names(episodes)
    counted = episodes.group_by(f"budget_{cost}").len()["len"]
    if set(counted) != {EPISODES}:
        raise UsageError(
            f"{run} needs {EPISODES} episodes at each budget: ucpo evaluate {shell(run)}"
        )
    kept = {name: pl.col(f"{name}_{cost}") for name in ("budget", "cost", "exceeded", "excess")}
    rows = summarise(episodes).select(**kept, **{"return": pl.col("return")})
    return [
        {name: round(value, 4) for name, value in row.items()}
        for row in rows.sort("budget").to_dicts()
    ]


def main() -> None:
    """Add the runs given on the command line."""
    import argparse

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--machine", required=True)
    parser.add_argument("--hold", type=int, default=1)
    given = parser.parse_args()
    for run in given.runs:
        add(run, given.machine, zoo.locate(zoo.PREFIX), given.hold)


if __name__ == "__main__":
    main()
