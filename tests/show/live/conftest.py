"""A server with a real task, a policy with critics, and a browser where there is one."""

import shutil
import threading
import time
from contextlib import contextmanager

import pytest

from ucpo import UCP
from ucpo.policies.critics import save_critics
from ucpo.show.live.serving import Server, listen
from ucpo.show.live.sources import Source, tell_apart
from ucpo.show.live.stage import Stage
from ucpo.storage.names import CRITICS_FILE, POLICY_FILE

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
needs_browser = pytest.mark.skipif(
    BROWSER is None, reason="no Chromium on this machine (Debian: apt-get install chromium)"
)
ZOO = "zoo:SafetyPointGoal1-v0"


@pytest.fixture(scope="session")
def with_critics(tmp_path_factory):
    """A policy of a navigation task and its critics, as a run writes them; nothing is learned."""
    folder = tmp_path_factory.mktemp("with-critics")
    policy = UCP("SafetyPointGoal1-v0", env_steps=100, num_envs=2).policy()
    policy.save(folder / POLICY_FILE)
    save_critics(policy.critics, policy.info, folder / CRITICS_FILE)
    return folder


@pytest.fixture
def alone(with_critics, tmp_path):
    """The same policy without its critics."""
    shutil.copy(with_critics / POLICY_FILE, tmp_path)
    return tmp_path


@contextmanager
def serving(*given, budgets=(), seed=0):
    """A server of these policies in a thread."""
    sources = [Source(str(each)) for each in given]
    tell_apart(sources)
    server = Server(Stage(sources, budgets, seed), listen("127.0.0.1", 0), "127.0.0.1")
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.server.started and thread.is_alive():
        time.sleep(0.01)
    try:
        yield server
    finally:
        server.server.should_exit = True
        thread.join(20)
        assert not thread.is_alive()


@pytest.fixture
def server(with_critics):
    with serving(with_critics, budgets=[[10.0]]) as made:
        yield made
