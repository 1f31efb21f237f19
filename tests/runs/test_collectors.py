"""One training over several processes: collectors of Ray, and what becomes of one that dies."""

import os
import signal
import threading
import time

import numpy as np
import pytest

from ucpo import Run, UsageError, load, train
from ucpo.learners.rollout import Rollout

ray = pytest.importorskip("ray", reason="ray is not installed: pip install 'ucpo[ray]'")
pytestmark = pytest.mark.filterwarnings("default")  # of Ray's own

OPTIONS = {
    "method": "ppo-lag",
    "budget": 5,
    "env_steps": 460,  # not a whole number of rollouts
    "num_envs": 4,
    "log_every": 80,
    "collectors": 2,
    "networks": {"hidden": [8]},
    "ppo": {"rollout": 20, "minibatch": 40},
}


@pytest.fixture(scope="module", autouse=True)
def cluster():
    """One on this machine, as would be started."""
    before = os.environ.pop("RAY_ADDRESS", None)
    yield
    ray.shutdown()
    if before is not None:
        os.environ["RAY_ADDRESS"] = before


def contents(run):
    return [(run / name).read_bytes() for name in ("metrics.csv", "policy.safetensors")]


@pytest.mark.slow
def test_a_run_is_a_function_of_its_seed_and_its_collectors_also_when_it_is_resumed(tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    train("Courier-v0", run=whole, show=False, **OPTIONS)
    assert load(whole).info.env_steps == 460
    rows = []
    train(
        "Courier-v0",
        run=parts,
        show=False,
        on_log=rows.append,
        stop=lambda: len(rows) >= 2,
        **OPTIONS,
    )
    assert load(parts).info.env_steps == 160  # whole rollouts
    Run.resume(parts).learn(show=False)
    assert contents(parts) == contents(whole)


def test_methods_with_a_memory_refuse_collectors():
    with pytest.raises(UsageError, match="--collectors is for on-policy methods"):
        Run("Courier-v0", method="ucp", num_envs=2, collectors=1)
    with pytest.raises(UsageError, match="collectors must be"):
        Run("Courier-v0", method="ppo", num_envs=2, collectors=3)


@pytest.mark.slow
def test_a_collector_that_dies_is_replaced_and_its_episodes_dropped(tmp_path, caplog):
    run = Run("Courier-v0", **{**OPTIONS, "env_steps": 8000})

    def kill():
        while run.learner.env_steps < 800:
            time.sleep(0.01)
        pid = ray.get(run.task._team[0].__ray_call__.remote(lambda _: os.getpid()))
        os.kill(pid, signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    lengths = []
    run.learn(
        run=tmp_path / "run", show=False, on_episode=lambda done: lengths.extend(done.lengths)
    )
    thread.join()
    assert run.learner.env_steps == 8000
    assert "collector 0 was lost; it is replaced, and its episodes are dropped" in caplog.text
    # Courier's episodes are all of one length but for what the learner sees of them: an episode
    # that went on where another was lost would be longer.
    assert max(lengths) <= run.task.spec.max_episode_steps


def test_what_was_done_before_a_loss_is_cut_there_as_by_a_time_limit():
    rollout = Rollout(4, 3, 1, 1, 1, 10)
    rollout.length, rollout.age[:] = 2, (5, 6, 7)
    rollout.terminated[1, 2] = True
    rollout.forget(np.array([0, 2]))
    assert rollout.truncated[1].tolist() == [True, False, False]
    assert rollout.age.tolist() == [0, 6, 0]
    assert rollout.room == 2
    rollout.length = 0
    rollout.forget(np.array([1]))
    assert rollout.age.tolist() == [0, 0, 0]
    assert not rollout.truncated[0].any()
