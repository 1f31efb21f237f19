"""A search: Optuna says which values to try next, an engine tries them.

Every trial is a run like any other. What it is worth is read from its log, while it is under way
too: a trial that is worse than half of the others were at the same step is told to stop. Trials are
remembered in the folder, so that a search that was interrupted goes on.
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ucpo.config.files import to_toml
from ucpo.config.options import RunConfig
from ucpo.errors import UsageError, nearest
from ucpo.runs.status import last_row
from ucpo.runs.sweep.engines import Engine
from ucpo.runs.sweep.job import Done, Job, make_jobs
from ucpo.runs.sweep.plan import Evaluation, Options, Plan, Planned, make_config, run_name
from ucpo.runs.sweep.sweep import SweepFolder
from ucpo.storage import files, names
from ucpo.storage.names import METRICS_FILE, PRUNED_FILE

JOURNAL = "trials.journal"
BEST = "best.toml"
_LOOK = 1.0  # seconds between looks into logs
_NOT_IN_A_PRESET = ("task", "method", "preset", "seed")


@dataclass(frozen=True)
class Search:
    """The table ``[tune]`` of a sweep's file."""

    trials: int
    """Runs to try."""
    price: float
    """Units of return that a cost unit above the budget takes away from what a trial is worth."""
    prune: bool
    """Stop trials that fall behind."""
    seed: int
    """Of Optuna's choices."""
    space: Mapping[str, Any]
    """By option: a list of values, or a table with low, high and log."""

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> Search:
        """Read the table."""
        known: dict[str, Any] = {"trials": 20, "price": 1.0, "prune": True, "seed": 0}
        for key in table:
            if key not in (*known, "search"):
                raise UsageError(f"no option tune.{key}; {nearest(key, [*known, 'search'])}")
        values = {key: table.get(key, default) for key, default in known.items()}
        if type(values["trials"]) is not int or values["trials"] < 1:
            raise UsageError(f"tune.trials must be at least 1, got {values['trials']!r}")
        space = dict(_leaves(table.get("search", {}), ""))
        if not space:
            raise UsageError(
                "there is nothing to search for; name options and their values under "
                "[tune.search], e.g. critic.rate = {low = 1e-5, high = 1e-3, log = true}"
            )
        return cls(**values, space=space)

    def worth(self, row: Mapping[str, float]) -> float | None:
        """What a row of metrics is worth: return, less priced excess; None: no episode yet."""
        if "return" not in row:
            return None
        excess: dict[str, list[float]] = {}
        for key, value in row.items():
            kind, cost, _ = names.parts(key)
            if kind == names.EXCESS:
                excess.setdefault(cost, []).append(value)
        return row["return"] - self.price * sum(sum(v) / len(v) for v in excess.values())


@dataclass(frozen=True)
class Best:
    """What a search has found."""

    name: str
    """Folder of the run."""
    worth: float
    chosen: Options
    file: Path
    """A preset with all of its options."""


class Study:
    """The trials of a search, in Optuna's hands and in the sweep's folder.

    Args:
        plan: With one run, whose options trials share.
        path: The sweep's folder.
    """

    def __init__(self, plan: Plan, path: Path) -> None:
        self._optuna = _optuna()
        self.search = Search.of(plan.tune)
        if len(plan.runs) != 1:
            raise UsageError(
                f"a search is for one task, method and seed, and the file crosses {len(plan.runs)} "
                "runs; lists of values to choose from go under [tune.search]"
            )
        self._base, self._path = plan.runs[0], path
        self._distributions = {
            name: self._distribution(name, given) for name, given in self.search.space.items()
        }
        self._study: Any = None
        if (path / JOURNAL).is_file():
            self._study = self._open()
            about = self._study.user_attrs.get("about")
            if about != self._about():
                raise UsageError(
                    f"{path} is the folder of another search; choose another --folder, or put "
                    "options and [tune.search] back to what they were"
                )
        self.runs: list[Planned] = [self._run(one) for one in self.trials()]

    def open(self) -> None:
        """Begin to remember trials; the folder must be there."""
        if self._study is None:
            self._study = self._open()
            self._study.set_user_attr("about", self._about())

    def trials(self) -> list[Any]:
        """All there have been."""
        return [] if self._study is None else list(self._study.trials)

    def under_way(self) -> list[Any]:
        """Those that were begun and have not ended."""
        return [one for one in self.trials() if not one.state.is_finished()]

    def ask(self) -> Any:
        """A new trial."""
        return self._study.ask(self._distributions)

    def again(self, trial: Any) -> Any:
        """A trial that goes on, for reports."""
        return self._optuna.trial.Trial(self._study, trial._trial_id)

    def reported(self, trial: Any) -> Mapping[int, float]:
        """What a trial was worth so far, by environment steps."""
        found: Mapping[int, float] = self.trials()[trial.number].intermediate_values
        return found

    def planned(self, trial: Any) -> Planned:
        """The run of a trial."""
        run = self._run(trial)
        if run.name not in {one.name for one in self.runs}:
            self.runs.append(run)
        return run

    def tell(self, trial: Any, done: Done) -> None:
        """Note how a trial ended; one that was stopped has not."""
        state = self._optuna.trial.TrialState
        worth = self.search.worth(last_row(self._path / done.name / METRICS_FILE))
        if done.state == "finished" and worth is not None:
            self._study.tell(trial.number, worth)
        elif done.state in ("pruned", "failed", "finished"):
            ended = state.PRUNED if done.state == "pruned" else state.FAIL
            self._study.tell(trial.number, state=ended)

    def best(self) -> Best | None:
        """The best finished trial, its options written as a preset; None while there is none."""
        ended = [one for one in self.trials() if one.state.name == "COMPLETE"]
        if not ended:
            return None
        found = max(ended, key=lambda one: one.value)
        run = self._run(found)
        head = f"# Trial {found.number} of a search, worth {found.value:.6g}: {run.name}"
        lines = [head, *_preset(run.config)]
        files.replace(self._path / BEST, "\n".join([*lines, ""]).encode())
        return Best(run.name, found.value, self._chosen(found), self._path / BEST)

    def _open(self) -> Any:
        optuna, search = self._optuna, self.search
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        steps = self._base.config.env_steps
        pruner = (
            optuna.pruners.MedianPruner(n_startup_trials=4, n_warmup_steps=steps // 4)
            if search.prune
            else optuna.pruners.NopPruner()
        )
        backend = optuna.storages.journal.JournalFileBackend(str(self._path / JOURNAL))
        return optuna.create_study(
            study_name="ucpo",
            storage=optuna.storages.JournalStorage(backend),
            sampler=optuna.samplers.TPESampler(seed=search.seed),
            pruner=pruner,
            direction="maximize",
            load_if_exists=True,
        )

    def _about(self) -> str:
        return json.dumps([self._base.options, self.search.space, self.search.price], default=str)

    def _run(self, trial: Any) -> Planned:
        options = {**self._base.options, **self._chosen(trial)}
        config = make_config(options)
        return Planned(run_name(config, [f"trial{trial.number}"]), config, options)

    def _chosen(self, trial: Any) -> Options:
        """The values Optuna chose; those of lists are kept as text."""
        lists = {name for name, given in self.search.space.items() if isinstance(given, list)}
        return {
            name: json.loads(value) if name in lists else value
            for name, value in trial.params.items()
        }

    def _distribution(self, name: str, given: Any) -> Any:
        kinds = self._optuna.distributions
        if isinstance(given, list):
            if not given:
                raise UsageError(f"tune.search: {name} is an empty list; give values to try")
            for value in given:
                make_config({**self._base.options, name: value})  # refuses what cannot be
            return kinds.CategoricalDistribution([json.dumps(value) for value in given])
        low, high = given.get("low"), given.get("high")
        whole = isinstance(low, int) and isinstance(high, int)
        try:
            kind = kinds.IntDistribution if whole else kinds.FloatDistribution
            made = kind(low, high, log=bool(given.get("log", False)))
        except (TypeError, ValueError) as error:
            raise UsageError(f"tune.search: {name} needs low and high ({error})") from None
        for value in (low, high):
            make_config({**self._base.options, name: value})
        return made


def run_search(
    study: Study,
    folder: SweepFolder,
    engine: Engine,
    *,
    stopped: Callable[[], bool] = lambda: False,
    told: Callable[[Done], None] = lambda done: None,
    tick: Callable[[], None] = lambda: None,
) -> Best | None:
    """Try what Optuna says until all trials were made; what is best so far."""
    study.open()
    trials: dict[str, Any] = {}

    def jobs() -> Iterator[Job]:
        for old in study.under_way():
            yield job(study.again(old))
        while len(study.trials()) < study.search.trials:
            yield job(study.ask())

    def job(trial: Any) -> Job:
        run = study.planned(trial)
        trials[run.name] = trial
        folder.note(study.runs)
        nothing = dataclasses.replace(Evaluation(), episodes=0)
        return make_jobs((run,), folder.path, folder.mark, nothing)[0]

    looked = 0.0
    for done in engine.do(jobs(), stopped, at_once=engine.room):
        if done is not None:
            study.tell(trials.pop(done.name), done)
            told(done)
        elif time.monotonic() - looked > _LOOK:
            looked = time.monotonic()
            _look(study, folder.path, trials)
        tick()
    return study.best()


def _look(study: Study, folder: Path, trials: Mapping[str, Any]) -> None:
    """Tell Optuna what the logs say, and trials that fall behind to stop."""
    for name, trial in trials.items():
        row = last_row(folder / name / METRICS_FILE)
        worth = study.search.worth(row)
        if worth is None:
            continue
        steps = int(row["env_steps"])
        if steps not in study.reported(trial):
            trial.report(worth, steps)
        if trial.should_prune():
            (folder / name / PRUNED_FILE).write_text("It fell behind other trials.\n")


def _preset(config: RunConfig) -> list[str]:
    """The lines of a preset that makes this configuration.

    All of it is said of the method, since a method's own file overrides what a preset says of all.
    """
    method = f'methods."{config.method}"'
    lines = [f"[{method}]"]
    for line in to_toml(config).splitlines():
        if line.startswith("["):
            lines.append(f"[{method}.{line.removeprefix('[')}")
        elif line.partition(" =")[0] not in _NOT_IN_A_PRESET:
            lines.append(line)
    return lines


def _leaves(table: Any, where: str) -> Iterator[tuple[str, Any]]:
    """Options of nested tables by their dotted names."""
    if not isinstance(table, Mapping):
        raise UsageError("tune.search must be a table of options and their values")
    for key, value in table.items():
        if isinstance(value, list) or (isinstance(value, Mapping) and "low" in value):
            yield where + key, value
        elif isinstance(value, Mapping):
            yield from _leaves(value, f"{where}{key}.")
        else:
            raise UsageError(
                f"tune.search: {where}{key} must be a list of values or {{low = ..., high = ...}}, "
                f"got {value!r}"
            )


def _optuna() -> Any:
    try:
        import optuna
    except ImportError:
        raise UsageError("a search needs the package: pip install 'ucpo[tune]'") from None
    return optuna
