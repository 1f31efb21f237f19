"""Evaluating a run: what was asked for, less what is there already."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from ucpo import own
from ucpo.envs.registry import TASKS, make_task
from ucpo.errors import UsageError, say_once, shell
from ucpo.evaluation.episodes import Job, file_of, fingerprint, make_jobs
from ucpo.evaluation.store import Store
from ucpo.evaluation.workers import Work, share
from ucpo.policies.policy import Policy, check_hold, load
from ucpo.storage import files
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
    """Another task than the one trained on. Needed where that is ``module:id``: a policy file may
    be untrusted, and must not decide what is imported."""
    hold: int = 1
    """Environment steps each action is kept for."""
    stopped: bool = False
    """Let episodes end in the step that exceeds a budget."""
    extrapolate: bool = False
    num_envs: int = 64
    processes: int = 1
    save_paths: int = 0
    """Episodes per budget to keep whole."""
    calibrate: bool = False
    network: str | None = None
    """my_module:my_network, where that made the policy's networks; imported only if said here."""
    output: Path | None = None
    """Parquet file; by default evaluation.parquet in the run, or one named after the way
    of playing, such as evaluation-hold4.parquet or evaluation-stopped.parquet."""


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


def _say_which_tasks(episodes: pl.DataFrame, file: Path) -> None:
    played = episodes["task"].unique().sort().to_list()
    if len(played) > 1:
        say_once(
            f"{file} holds episodes of several tasks now ({', '.join(played)}), each in rows of "
            "its own; --output keeps them in files of their own"
        )


def own_network(name: str | None) -> Callable[..., Any] | None:
    """The function of the user's own that a name stands for."""
    return None if name is None else own.find(name, "a network")


def evaluate_run(
    request: Request,
    begun: Callable[[int, int], None] = lambda kept, missing: None,
    done: Callable[[int], None] = lambda count: None,
    policy: Policy | None = None,
) -> Result:
    """Play the episodes that are missing and keep all; an interruption loses seconds of work.

    Args:
        request: What to evaluate.
        begun: Told how many episodes are there already and how many are to be played.
        done: Told whenever episodes ended how many.
        policy: That of the request, where it has been loaded already.
    """
    policy = policy or load(request.policy, network=own_network(request.network))
    task = _task(request, policy)
    jobs = make_jobs(policy, request.budgets, request.episodes, request.seed, request.extrapolate)
    stores = _stores(request, policy, task)
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
        task=task,
        num_envs=request.num_envs,
        paths=frozenset(missing.get("paths", ())),
        calibrate="calibration" in stores,
        hold=request.hold,
        stopped=request.stopped,
        network=request.network,
    )
    try:
        for rows in share(work, policy, to_play, request.processes):
            for name, store in stores.items():
                store.add(rows.get(name, []))
            done(len(rows["episodes"]))
    finally:
        for store in stores.values():
            store.flush()
    merged = {name: store.merge() for name, store in stores.items()}
    _say_which_tasks(merged["episodes"], stores["episodes"].file)
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


def _task(request: Request, policy: Policy) -> str:
    """The task to play on, which must not be one that an untrusted file makes us import."""
    own = policy.info.task
    if request.task is None and ":" in own:
        raise UsageError(
            f"the policy was trained on {own}, which would import a Python module that the file "
            "names; if you trust it, as with a run of your own: "
            f"ucpo evaluate {shell(request.policy)} --task {shell(own)}"
        )
    return request.task or own


def _must_be_playable(task: str, request: Request, policy: Policy) -> None:
    """Refuse what cannot be played before anything is written."""
    try:
        make_task(task, 1, policy.info.cost_names).close()
    except UsageError as error:
        if request.task is not None or task in TASKS:
            raise
        raise UsageError(
            f"{error}. If the policy was trained on a class or function of your own, say where it "
            f"is: ucpo evaluate {shell(request.policy)} --task my_module:{shell(task)}"
        ) from None


def _stores(request: Request, policy: Policy, task: str) -> dict[str, Store]:
    """A file for each kind of rows asked for."""
    for name in ("processes", "num_envs"):
        if getattr(request, name) < 1:
            raise UsageError(f"{name} must be at least 1, got {getattr(request, name)}")
    check_hold(request.hold)
    if request.stopped and request.calibrate:
        raise UsageError(
            "critics predict the cost of whole episodes, so those that end once a budget is "
            "exceeded cannot be compared with them; leave one of --stopped and --calibrate out"
        )
    folder = request.policy if request.policy.is_dir() else request.policy.parent
    named = partial(file_of, hold=request.hold, stopped=request.stopped)
    output = request.output
    asked = {"paths": request.save_paths > 0, "calibration": request.calibrate}
    places = {"episodes": output or folder / named(EVALUATION_FILE)}
    for kind in (kind for kind in asked if asked[kind]):
        beside = output.with_suffix(f".{kind}.parquet") if output else None
        places[kind] = beside or folder / named(f"{kind}.parquet")
    _must_be_playable(task, request, policy)
    for place in places.values():
        files.must_be_writable(place, "name another file with --output")
    keys = {"calibration": ("cost", "age")}
    mark, costs = fingerprint(policy, request.hold, request.stopped), policy.info.cost_names
    return {
        kind: Store(file, mark, task, costs, keys.get(kind, ())) for kind, file in places.items()
    }
