"""Searches: Optuna's choices tried, pruned by the log, and gone on with."""

import signal
import sys
import threading
import time
from dataclasses import replace

import pytest

from tests.runs.sweep.test_local import LONG, QUICK, runs_in, start, sweep, wait_for, write
from ucpo import UsageError
from ucpo.cli.main import main
from ucpo.config.files import read_config, resolve
from ucpo.runs.status import last_row, read_status
from ucpo.runs.sweep import tuning
from ucpo.runs.sweep.job import Done, make_jobs
from ucpo.runs.sweep.plan import make_plan
from ucpo.runs.sweep.sweep import SweepFolder
from ucpo.runs.sweep.tuning import Search, Study

optuna = pytest.importorskip("optuna", reason="optuna is not installed: pip install 'ucpo[tune]'")
pytestmark = pytest.mark.filterwarnings("default")  # of Optuna's own

SPACE = """
[tune]
trials = 3
[tune.search]
critic.rate = {low = 1e-5, high = 1e-3, log = true}
networks.hidden = [[8], [16, 16]]
"""
COURIER = 'task = "Courier-v0"\n'


def test_a_search_tries_what_optuna_says_and_leaves_the_best_as_a_preset(tmp_path, capsys):
    folder = tmp_path / "search"
    sweep(write(tmp_path, COURIER + QUICK + SPACE), folder, "--tune")
    runs = runs_in(folder)
    assert [run.name for run in runs] == [f"ucp-5-trial{i}-seed0" for i in range(3)]
    configs = [read_config(run / "config.toml") for run in runs]
    assert len({config.critic.rate for config in configs}) == 3
    assert all(1e-5 <= config.critic.rate <= 1e-3 for config in configs)
    assert {config.networks.hidden for config in configs} <= {(8,), (16, 16)}
    search = Search.of(make_plan({"task": "Courier-v0", "tune": {"search": {"gamma": [1]}}}).tune)
    worth = [search.worth(last_row(run / "metrics.csv")) for run in runs]
    best = runs[worth.index(max(worth))]
    assert f"best so far: Courier-v0/{best.name}, worth {max(worth):.4g}" in capsys.readouterr().err
    made = resolve("Courier-v0", preset=str(folder / "best.toml"))
    kept = read_config(best / "config.toml")
    assert replace(made, preset=kept.preset, seed=kept.seed) == kept
    sweep(write(tmp_path, COURIER + QUICK + SPACE), folder, "--tune")  # nothing is left to try
    assert len(runs_in(folder)) == 3
    other = SPACE.replace("[8]", "[4]")
    with pytest.raises(SystemExit):
        sweep(write(tmp_path, COURIER + QUICK + other), folder, "--tune")
    assert "is the folder of another search" in capsys.readouterr().err


def test_the_best_stands_above_what_its_method_says(tmp_path):
    found = resolve("Courier-v0", method="ucp-ppo", multiplier={"rate": 0.123}, hold=3)
    file = tmp_path / "best.toml"
    file.write_text("\n".join(tuning._preset(found)))
    made = resolve("Courier-v0", method="ucp-ppo", preset=str(file))
    assert replace(made, preset="auto") == found


@pytest.mark.slow
def test_a_search_that_was_interrupted_goes_on_with_its_trials(tmp_path):
    file, folder = write(tmp_path, COURIER + LONG + SPACE), tmp_path / "search"
    process = start(file, folder, "--tune", "--workers", "1")
    wait_for(lambda: list(folder.rglob("manifest-*")), process)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    before = read_config(runs_in(folder)[0] / "config.toml")
    sweep(file, folder, "--tune")
    assert len(runs_in(folder)) == 3
    assert read_config(folder / "Courier-v0" / "ucp-5-trial0-seed0" / "config.toml") == before
    assert "goes on at" in (folder / "Courier-v0" / "ucp-5-trial0-seed0" / "log.txt").read_text()


def test_what_a_trial_is_worth_is_its_return_less_the_priced_excess():
    search = Search(trials=1, price=2.0, prune=True, seed=0, space={})
    row = {"return": 10.0, "excess/fines/0-5": 1.0, "excess/fines/5-9": 3.0, "excess/hits/4": 0.5}
    assert search.worth(row) == 10.0 - 2.0 * (2.0 + 0.5)
    assert search.worth({"env_steps": 5}) is None


class Logs:
    """An engine whose runs have logs and nothing else; the sixth learns nothing."""

    where, room = "nowhere", 1

    def __init__(self):
        self.pruned = []

    def do(self, jobs, stopped, at_once=None):
        for number, job in enumerate(jobs):
            job.folder.mkdir(parents=True)
            for row in range(1, 5):
                worth = row + number if number < 5 else -100.0
                text = f"env_steps,return\n{row * 60},{worth}\n"
                (job.folder / "metrics.csv").write_text(text)
                yield None
            self.pruned.append((job.folder / "pruned.txt").is_file())
            yield Done(job.name, "pruned" if self.pruned[-1] else "finished")

    def close(self):
        """Nothing is held."""


def test_a_trial_that_falls_behind_is_told_to_stop(tmp_path, monkeypatch):
    monkeypatch.setattr(tuning, "_LOOK", 0.0)
    table = {"task": "Courier-v0", "env_steps": 240}
    table["tune"] = {"trials": 6, "search": {"gamma": {"low": 0.9, "high": 0.99}}}
    study, engine = Study(make_plan(table), tmp_path / "search"), Logs()
    place = SweepFolder(tmp_path / "search", study.runs)
    best = tuning.run_search(study, place, engine)
    place.close()
    assert engine.pruned == [False] * 5 + [True]
    assert best.worth == 4.0 + 4.0
    assert [one.state.name for one in study.trials()] == ["COMPLETE"] * 5 + ["PRUNED"]


def test_a_run_that_is_told_to_stop_does_so_with_a_checkpoint(tmp_path):
    table = {"task": "Courier-v0", "env_steps": 10**7, "random_steps": 40, "log_every": 40}
    plan = make_plan({**table, "num_envs": 4, "networks": {"hidden": [8]}})
    place = SweepFolder(tmp_path, plan.runs)
    (job,) = make_jobs(plan.runs, tmp_path, place.mark, plan.evaluation)

    def prune():
        while not (job.folder / "metrics.csv").is_file():
            time.sleep(0.01)
        (job.folder / "pruned.txt").write_text("")

    thread = threading.Thread(target=prune)
    thread.start()
    assert job().state == "pruned"
    thread.join()
    place.close()
    assert read_status(job.folder, "").state == "pruned"
    assert list(job.folder.glob("checkpoint/manifest-*"))


@pytest.mark.parametrize(
    ("tune", "answer"),
    [
        ({}, "nothing to search for"),
        ({"trial": 3}, "no option tune.trial; did you mean 'trials'?"),
        ({"trials": 0, "search": {"gamma": [1]}}, "tune.trials must be at least 1, got 0"),
        ({"search": {"gamma": 3}}, "must be a list of values or {low"),
        ({"search": {"gamma": []}}, "gamma is an empty list"),
        ({"search": {"gamma": {"low": 1e-3, "high": 1e-5}}}, "gamma needs low and high"),
        ({"search": {"gama": [1]}}, "no option 'gama'"),
        ({"search": {"critic": {"rate": [-1.0]}}}, "critic.rate must be above 0"),
    ],
)
def test_what_cannot_be_searched_for_is_told(tune, answer, tmp_path):
    with pytest.raises(UsageError) as error:
        Study(make_plan({"task": "Courier-v0", "tune": tune}), tmp_path)
    assert answer in str(error.value)


def test_a_search_crosses_nothing(tmp_path):
    table = {"task": "Courier-v0", "seed": [0, 1], "tune": {"search": {"gamma": [0.9]}}}
    with pytest.raises(UsageError, match="crosses 2 runs"):
        Study(make_plan(table), tmp_path)


@pytest.mark.parametrize(
    ("package", "more", "extra"),
    [
        ("optuna", ["--tune"], "ucpo[tune]"),
        ("ray", ["--on", "ray"], "ucpo[ray]"),
        ("submitit", ["--on", "slurm"], "ucpo[slurm]"),
    ],
)
def test_a_package_that_is_missing_is_named(package, more, extra, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    file = write(tmp_path, COURIER + QUICK + SPACE)
    with pytest.raises(SystemExit):
        main(["sweep", str(file), "--folder", str(tmp_path / "sweep"), *more])
    assert f"pip install '{extra}'" in capsys.readouterr().err
