"""What configurations are made into."""

import pytest

from ucpo.config.assembly import make_task
from ucpo.config.files import resolve
from ucpo.envs import threads as sharing


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_above_one_share_the_physics_at_once(monkeypatch, threads):
    """With one, the task finds out by itself whether sharing pays."""
    monkeypatch.setattr(sharing, "processors", lambda: 2)
    config = resolve("SafetyPointGoal1-v0", threads=threads, num_envs=4)
    shares = make_task(config.task, config).world._shares
    assert len(shares._helpers) == 1
    assert (shares._trials > 0) == (threads == 1)
    shares.close()
