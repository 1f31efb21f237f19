"""Sweeps through submitit: its local and debug executors, and the script Slurm is given."""

import os
import re
import signal
from pathlib import Path

import pytest

from tests.runs.sweep.test_local import (
    LONG,
    QUICK,
    contents,
    runs_in,
    start,
    sweep,
    wait_for,
    write,
)
from ucpo import UsageError
from ucpo.runs.status import read_status
from ucpo.runs.sweep.on_slurm import OnSlurm

pytest.importorskip("submitit", reason="submitit is not installed: pip install 'ucpo[slurm]'")
pytestmark = pytest.mark.filterwarnings("default")  # of submitit's own

DOCS = Path(__file__).parents[3] / "docs"
TEXT = 'task = "Courier-v0"\nmethod = ["ppo", "ppo-lag"]\n' + QUICK.replace(
    "episodes = 4", "episodes = 0"
)


def on(cluster):
    return f'\n[slurm]\ncluster = "{cluster}"\n'


def test_submitits_debug_executor_makes_the_runs_of_this_machine(tmp_path):
    sweep(write(tmp_path, TEXT + on("debug")), tmp_path / "debug", "--on", "slurm")
    sweep(write(tmp_path, TEXT), tmp_path / "local")
    made = contents(tmp_path / "debug")
    assert len(made) == 4
    assert made == contents(tmp_path / "local")


@pytest.mark.slow
def test_submitits_local_executor_makes_the_runs_of_this_machine(tmp_path):
    text = TEXT.replace('"ppo-lag"', '"ppo-lag", "ucp"')
    sweep(write(tmp_path, text + on("local")), tmp_path / "submitit", "--on", "slurm")
    sweep(write(tmp_path, text), tmp_path / "local")
    assert contents(tmp_path / "submitit") == contents(tmp_path / "local")
    assert list((tmp_path / "submitit" / "slurm").glob("*_log.err"))


@pytest.mark.slow
def test_ctrl_c_leaves_what_submitit_was_doing_resumable(tmp_path):
    text = 'task = "Courier-v0"\nmethod = ["ucp", "ppo-lag"]\n' + LONG.replace("800", "400000")
    file, folder = write(tmp_path, text + on("local")), tmp_path / "sweep"
    process = start(file, folder, "--on", "slurm")
    wait_for(lambda: len(list(folder.rglob("manifest-*"))) > 3, process, seconds=300)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=200)
    assert process.returncode == 130, said
    assert {read_status(run, "").state for run in runs_in(folder)} == {"stopped"}


def script(folder, monkeypatch, settings):
    """What would be submitted: sbatch here only says a number, as Slurm's does."""
    programs = folder / "bin"
    programs.mkdir()
    for name in ("srun", "sbatch"):
        (programs / name).write_text("#!/bin/sh\necho Submitted batch job 4711\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)
    engine = OnSlurm(settings, folder / "sweep", workers=50)
    with engine._executor.batch():
        for _ in range(330):
            engine._executor.submit(print)
    file = folder / "sweep" / "slurm" / "4711_submission.sh"
    text = file.read_text().replace(str(folder / "sweep"), "/shared/sweeps/table")
    text = re.sub(r"\S*/python[\d.]*", "/shared/venv/bin/python", text)
    return text.strip()


def test_the_script_in_the_documentation_is_the_one_slurm_is_given(tmp_path, monkeypatch):
    settings = {"partition": "cpu", "timeout_min": 720, "account": "safe-rl"}
    made = script(tmp_path, monkeypatch, settings)
    assert "#SBATCH --array=0-329%50" in made
    assert "#SBATCH --time=720" in made
    assert "#SBATCH --signal=USR2@90" in made
    assert made in (DOCS / "guides" / "sweeps.md").read_text(encoding="utf-8")


def test_a_machine_without_slurm_is_told_in_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UsageError, match=r"there is no srun\. Give the command on a node"):
        OnSlurm({}, tmp_path)


@pytest.mark.parametrize(
    ("settings", "answer"),
    [
        ({"cluster": "debug", "partitoin": "cpu"}, "no option slurm.partitoin; did you mean 'pa"),
        ({"cluster": "slrum"}, "slurm.cluster: no 'slrum'; did you mean 'slurm'?"),
        ({"cluster": "debug", "timeout_min": "1h"}, "timeout_min"),
    ],
)
def test_what_cannot_be_asked_of_slurm_is_told(tmp_path, settings, answer):
    with pytest.raises(UsageError, match=re.escape(answer)):
        OnSlurm(settings, tmp_path)
