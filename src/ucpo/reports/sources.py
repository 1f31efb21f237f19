"""What a report is made from: evaluation files, and what lies beside them in run folders."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from ucpo.errors import UsageError, shell
from ucpo.policies import places
from ucpo.reports import labels
from ucpo.stats import cost_names, per_seed
from ucpo.storage import parquet
from ucpo.storage.names import (
    CALIBRATION_FILE,
    CONFIG_FILE,
    EVALUATION_FILE,
    METRICS_FILE,
    POLICY_FILE,
)

_NAMES = ("task", "method")
_PLAYED = re.compile(r"evaluation(-hold\d+)?(-stopped)?\.parquet")


@dataclass(frozen=True)
class Training:
    """The metrics of one run over its environment steps."""

    task: str
    method: str
    """Its label, as in all frames: see `ucpo.reports.labels`."""
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
    unevaluated: tuple[Path, ...] = ()
    """Runs that were found but have no evaluation, and so no number."""
    unknown: tuple[Path, ...] = ()
    """Files with nothing beside them that says how the policy was trained."""


@dataclass(frozen=True)
class _Read:
    """One evaluation file and what is beside it."""

    file: Path
    episodes: pl.DataFrame
    costs: tuple[str, ...]
    settings: labels.Settings | None
    names: Mapping[tuple[str, str], str]  # (task, method) to label

    def labelled(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Its rows with labels in place of methods."""
        label = pl.lit(None, pl.String)
        for (task, method), name in self.names.items():
            mine = (pl.col("task") == task) & (pl.col("method") == method)
            label = pl.when(mine).then(pl.lit(name)).otherwise(label)
        return frame.with_columns(method=label.cast(frame.schema["method"]))


def read_sources(paths: Sequence[Path], names: Mapping[Path, str] | None = None) -> Sources:
    """Read evaluation files, run folders, and folders that contain run folders.

    Args:
        paths: Where they are.
        names: What to call the runs below a folder instead of by their method.
    """
    if not paths:
        raise UsageError("nothing to report on; give run folders or evaluation files")
    files = list(dict.fromkeys(file.resolve() for path in paths for file in _find(path)))
    idle = list(dict.fromkeys(run for path in paths for run in _unevaluated(places.locate(path))))
    frames: dict[tuple[str, ...], list[pl.DataFrame]] = {}
    trainings, calibrations = [], []
    read = _labelled([(file, _episodes(file)) for file in files], names or {})
    _refuse_doubles(read)
    for one in read:
        frames.setdefault(one.costs, []).append(one.episodes)
        if one.file.name == EVALUATION_FILE:
            trainings += _training(one)
            calibrations += [one.labelled(frame) for frame in _calibration(one.file.parent)]
    episodes = tuple(pl.concat(group, how="diagonal_relaxed") for group in frames.values())
    seeds = pl.concat(per_seed(frame, costs) for costs, frame in zip(frames, episodes, strict=True))
    calibration = pl.concat(calibrations) if calibrations else pl.DataFrame()
    return Sources(
        episodes,
        _in_order(seeds),
        tuple(sorted(trainings, key=lambda one: (one.task, labels.rank(one.method), one.seed))),
        _in_order(calibration),
        tuple(files),
        tuple(idle),
        tuple(one.file for one in read if one.settings is None),
    )


def _labelled(found: Sequence[tuple[Path, pl.DataFrame]], names: Mapping[Path, str]) -> list[_Read]:
    """Every file with labels instead of methods; which ones depends on all of them together."""
    subjects: list[labels.Subject] = []
    owners: list[tuple[int, tuple[str, str]]] = []
    settings = [labels.read_settings(file.parent) for file, _ in found]
    for i, (file, frame) in enumerate(found):
        budgets = [f"budget_{name}" for name in cost_names(frame)]
        called = [name for place, name in names.items() if file.is_relative_to(place.resolve())]
        for (task, method), rows in frame.group_by(["task", "method"], maintain_order=True):
            subjects.append(
                labels.Subject(
                    str(task),
                    str(method),
                    settings[i],
                    _how(rows),
                    called[-1] if called else "",
                    frozenset(rows.select(budgets).unique().rows()),
                )
            )
            owners.append((i, (str(task), str(method))))
    given: list[dict[tuple[str, str], str]] = [{} for _ in found]
    for (i, key), label in zip(owners, labels.labels(subjects), strict=True):
        given[i][key] = label
    read = []
    for (file, frame), table, mine in zip(found, settings, given, strict=True):
        one = _Read(file, frame, tuple(cost_names(frame)), table, mine)
        read.append(_Read(file, one.labelled(frame), one.costs, table, mine))
    return read


def _how(rows: pl.DataFrame) -> str:
    """What the fingerprints of an evaluation say of how the policy was used."""
    if "policy" not in rows.columns:
        return ""
    _, *manner = str(rows["policy"][0]).split("-")
    held = [f"hold={word[4:]}" for word in manner if re.fullmatch(r"hold\d+", word)]
    return ", ".join([*held, *(word for word in manner if word == labels.STOPPED)])


def _refuse_doubles(read: Sequence[_Read]) -> None:
    """Two files about the same run would count as one; different costs fit no table."""
    costs_of: dict[str, tuple[tuple[str, ...], Path]] = {}
    owners: dict[tuple[object, ...], Path] = {}
    for one in read:
        keys = [*_NAMES, "training_seed", *(f"budget_{name}" for name in one.costs)]
        for key in one.episodes.select(keys).unique().rows():
            _check_costs(str(key[0]), one.costs, one.file, costs_of)
            if key in owners:
                raise UsageError(
                    f"{owners[key]} and {one.file} both hold {key[1]} on {key[0]} with training "
                    f"seed {key[2]} at budget {', '.join(f'{b:g}' for b in key[3:])}; they would "
                    "count as one run: leave one of them out, or give them different labels"
                )
            owners[key] = one.file


def _in_order(frame: pl.DataFrame) -> pl.DataFrame:
    """By task, methods in the order of the paper, labels of one method together."""
    if frame.is_empty():
        return frame
    methods = sorted(frame["method"].unique(), key=labels.rank)
    place = pl.col("method").replace_strict(methods, range(len(methods)), return_dtype=pl.Int64)
    return frame.sort("task", place, maintain_order=True)


def _find(path: Path) -> Iterator[Path]:
    """Evaluation files at or below a path."""
    path = places.locate(path)
    if path.is_file():
        yield path
        return
    if not path.exists():
        raise UsageError(f"there is nothing at {path}; give a run folder or an evaluation file")
    found = _evaluations(path) or [file for run in _folders(path) for file in _evaluations(run)]
    if not found:
        raise UsageError(
            f"{path} holds no {EVALUATION_FILE}; evaluate first: ucpo evaluate {shell(path)}"
        )
    yield from found


def _unevaluated(path: Path) -> list[Path]:
    """Run folders at or below a path that have no evaluation."""
    if not path.is_dir() or _evaluations(path):
        return []
    runs = [file.parent for name in (CONFIG_FILE, POLICY_FILE) for file in path.rglob(name)]
    return sorted({run for run in runs if not _evaluations(run)})


def _folders(path: Path) -> list[Path]:
    """Folders below a path that hold evaluations."""
    return sorted({file.parent for file in path.rglob("evaluation*.parquet")})


def _evaluations(folder: Path) -> list[Path]:
    """The evaluations of a run: the usual one, then held or stopped ones; none moved aside."""
    found = [f for f in folder.glob("evaluation*.parquet") if _PLAYED.fullmatch(f.name)]
    return sorted(found, key=lambda file: (file.name != EVALUATION_FILE, file.name))


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
    extra = [name for name in ("env_steps", "updates", "policy") if name in columns]
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


def _training(one: _Read) -> list[Training]:
    file = one.file.parent / METRICS_FILE
    if not file.is_file() or not file.stat().st_size:
        return []
    try:
        metrics = pl.read_csv(file, infer_schema_length=None).cast(pl.Float64)
    except pl.exceptions.PolarsError as error:
        raise UsageError(f"{file} cannot be read as metrics of a run ({error})") from None
    # An evaluation may hold episodes of other tasks beside the one trained on.
    trained: Any = (one.settings or {}).get("task")
    mine = one.episodes.filter(pl.col("task") == trained) if trained else one.episodes.head(0)
    rows = one.episodes if mine.is_empty() else mine
    task, method, seed = rows.select(*_NAMES, "training_seed").row(0)
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
