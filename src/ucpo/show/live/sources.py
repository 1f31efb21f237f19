"""The policies a page may play: those named on the command line, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from ucpo.errors import UsageError
from ucpo.policies import places
from ucpo.policies.policy import Policy, load
from ucpo.reports import labels
from ucpo.reports.charts import Chart, Rule, Series
from ucpo.reports.sources import Training
from ucpo.reports.training_views import learning
from ucpo.stats import cost_names, summarise
from ucpo.storage import parquet
from ucpo.storage.names import EVALUATION_FILE, METRICS_FILE, POLICY_FILE

PALETTE = ("#7b8794", "#a8874f", "#6f9188", "#95789c")
"""Of policies, in order; quiet ones, as the lanes that play them have bright ones of their own."""

_CURVES = ("#2a78d6", "#eb6834", "#1baf7a", "#9a5fd0")


class Source:
    """A policy, what evaluations say of it, and how its training goes.

    Args:
        given: Run folder, policy file, ``zoo:TASK`` or ``hf:user/name``.
        task: Another task than the policy says.
        network: What made the networks, where that was the user's own function.
    """

    def __init__(
        self,
        given: str,
        task: str | None = None,
        network: Callable[..., Any] | None = None,
    ) -> None:
        self.given, self.called, self._network = given, "", network
        path = places.locate(given)
        self.folder = path if path.is_dir() else path.parent
        self._file = path / POLICY_FILE if path.is_dir() else path
        self._settings = labels.read_settings(self.folder) if path.is_dir() else None
        if not self._file.is_file() and self._settings is None:
            load(given)  # says what is wrong
        self._stamps: dict[Path, int] = {}
        self._policy: Policy | None = None
        self.refresh()
        self.task = task or self._known("task")
        if ":" in self.task and task is None:
            raise UsageError(
                f"the policy says its task is {self.task}; to import that module, name it: "
                f"--task {self.task}"
            )

    @property
    def policy(self) -> Policy:
        """The newest there is."""
        if self._policy is None:
            raise UsageError(f"{self.given} has no policy yet")
        return self._policy

    @property
    def ready(self) -> bool:
        """Whether there is a policy; a run writes its first one with its first checkpoint."""
        return self._policy is not None

    @property
    def name(self) -> str:
        """What the page calls it."""
        known = f"{labels.name_of(self._known('method'))}, seed {self._known('training_seed')}"
        return f"{known} ({self.called})" if self.called else known

    def refresh(self) -> bool:
        """Look for newer files; whether there were any."""
        newer = [file for file in self._files() if self._changed(file)]
        if self._file in newer:
            try:
                self._policy = load(self._file, network=self._network)
            except UsageError:
                if self._policy is None:
                    raise
        return bool(newer)

    def about(self) -> dict[str, Any]:
        """What the page says about it."""
        said: dict[str, Any] = {"name": self.name, "given": self.given, "ready": self.ready}
        if self._policy is not None:
            info = self._policy.info
            said |= {
                "costs": list(info.cost_names),
                "low": list(info.budget_low),
                "high": list(info.budget_high),
                "env_steps": info.env_steps,
            }
        goal = (self._settings or {}).get("env_steps")
        return {**said, "goal": goal if isinstance(goal, int) else None}

    def episodes(self) -> pl.DataFrame | None:
        """What was evaluated, where it was."""
        own = places.own_file(self.given, EVALUATION_FILE)
        for file in (own, self.folder / EVALUATION_FILE):
            if file is not None and file.is_file():
                try:
                    return parquet.read(file)
                except (OSError, pl.exceptions.PolarsError):
                    return None
        return None

    def training(self) -> Training | None:
        """The metrics of its run, where there are some."""
        file = self.folder / METRICS_FILE
        if self._settings is None or not file.is_file():
            return None
        try:
            metrics = pl.read_csv(file, infer_schema_length=None)
        except (OSError, pl.exceptions.PolarsError):  # half a line, in the middle of a write
            return None
        known = [
            column.name
            for column in metrics
            if column.dtype.is_numeric() and column.null_count() < len(column)
        ]
        if "env_steps" not in known:  # nothing is written yet but the names of columns
            return None
        metrics, seed = metrics.select(known), int(self._known("training_seed"))
        return Training(self.task, self.name, seed, metrics)

    def _known(self, name: str) -> Any:
        if self._policy is not None:
            return getattr(self._policy.info, name)
        settings = self._settings or {}
        return settings.get("seed" if name == "training_seed" else name, "?")

    def _files(self) -> list[Path]:
        return [self._file, *(self.folder / name for name in (METRICS_FILE, EVALUATION_FILE))]

    def _changed(self, file: Path) -> bool:
        try:
            stamp = file.stat().st_mtime_ns
        except OSError:
            return False
        before = self._stamps.get(file)
        self._stamps[file] = stamp
        return stamp != before


def tell_apart(sources: Sequence[Source]) -> None:
    """Where two would have the same name, have them called by what the user calls them, too."""
    names = [source.name for source in sources]
    for source in sources:
        if names.count(source.name) > 1:
            source.called = source.given.rstrip("/").rpartition("/")[2] or source.given


def charts(sources: Sequence[Source]) -> dict[str, Any]:
    """Everything that is drawn as charts, as JSON: the frontier, and how trainings go."""
    trainings = [one for one in (source.training() for source in sources) if one is not None]
    painted = {one.method: _CURVES[i % 4] for i, one in enumerate(trainings)}
    figures = list(learning(sources[0].task, trainings, painted)) if trainings else []
    return {
        "frontier": [asdict(chart) for chart in _frontier(sources)],
        "training": [asdict(figure) for figure in figures],
        "kept": [_kept(source) for source in sources],
    }


def _kept(source: Source) -> list[dict[str, Any]]:
    """For each cost the share of evaluated episodes that kept a budget, `y`, at budgets `x`."""
    episodes = source.episodes()
    if episodes is None or episodes.is_empty():
        return []
    return [
        {"x": shares["budget"].to_list(), "y": shares["kept"].to_list()}
        for name in cost_names(episodes)
        for shares in [
            episodes.group_by(budget=f"budget_{name}")
            .agg(kept=(pl.col(f"cost_{name}") <= pl.col(f"budget_{name}")).mean())
            .sort("budget")
        ]
    ]


def _frontier(sources: Sequence[Source]) -> list[Chart]:
    """Return and costs against the budget, from evaluations."""
    returns: list[Series] = []
    costs: dict[str, list[Series]] = {}
    for i, source in enumerate(sources):
        episodes = source.episodes()
        if episodes is None or episodes.is_empty():
            continue
        names = cost_names(episodes)
        rows = summarise(episodes).sort(f"budget_{names[0]}")
        for name in names:
            budgets, behind = tuple(rows[f"budget_{name}"]), _behind(rows, name)
            drawn = partial(
                Series, source.name, budgets, colour=PALETTE[i % 4], kind="marks", notes=behind
            )
            costs.setdefault(name, []).append(drawn(y=tuple(rows[f"cost_{name}"])))
            if name == names[0]:
                returns.append(drawn(y=tuple(rows["return"])))
    if not returns:
        return []
    diagonal = (Rule("diagonal", 0.0, "the budget itself"),)
    return [
        Chart("return", "budget", "mean return", tuple(returns)),
        *(
            Chart(_called(name), "budget", "mean cost", tuple(series), diagonal)
            for name, series in costs.items()
        ),
    ]


def _behind(rows: pl.DataFrame, cost: str) -> tuple[str, ...]:
    pairs = rows.select("episodes", f"exceeded_{cost}").iter_rows()
    return tuple(f"{count:,} episodes, {share:.1%} above the budget" for count, share in pairs)


def _called(cost: str) -> str:
    return "cost" if cost == "cost" else f"cost ({cost})"
