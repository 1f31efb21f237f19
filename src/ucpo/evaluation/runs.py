"""Evaluating a run: what was asked for, less what is there already."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from ucpo.envs.registry import make_task
from ucpo.errors import UsageError
from ucpo.evaluation.episodes import Job, fingerprint, make_jobs
from ucpo.evaluation.store import Store
from ucpo.evaluation.workers import Work, share
from ucpo.policies.policy import Policy, load
from ucpo.storage.names import EVALUATION_FILE


@dataclass(frozen=True, kw_only=True)
class Request:
    """What to evaluate and how."""

    policy: Path
    """Run folder or policy file."""
    budgets: Sequence[float | Sequence[float]]
    episodes: int
    """Per budget."""
    seed: int = 0
    task: str | None = None
    """Another task than the one trained on."""
    extrapolate: bool = False
    num_envs: int = 64
    processes: int = 1
    save_paths: int = 0
    """Episodes per budget to keep whole."""
    calibrate: bool = False
    output: Path | None = None
    """Parquet file; by default evaluation.parquet in the run."""


@dataclass(frozen=True)
class Result:
    """What an evaluation left."""

    episodes: pl.DataFrame
    """One row per episode asked for, also those that were there before."""
    output: Path
    paths: Path | None
    """Where whole episodes are, if they were asked for."""
    played: int
    moved: Path | None
    """Where rows of an earlier state of the policy went, if there were any."""


def evaluate_run(
    request: Request,
    begun: Callable[[int, int], None] = lambda kept, missing: None,
    done: Callable[[int], None] = lambda count: None,
) -> Result:
    """Play the episodes that are missing and keep all; an interruption loses seconds of work.

    Args:
        request: What to evaluate.
        begun: Told how many episodes are there already and how many are to be played.
        done: Told whenever episodes ended how many.
    """
    policy = load(request.policy)
    jobs = make_jobs(policy, request.budgets, request.episodes, request.seed, request.extrapolate)
    stores = _stores(request, policy)
    done_already = {name: store.finished() for name, store in stores.items()}
    wanted: dict[str, list[Job]] = dict.fromkeys(stores, jobs)
    if "paths" in stores:
        first = {job.seed for job in jobs[: request.save_paths]}
        wanted["paths"] = [job for job in jobs if job.seed in first]
    missing = {
        name: {job for job in wanted[name] if job not in done_already[name]} for name in stores
    }
    to_play = [job for job in jobs if any(job in each for each in missing.values())]
    begun(len(jobs) - len(to_play), len(to_play))
    work = Work(
        policy=request.policy,
        task=request.task or policy.info.task,
        num_envs=request.num_envs,
        paths=frozenset(missing.get("paths", ())),
        calibrate="calibration" in stores,
    )
    try:
        for rows in share(work, to_play, request.processes):
            for name, store in stores.items():
                store.add(rows.get(name, []))
            done(len(rows["episodes"]))
    finally:
        for store in stores.values():
            store.flush()
    merged = {name: store.merge() for name, store in stores.items()}
    mine = merged["episodes"].filter(pl.col("task") == work.task)
    return Result(
        episodes=_asked_for(mine, jobs, policy.info.cost_names),
        output=stores["episodes"].file,
        paths=stores["paths"].file if "paths" in stores else None,
        played=len(to_play),
        moved=stores["episodes"].moved,
    )


def _asked_for(rows: pl.DataFrame, jobs: Sequence[Job], costs: Sequence[str]) -> pl.DataFrame:
    """The rows of these jobs, in their order."""
    budgets = [f"budget_{name}" for name in costs]
    keys = pl.DataFrame(
        [{**dict(zip(budgets, j.budgets, strict=True)), "episode_seed": j.seed} for j in jobs]
    )
    found = keys.join(rows, on=[*budgets, "episode_seed"], how="inner", maintain_order="left")
    return found.select(rows.columns)


def _stores(request: Request, policy: Policy) -> dict[str, Store]:
    """A file for each kind of rows asked for."""
    if request.processes < 1:
        raise UsageError(f"processes must be at least 1, got {request.processes}")
    if request.num_envs < 1:
        raise UsageError(f"num_envs must be at least 1, got {request.num_envs}")
    folder = request.policy if request.policy.is_dir() else request.policy.parent
    output = request.output
    asked = {"paths": request.save_paths > 0, "calibration": request.calibrate}
    files = {"episodes": output or folder / EVALUATION_FILE}
    for kind in (kind for kind in asked if asked[kind]):
        beside = output.with_suffix(f".{kind}.parquet") if output else None
        files[kind] = beside or folder / f"{kind}.parquet"
    task, costs = request.task or policy.info.task, policy.info.cost_names
    make_task(task, 1, costs).close()  # refuses what cannot be played before anything is written
    keys = {"calibration": ("cost", "age")}
    mark = fingerprint(policy)
    return {
        kind: Store(file, mark, task, costs, keys.get(kind, ())) for kind, file in files.items()
    }
