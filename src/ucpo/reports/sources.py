"""What a report is made from: evaluation files, and what lies beside them in run folders."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from ucpo.errors import UsageError, shell
from ucpo.policies import zoo
from ucpo.reports import paper
from ucpo.stats import cost_names, per_seed
from ucpo.storage import parquet
from ucpo.storage.names import CALIBRATION_FILE, EVALUATION_FILE, METRICS_FILE

_NAMES = ("task", "method")


@dataclass(frozen=True)
class Training:
    """The metrics of one run over its environment steps."""

    task: str
    method: str
    seed: int
    metrics: pl.DataFrame


@dataclass(frozen=True)
class Sources:
    """Everything that was read."""

    episodes: tuple[pl.DataFrame, ...]
    """One frame for each set of costs there is."""
    seeds: pl.DataFrame
    """What `ucpo.stats.per_seed` makes of them."""
    trainings: tuple[Training, ...] = ()
    calibration: pl.DataFrame = field(default_factory=pl.DataFrame)
    files: tuple[Path, ...] = ()


def read_sources(paths: Sequence[Path]) -> Sources:
    """Read evaluation files, run folders, and folders that contain run folders."""
    if not paths:
        raise UsageError("nothing to report on; give run folders or evaluation files")
    files = list(dict.fromkeys(file.resolve() for path in paths for file in _find(path)))
    frames: dict[tuple[str, ...], list[pl.DataFrame]] = {}
    costs_of: dict[str, tuple[tuple[str, ...], Path]] = {}
    owners: dict[tuple[object, ...], Path] = {}
    trainings, calibrations = [], []
    for file in files:
        frame = _episodes(file)
        costs = tuple(cost_names(frame))
        settings = [*_NAMES, "training_seed", *(f"budget_{name}" for name in costs)]
        for key in frame.select(settings).unique().rows():
            _check_costs(str(key[0]), costs, file, costs_of)
            if key in owners:
                raise UsageError(
                    f"{owners[key]} and {file} both hold {key[1]} on {key[0]} with training seed "
                    f"{key[2]} at budget {', '.join(f'{b:g}' for b in key[3:])}; they would count "
                    "as one run: leave one of them out"
                )
            owners[key] = file
        frames.setdefault(costs, []).append(frame)
        if file.name == EVALUATION_FILE:
            trainings += _training(file.parent, frame)
            calibrations += _calibration(file.parent)
    episodes = tuple(pl.concat(group, how="diagonal_relaxed") for group in frames.values())
    seeds = pl.concat(per_seed(frame, costs) for costs, frame in zip(frames, episodes, strict=True))
    seeds = _in_order(seeds)
    calibration = pl.concat(calibrations) if calibrations else pl.DataFrame()
    return Sources(
        episodes,
        seeds,
        tuple(sorted(trainings, key=lambda one: (one.task, paper.rank(one.method), one.seed))),
        _in_order(calibration),
        tuple(files),
    )


def _in_order(frame: pl.DataFrame) -> pl.DataFrame:
    """By task, methods in the order of the paper; otherwise as before."""
    if frame.is_empty():
        return frame
    methods = sorted(frame["method"].unique(), key=paper.rank)
    place = pl.col("method").replace_strict(methods, range(len(methods)), return_dtype=pl.Int64)
    return frame.sort("task", place, maintain_order=True)


def _find(path: Path) -> Iterator[Path]:
    """Evaluation files at or below a path."""
    path = zoo.locate(path)
    if path.is_file():
        yield path
        return
    if not path.exists():
        raise UsageError(f"there is nothing at {path}; give a run folder or an evaluation file")
    own = path / EVALUATION_FILE
    found = [own] if own.is_file() else sorted(path.rglob(EVALUATION_FILE))
    if not found:
        raise UsageError(
            f"{path} holds no {EVALUATION_FILE}; evaluate first: ucpo evaluate {shell(path)}"
        )
    yield from found


def _episodes(file: Path) -> pl.DataFrame:
    """The columns of an evaluation that reports use, checked."""
    columns = parquet.columns(file)
    costs = cost_names(columns)
    needed = [*_NAMES, "training_seed", "return", *(f"budget_{name}" for name in costs)]
    missing = [name for name in needed if name not in columns] + ([] if costs else ["cost_NAME"])
    if missing:
        raise UsageError(
            f"{file} has no column {missing[0]}: it is not an evaluation (one row per episode, as "
            "`ucpo evaluate` writes)"
        )
    numbers = ["return", *(f"{kind}_{name}" for kind in ("cost", "budget") for name in costs)]
    extra = [name for name in ("env_steps", "updates") if name in columns]
    frame = parquet.read(file, [*_NAMES, "training_seed", *extra, *numbers])
    if frame.is_empty():
        raise UsageError(f"{file} has no rows; evaluate first")
    try:
        # Names repeat a thousand times each: as categories they take an eighth of the memory.
        frame = frame.with_columns(
            pl.col(numbers).cast(pl.Float64), pl.col(_NAMES).cast(pl.Categorical)
        )
    except pl.exceptions.PolarsError as error:
        raise UsageError(f"{file} has columns of unexpected types ({error})") from None
    if not frame.select(pl.all_horizontal(pl.col(numbers).is_finite().all())).item():
        raise UsageError(f"{file} has returns, costs or budgets that are missing or not finite")
    return frame


def _check_costs(
    task: str, costs: tuple[str, ...], file: Path, known: dict[str, tuple[tuple[str, ...], Path]]
) -> None:
    before, other = known.setdefault(task, (costs, file))
    if before != costs:
        raise UsageError(
            f"{other} and {file} are about {task} with different costs ({', '.join(before)}; "
            f"{', '.join(costs)}) and cannot stand in one table; report on them apart"
        )


def _training(folder: Path, episodes: pl.DataFrame) -> list[Training]:
    file = folder / METRICS_FILE
    if not file.is_file() or not file.stat().st_size:
        return []
    try:
        metrics = pl.read_csv(file, infer_schema_length=None).cast(pl.Float64)
    except pl.exceptions.PolarsError as error:
        raise UsageError(f"{file} cannot be read as metrics of a run ({error})") from None
    task, method, seed = episodes.select(*_NAMES, "training_seed").row(0)
    return [Training(str(task), str(method), int(seed), metrics)]


def _calibration(folder: Path) -> list[pl.DataFrame]:
    file = folder / CALIBRATION_FILE
    needed = ["task", "method", "training_seed", "cost", "observed", "predicted", "happened"]
    needed += ["pit_low", "pit_high"]
    if not file.is_file():
        return []
    if set(needed) - set(parquet.columns(file)):
        raise UsageError(f"{file} does not hold calibration rows; remove it or evaluate again")
    return [parquet.read(file, needed)]
