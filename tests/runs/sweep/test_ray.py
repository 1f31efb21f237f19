"""Sweeps on Ray: the same runs as on this machine alone, whatever happens to nodes."""

import os
import signal
import time

import pytest

from tests.runs.sweep.test_local import LONG, QUICK, contents, start, sweep, wait_for, write
from ucpo import UsageError
from ucpo.cli.main import main
from ucpo.runs.status import read_status
from ucpo.runs.sweep.on_ray import OnRay

ray = pytest.importorskip("ray", reason="ray is not installed: pip install 'ucpo[ray]'")
pytestmark = pytest.mark.filterwarnings("default")  # of Ray's own


@pytest.fixture
def cluster(monkeypatch):
    """Three nodes with a core each, on this machine."""
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    # A lost node is noticed in seconds instead of half a minute.
    quick = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 500}
    made = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 1, "include_dashboard": False, "_system_config": quick},
    )
    made.nodes = [made.add_node(num_cpus=1) for _ in range(2)]
    made.wait_for_nodes()
    monkeypatch.setenv("RAY_ADDRESS", made.address)
    yield made
    made.shutdown()


def test_runs_on_ray_are_bit_for_bit_those_of_this_machine(tmp_path, monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    text = 'task = "Courier-v0"\nmethod = ["ucp", "ppo-lag"]\n' + QUICK
    file = write(tmp_path, text.replace("episodes = 4", "episodes = 0"))
    process = start(file, tmp_path / "ray", "--on", "ray")
    _, said = process.communicate(timeout=300)
    assert process.returncode == 0, said
    assert "on a Ray cluster of 1 node" in said
    sweep(file, tmp_path / "local")
    made = contents(tmp_path / "ray")
    assert len(made) == 4
    assert made == contents(tmp_path / "local")


@pytest.mark.slow
def test_a_node_killed_in_the_middle_changes_nothing(cluster, tmp_path):
    text = 'task = ["Courier-v0", "TwoActions-v0"]\nmethod = ["ucp", "ppo-lag", "sac-lag"]\n'
    text += LONG.replace("seed = 0", "seed = [0, 1]").replace("episodes = 0", "episodes = 4")
    file, folder = write(tmp_path, text), tmp_path / "ray"
    process = start(file, folder, "--on", "ray")
    wait_for(lambda: len(list(folder.rglob("manifest-*"))) > 6, process, seconds=300)
    cluster.remove_node(cluster.nodes[0], allow_graceful=False)
    assert not list(folder.rglob("report.html")), "it was over before the node was killed"
    _, said = process.communicate(timeout=900)
    assert process.returncode == 0, said
    assert "a Ray cluster of 3 nodes" in said
    assert "12 finished" in said
    sweep(file, tmp_path / "local")
    made = contents(folder)
    assert len(made) == 36
    assert made == contents(tmp_path / "local")


@pytest.mark.slow
def test_ctrl_c_leaves_what_ray_was_doing_resumable(cluster, tmp_path):
    text = 'task = "Courier-v0"\nmethod = ["ucp", "ppo-lag"]\n' + LONG.replace("800", "400000")
    file, folder = write(tmp_path, text), tmp_path / "ray"
    process = start(file, folder, "--on", "ray")
    wait_for(lambda: len(list(folder.rglob("metrics.csv"))) == 2, process, seconds=300)
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 130, said
    runs = [path.parent for path in folder.rglob("config.toml")]
    assert [read_status(run, "").state for run in runs] == ["stopped", "stopped"]
    assert all(list(run.glob("checkpoint/manifest-*")) for run in runs)


def test_a_cluster_that_cannot_be_reached_is_told_in_a_sentence(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    with pytest.raises(SystemExit):
        main(["sweep", str(write(tmp_path, 'task = "Courier-v0"' + QUICK)), "--on", "ray"])
    said = capsys.readouterr().err
    assert "nobody answers at the Ray cluster's address 127.0.0.1:1" in said
    assert "Connection refused" in said


@pytest.mark.parametrize(
    ("settings", "answer"),
    [
        ({"cpu": 2}, "no option ray.cpu; did you mean 'cpus'?"),
        ({"cpus": "two"}, "ray.cpus must be a float of at least 0, got 'two'"),
    ],
)
def test_what_cannot_be_asked_of_ray_is_told(settings, answer):
    with pytest.raises(UsageError) as error:
        OnRay(settings)
    assert str(error.value) == answer


def test_a_machine_that_does_not_share_the_folder_says_so(tmp_path):
    from ucpo.runs.sweep.job import make_jobs
    from ucpo.runs.sweep.plan import make_plan

    plan = make_plan({"task": "Courier-v0"})
    (job,) = make_jobs(plan.runs, tmp_path / "elsewhere", "mark", plan.evaluation)
    done = job()
    assert done.state == "failed"
    assert f"{os.uname().nodename} does not see the sweep's folder" in done.why
    assert not (tmp_path / "elsewhere").exists()
