"""Runs that go on as if nothing had happened."""

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from tests.envs.test_adapters import Thermostat
from ucpo import UCP, UsageError, load
from ucpo.cli.main import main
from ucpo.runs.checkpoints import checkpoints
from ucpo.storage import files

SMALL = {
    "random_steps": 200,
    "log_every": 160,
    "num_envs": 4,
    "networks": {"hidden": [16], "quantiles": 8},
    "replay": {"batch": 16, "capacity": 600, "n_step": 3},  # wraps around in every test
    "multiplier": {"start": 0},
}
COURIER = {**SMALL, "env_steps": 1600}


def contents(run):
    """Everything that must not depend on interruptions: metrics, policy, the last checkpoint."""
    last = next(checkpoints(run))
    state = last.state()
    agent = UCP.resume(run, env_steps=10**9)
    rows = agent.learner.replay.rows(
        agent.learner.replay.rows_written - agent.learner.replay.rows_kept,
        agent.learner.replay.rows_written,
    )
    agent.folder.close()
    return {
        "metrics.csv": (run / "metrics.csv").read_bytes(),
        "policy": (run / "policy.safetensors").read_bytes(),
        **{f"state {key}": value.tobytes() for key, value in state.items()},
        **{f"rows {key}": value.tobytes() for key, value in rows.items()},
    }


def assert_same(run, other):
    one, two = contents(run), contents(other)
    assert one.keys() == two.keys()
    assert [key for key in one if one[key] != two[key]] == []


def stop_after(agent, env_steps):
    """End a training as Ctrl-C would, once it has made so many steps."""

    def interrupt():
        while agent.learner.env_steps < env_steps:
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    return thread


VARIANTS = {
    "plain": {},
    "held": {"hold": 3},
    "short": {"precision": "bf16", "networks": {"hidden": [33, 32], "quantiles": 8}},
    "tuned": {
        "entropy": {"weight": 0.1, "rate": 1e-3},
        "multiplier": {"start": 0, "kind": "softplus", "rate": 1e-2},
        "actor": {"every": 100},  # metrics of the actor outlive a stop
    },
    "falling": {
        "networks": {"hidden": [8], "quantiles": 8, "normalise": True},
        "critic": {"final_rate": 1e-5},
        "decay_steps": 1600,
    },
    "stock": {"method": "ucp-ds", "gamma": 0.99, "networks": {"hidden": [8], "stock_features": 4}},
}


@pytest.mark.parametrize("name", VARIANTS)
def test_a_run_stopped_and_resumed_is_the_run_that_was_not(name, tmp_path):
    options = {**COURIER, **VARIANTS[name]}
    UCP("Courier-v0", **options).learn(run=tmp_path / "whole", show=False)
    agent = UCP("Courier-v0", **options)
    for stop in (100, 700, 1300):  # while acting randomly, and twice while learning
        thread = stop_after(agent, stop)
        agent.learn(run=None if agent.folder else tmp_path / "parts", show=False)
        thread.join()
        assert agent.interrupted is signal.SIGINT
        assert agent.learner.env_steps < 1600
        agent = UCP.resume(tmp_path / "parts")
    agent.learn(show=False)
    assert_same(tmp_path / "whole", tmp_path / "parts")


def test_checkpoints_change_nothing(tmp_path):
    for name, options in (("none", {}), ("many", {"checkpoint_steps": 40})):
        UCP("Courier-v0", **COURIER, **options).learn(run=tmp_path / name, show=False)
    one, two = contents(tmp_path / "none"), contents(tmp_path / "many")
    del one["state config"], two["state config"]
    assert one == two


def test_a_checkpoint_is_taken_by_the_clock(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("ucpo.runs.checkpoints.time.monotonic", lambda: now[0])
    agent = UCP("Courier-v0", checkpoint_every=5.0, **COURIER)
    original, seen = agent.task.advance, []

    def advance(actions):
        now[0] += 1.0  # a second per iteration of 4 steps
        seen.append(sorted(p.name for p in (tmp_path / "run").glob("checkpoint/manifest-*")))
        return original(actions)

    agent.task.advance = advance
    agent.learn(run=tmp_path / "run", show=False)
    assert seen[299] == []
    assert seen[301] == ["manifest-000001.json"]


def test_at_most_two_checkpoints_are_kept_and_nothing_else(tmp_path):
    run = tmp_path / "run"
    UCP("Courier-v0", checkpoint_steps=160, **COURIER).learn(run=run, show=False)
    needed = set().union(*(checkpoint.names() for checkpoint in checkpoints(run)))
    found = [path for path in (run / "checkpoint").rglob("*") if path.is_file()]
    assert {path.name for path in found} == needed
    assert len([name for name in needed if name.startswith("manifest")]) == 2


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """A run with two checkpoints, and the run it should become."""
    folder = tmp_path_factory.mktemp("stopped")
    options = {**COURIER, "checkpoint_steps": 400}
    UCP("Courier-v0", **options).learn(run=folder / "whole", show=False)
    agent = UCP("Courier-v0", **options)
    original = agent.learner.remember

    def remember(*args):
        original(*args)
        if agent.learner.env_steps == 1240:
            os.kill(os.getpid(), signal.SIGTERM)

    agent.learner.remember = remember
    agent.learn(run=folder / "run", show=False)
    assert agent.interrupted is signal.SIGTERM
    return folder


def copy(stopped, tmp_path):
    return Path(shutil.copytree(stopped / "run", tmp_path / "run"))


def files_of(run, kind):
    return sorted((run / "checkpoint").glob(f"{kind}-*"))


@pytest.mark.parametrize("kind", ["manifest", "state", "rows"])
@pytest.mark.parametrize("damage", ["cut", "flipped", "gone"])
def test_a_damaged_checkpoint_is_noticed_and_the_one_before_used(
    kind, damage, stopped, tmp_path, caplog
):
    run = copy(stopped, tmp_path)
    path = files_of(run, kind)[-1]
    data = path.read_bytes()
    if damage == "cut":
        path.write_bytes(data[: len(data) // 2])
    elif damage == "flipped":
        middle = len(data) // 2
        path.write_bytes(data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :])
    else:
        path.unlink()
    agent = UCP.resume(run)
    assert agent.learner.env_steps == 1200
    unseen = (kind, damage) == ("manifest", "gone")
    assert unseen or "trying the checkpoint before" in caplog.text
    agent.learn(show=False)
    assert_same(stopped / "whole", run)


def test_a_damaged_segment_of_the_replay_is_replaced_by_its_copy(stopped, tmp_path, caplog):
    run = copy(stopped, tmp_path)
    name = files_of(run, "mirror/rows")[-1].name
    whole = (run / "checkpoint" / name).read_bytes()
    (run / "checkpoint" / name).write_bytes(whole[:-1] + b"?")
    agent = UCP.resume(run)
    assert agent.learner.env_steps == 1240
    assert "replaced by its copy" in caplog.text
    assert (run / "checkpoint" / name).read_bytes() == whole
    agent.learn(show=False)
    assert_same(stopped / "whole", run)


def test_with_no_whole_checkpoint_the_run_says_so(stopped, tmp_path):
    run = copy(stopped, tmp_path)
    for path in files_of(run, "state"):
        path.write_bytes(b"")
    with pytest.raises(UsageError, match=r"no checkpoint in .* is whole"):
        UCP.resume(run)


def test_a_finished_run_says_so_and_can_be_extended(stopped, tmp_path):
    run = copy(stopped, tmp_path)
    UCP.resume(run).learn(show=False)
    with pytest.raises(UsageError, match=r"is finished.*--env-steps 3200"):
        UCP.resume(run)
    agent = UCP.resume(run, env_steps=2000).learn(show=False)
    assert agent.learner.env_steps == 2000
    with (run / "metrics.csv").open() as file:
        assert [int(row["env_steps"]) for row in csv.DictReader(file)][-3:] == [1760, 1920, 2000]
    with pytest.raises(UsageError, match="made 2,000 of 2,000 environment steps"):
        UCP.resume(run)


def test_rows_and_events_after_the_checkpoint_are_forgotten(stopped, tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = copy(stopped, tmp_path)
    for path in files_of(run, "manifest")[1:]:
        path.unlink()
    UCP.resume(run).learn(show=False)
    assert_same(stopped / "whole", run)
    read = EventAccumulator(str(run)).Reload()
    with (run / "metrics.csv").open() as file:
        expected = [(int(row["env_steps"]), float(row["return"])) for row in csv.DictReader(file)]
    seen = [(event.step, event.value) for event in read.Scalars("return")]
    assert [step for step, _ in seen] == [step for step, _ in expected]
    np.testing.assert_allclose([v for _, v in seen], [v for _, v in expected], rtol=1e-6)


def test_a_changed_configuration_is_noticed(stopped, tmp_path, caplog):
    run = copy(stopped, tmp_path)
    text = (run / "config.toml").read_text()
    (run / "config.toml").write_text(text.replace("seed = 0", "seed = 7"))
    UCP.resume(run).learn(show=False)
    assert "config.toml was changed" in caplog.text
    assert_same(stopped / "whole", run)


def test_two_processes_cannot_use_one_run(stopped, tmp_path):
    run = copy(stopped, tmp_path)
    agent = UCP.resume(run)
    code = f"from ucpo import UCP; UCP.resume({str(run)!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert f"in use by another process (process {os.getpid()} on" in done.stderr
    agent.learn(show=False)
    assert not (run / "run.lock").exists()


def test_a_lock_left_by_a_dead_process_locks_nothing(stopped, tmp_path):
    run = copy(stopped, tmp_path)
    (run / "run.lock").write_text("process 1 on elsewhere, since yesterday")
    assert UCP.resume(run).learn(show=False).learner.env_steps == 1600


def test_foreign_environments_begin_new_episodes_and_the_log_says_so(tmp_path):
    run = tmp_path / "run"
    agent = UCP(Thermostat, budget_range="0:9", **COURIER)
    thread = stop_after(agent, 800)
    agent.learn(run=run, show=False)
    thread.join()
    made = agent.learner.env_steps
    agent = UCP.resume(run, task=Thermostat)
    replay = agent.learner.memory
    agent.training.begin()  # new episodes: the old ones end with what was remembered
    assert replay.rows(replay.rows_written - 1, replay.rows_written)["ended"].all()
    agent.learn(show=False)
    assert made < agent.learner.env_steps == 1600
    assert "Thermostat cannot be saved in mid-episode" in (run / "log.txt").read_text()


def test_a_run_that_broke_off_before_its_first_checkpoint_begins_anew(stopped, tmp_path):
    run = copy(stopped, tmp_path)
    for path in files_of(run, "manifest"):
        path.unlink()
    (run / "policy.safetensors").unlink()
    UCP.resume(run).learn(show=False)
    assert_same(stopped / "whole", run)


def test_a_finished_run_without_checkpoints_is_not_begun_anew(stopped, tmp_path):
    run = copy(stopped, tmp_path)
    shutil.rmtree(run / "checkpoint")
    before = (run / "policy.safetensors").read_bytes()
    with pytest.raises(UsageError, match="no checkpoint to go on from"):
        UCP.resume(run)
    assert (run / "policy.safetensors").read_bytes() == before
    assert not (run / "run.lock").exists()


def test_no_checkpoint_leads_out_of_its_folder(stopped, tmp_path):
    run = copy(stopped, tmp_path)
    secret = run / "state-000001.safetensors"
    for path in files_of(run, "manifest"):
        about = json.loads(json.loads(path.read_text())["checkpoint"])
        (run / "checkpoint" / about["state_part"]["name"]).replace(secret)
        about["state_part"]["name"] = f"../{secret.name}"
        text = json.dumps(about)
        outer = {"sha256": files.digest(text.encode()), "checkpoint": text}
        path.write_text(json.dumps(outer))
    with pytest.raises(UsageError, match="is whole"):
        UCP.resume(run)


def test_a_checkpoint_of_another_version_is_told_apart_from_a_damaged_one(stopped, tmp_path):
    run = copy(stopped, tmp_path)
    path = files_of(run, "manifest")[-1]
    about = {**json.loads(json.loads(path.read_text())["checkpoint"]), "format": 2}
    text = json.dumps(about)
    path.write_text(json.dumps({"sha256": files.digest(text.encode()), "checkpoint": text}))
    with pytest.raises(UsageError, match="another version of ucpo"):
        UCP.resume(run)


QUICK = ["--random-steps", "400", "--networks.hidden", "16", "--log-every", "400"]


def test_sigterm_leaves_a_checkpoint_and_a_code_of_its_own(tmp_path):
    run = tmp_path / "run"
    command = ["train", "Courier-v0", "--run", str(run), "--env-steps", "100000000", *QUICK]
    process = subprocess.Popen(
        [sys.executable, "-c", "from ucpo.cli.main import main; main()", *command],
        stderr=subprocess.PIPE,
        text=True,
    )
    while not (run / "metrics.csv").is_file():
        time.sleep(0.05)
        assert process.poll() is None
    process.terminate()
    _, said = process.communicate(timeout=60)
    assert process.returncode == 75
    assert f"ucpo resume {run}" in said
    assert next(checkpoints(run)).env_steps == load(run).info.env_steps > 0


def test_an_existing_run_is_refused_and_resume_named(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    main(["train", "Courier-v0", "--run", "here", "--env-steps", "800", *QUICK])
    for command, answer in (
        (["train", "Courier-v0", "--run", "here"], "ucpo resume here"),
        (["resume", "here"], "is finished"),
        (["resume", "nowhere"], "there is no run in nowhere"),
    ):
        with pytest.raises(SystemExit) as stop:
            main(command)
        assert stop.value.code == 2
        assert answer in " ".join(capsys.readouterr().err.split())
    main(["resume", "here", "--env-steps", "1200"])
    assert load("here").info.env_steps == 1200
