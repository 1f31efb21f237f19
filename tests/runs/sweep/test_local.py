"""Sweeps on this machine: interrupted, killed, with runs that fail, and what `ucpo runs` says."""

import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ucpo import Run, UsageError, train
from ucpo.cli.main import main
from ucpo.runs.status import Status, is_finished, last_row, read_status, time_left
from ucpo.storage import files

QUICK = """
seed = 0
env_steps = 240
log_every = 80
random_steps = 40
num_envs = 4
budget = 5
[networks]
hidden = [16]
quantiles = 8
[replay]
batch = 16
capacity = 600
[ppo]
rollout = 20
minibatch = 40
[evaluate]
episodes = 4
"""
METHODS = 'task = "Courier-v0"\nmethod = ["ucp", "ppo-lag", "sac-lag"]\n'
STEPS = "env_steps = 800\ncheckpoint_steps = 80"
LONG = QUICK.replace("env_steps = 240", STEPS).replace("episodes = 4", "episodes = 0")
KEPT = ("metrics.csv", "policy.safetensors", "evaluation.parquet")


def write(folder, text):
    file = folder / "some.toml"
    file.write_text(text)
    return file


def sweep(file, folder, *more):
    main(["sweep", str(file), "--folder", str(folder), *more])


def start(file, folder, *more):
    """The command in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "ucpo", "sweep", str(file), "--folder", str(folder), *more],
        stderr=subprocess.PIPE,
        text=True,
    )


def runs_in(folder):
    return sorted(path.parent for path in folder.rglob("config.toml"))


def contents(folder):
    """What every run left, by name, but for what depends on the clock."""
    return {
        (run.relative_to(folder).as_posix(), name): (run / name).read_bytes()
        for run in runs_in(folder)
        for name in KEPT
        if (run / name).is_file()
    }


def wait_for(found, process, seconds=120):
    until = time.monotonic() + seconds
    while not found():
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A sweep of three methods, one of which fails on one of its devices."""
    folder = tmp_path_factory.mktemp("whole")
    device = 'device = ["cpu", "cuda:77"]\n'
    file = write(folder, device + METHODS + QUICK)
    with pytest.raises(SystemExit) as stop:
        sweep(file, folder / "sweep")
    assert stop.value.code == 2
    return folder


def test_a_run_that_fails_is_reported_and_the_others_go_on(whole, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    main(["runs", str(whole / "sweep")])
    said = capsys.readouterr().out
    assert "3 finished, 3 failed" in said or "3 failed, 3 finished" in said
    assert said.count("there is no device cuda:77 on this machine") == 3
    assert (whole / "sweep" / "report" / "report.html").is_file()
    for run in runs_in(whole / "sweep"):
        assert read_status(run, "").state == "finished"


def test_each_run_is_the_one_a_training_alone_would_be(whole, tmp_path):
    options = {
        "env_steps": 240,
        "log_every": 80,
        "random_steps": 40,
        "num_envs": 4,
        "budget": 5,
        "networks": {"hidden": [16], "quantiles": 8},
        "replay": {"batch": 16, "capacity": 600},
        "ppo": {"rollout": 20, "minibatch": 40},
    }
    for method in ("ucp", "ppo-lag", "sac-lag"):
        train("Courier-v0", method=method, run=tmp_path / method, show=False, **options)
        made = whole / "sweep" / "Courier-v0" / f"{method}-5-device=cpu-seed0"
        for name in ("metrics.csv", "policy.safetensors"):
            assert (made / name).read_bytes() == (tmp_path / method / name).read_bytes()


def test_what_is_finished_is_not_run_again_and_what_failed_is_tried_again(whole, capsys):
    before = {path: path.stat().st_mtime_ns for path in (whole / "sweep").rglob("policy.*")}
    with pytest.raises(SystemExit):
        sweep(whole / "some.toml", whole / "sweep")
    said = capsys.readouterr().err
    assert said.count("failed: ") == 3
    assert "finished: " not in said
    assert "some.toml" not in said
    assert before == {path: path.stat().st_mtime_ns for path in before}


def test_the_folder_of_another_sweep_is_refused(whole, tmp_path, capsys):
    for text, answer in (
        (METHODS + QUICK, "which this file does not ask for"),
        (
            'device = ["cpu", "cuda:77"]\n' + METHODS + QUICK.replace("240", "280"),
            "was begun with env_steps = 240 (now 280)",
        ),
    ):
        with pytest.raises(SystemExit):
            sweep(write(tmp_path, text), whole / "sweep")
        assert answer in capsys.readouterr().err
    with pytest.raises(SystemExit):
        sweep(write(tmp_path, METHODS + QUICK), tmp_path)
    assert "holds something else than a sweep" in capsys.readouterr().err


def test_ctrl_c_leaves_everything_resumable_and_a_second_sweep_is_kept_out(tmp_path, capsys):
    file, folder = write(tmp_path, METHODS + LONG.replace("800", "400000")), tmp_path / "sweep"
    process = start(file, folder)
    wait_for(lambda: len(list(folder.rglob("metrics.csv"))) == 2, process)
    with pytest.raises(SystemExit):
        sweep(file, folder)
    assert "in use by another process" in capsys.readouterr().err
    states = {run.name: read_status(run, "").state for run in runs_in(folder)}
    assert set(states.values()) == {"running"}
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "the same command goes on" in said
    for run in runs_in(folder):
        assert read_status(run, "").state == "stopped"
        assert list(run.glob("checkpoint/manifest-*"))


def workers(folder):
    """Processes at work in the folders of a sweep."""
    for lock in folder.rglob("*-seed*/run.lock"):
        found = re.match(r"process (\d+) on", lock.read_text())
        if found:
            yield int(found[1])


def torture(tmp_path, text, kills, chance):
    """Kill a sweep at random moments, with and without its workers, then let it finish."""
    file, folder = write(tmp_path, text), tmp_path / "killed"
    for _ in range(kills):
        process = start(file, folder)
        began = len(list(folder.rglob("manifest-*")))
        wait_for(lambda began=began: len(list(folder.rglob("manifest-*"))) > began, process)
        time.sleep(chance.uniform(0.0, 0.5))
        process.kill()
        process.wait()
        process.stderr.close()
        if chance.random() < 0.6:
            for pid in workers(folder):
                os.kill(pid, signal.SIGKILL)
    process = start(file, folder)
    _, said = process.communicate(timeout=300)
    assert process.returncode == 0, said
    return folder


def compare(tmp_path, text, kills):
    torture(tmp_path, text, kills, random.Random(kills))
    sweep(write(tmp_path, text), tmp_path / "whole")
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")


def test_a_sweep_that_was_killed_ends_as_if_it_never_was(tmp_path):
    compare(tmp_path, 'task = "Courier-v0"\nmethod = ["ucp", "ppo-lag"]\n' + LONG, kills=1)


@pytest.mark.slow
def test_a_sweep_survives_three_kills(tmp_path):
    text = 'task = ["Courier-v0", "SafetyPointGoal1-v0"]\n' + METHODS.partition("\n")[2] + LONG
    compare(tmp_path, text.replace("episodes = 0", "episodes = 4"), kills=3)


@pytest.mark.slow
def test_a_process_that_is_killed_is_replaced(tmp_path):
    file, folder = write(tmp_path, 'task = "Courier-v0"\n' + LONG), tmp_path / "sweep"
    process = start(file, folder)
    wait_for(lambda: list(folder.rglob("manifest-*")), process)
    for pid in workers(folder):
        os.kill(pid, signal.SIGKILL)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 0, said
    assert "1 finished" in said


@pytest.mark.slow
def test_a_full_disk_is_told_and_waited_for(tmp_path):
    disk = tmp_path / "small"
    disk.mkdir()
    mounting = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(disk)]
    if subprocess.run(mounting, check=False, capture_output=True).returncode:
        pytest.skip("no right to mount a file system here")
    try:
        file = write(tmp_path, 'task = "Courier-v0"\n' + LONG)
        process = start(file, disk / "sweep")
        wait_for(lambda: list(disk.rglob("manifest-*")), process)
        ballast = disk / "ballast"
        with ballast.open("wb", buffering=0) as stream:
            while True:
                try:
                    stream.write(b"?" * 4096)
                except OSError:
                    break
        said = process.stderr.readline()
        while "the disk is full" not in said:
            said = process.stderr.readline()
            assert process.poll() is None
        assert "Courier-v0/ucp-5-seed0 on" in said
        ballast.unlink()
        _, rest = process.communicate(timeout=120)
        assert process.returncode == 0, rest
        assert "there is room on the disk again" in rest
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


def test_a_run_that_has_not_begun_is_waiting_and_one_that_runs_says_where(tmp_path, capsys):
    run = tmp_path / "run"
    train("Courier-v0", env_steps=40, run=run, show=False)
    lock = files.Lock(run)
    status = read_status(run, "run")
    assert status.state == "evaluating"
    assert f"process {os.getpid()}" in status.said
    lock.release()
    assert read_status(run, "run").state == "finished"
    assert read_status(tmp_path / "nowhere", "nowhere", {"env_steps": 9}).state == "waiting"
    with pytest.raises(SystemExit):
        main(["runs", str(tmp_path / "nowhere")])
    assert "there is no folder" in capsys.readouterr().err
    Path(tmp_path / "empty").mkdir()
    with pytest.raises(SystemExit):
        main(["runs", str(tmp_path / "empty")])
    assert "no runs in" in capsys.readouterr().err


def test_the_time_left_is_told_from_speeds_of_like_runs():
    def run(method, state, **more):
        return Status("", "T", method, 0, state, goal=1000, **more)

    runs = [
        run("ucp", "running", env_steps=500, speed=10.0),
        run("ppo", "finished", env_steps=1000, speed=100.0),
        run("ucp", "waiting"),
        run("ppo", "stopped", env_steps=500),
        run("sac", "waiting"),
    ]
    # 50 s, then 100 s as fast as ucp, 5 s as fast as ppo, and 1000 steps at the mean of both.
    assert time_left(runs) == pytest.approx(50.0 + 100.0 + 5.0 + 1000.0 / 55.0)
    assert runs[0].seconds_left == 50.0
    assert time_left(runs[1:]) is None


def test_the_last_whole_row_of_a_log_is_read_while_another_is_written(tmp_path):
    file = tmp_path / "metrics.csv"
    assert last_row(file) == {}
    file.write_text("env_steps,return,cost/c\n")
    assert last_row(file) == {}
    file.write_text("env_steps,return,cost/c\n10,,2.5\n20,1.5,3")
    assert last_row(file) == {"env_steps": 10.0, "cost/c": 2.5}
    row = ",".join(["1"] * 3)
    file.write_text("env_steps,return,cost/c\n" + f"{row}\n" * 40_000 + "7,8,9\n")
    assert last_row(file) == {"env_steps": 7.0, "return": 8.0, "cost/c": 9.0}


def test_a_run_killed_between_its_checkpoint_and_its_policy_gets_the_policy(tmp_path):
    run = tmp_path / "run"
    train("Courier-v0", env_steps=80, checkpoint_steps=40, run=run, show=False)
    whole = (run / "policy.safetensors").read_bytes()
    (run / "policy.safetensors").unlink()
    assert not is_finished(run)
    Run.resume(run).learn(show=False)
    assert (run / "policy.safetensors").read_bytes() == whole
    assert is_finished(run)
    with pytest.raises(UsageError, match="is finished"):
        Run.resume(run)
