"""Sharing policies, with a stand-in for the hub: a folder per repository."""

import inspect
import shutil
import sys
import types
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from ucpo import UCP, load
from ucpo.cli.main import main
from ucpo.errors import UsageError
from ucpo.evaluation import Request, evaluate_run
from ucpo.policies import hub


@pytest.fixture
def shelf(tmp_path, monkeypatch):
    """The hub's repositories, as folders."""
    place = tmp_path / "hub"

    class HfApi:
        def __init__(self, library_name=None):
            pass

        def create_repo(self, repo_id, *, private=None, exist_ok=False):
            (place / repo_id).mkdir(parents=True, exist_ok=exist_ok)
            return f"https://huggingface.co/{repo_id}"

        def upload_folder(self, *, repo_id, folder_path, commit_message=None):
            shutil.copytree(folder_path, place / repo_id, dirs_exist_ok=True)

    def snapshot_download(repo_id, *, revision=None, allow_patterns=None):
        if not (place / repo_id).is_dir():
            raise FileNotFoundError(f"404: no {repo_id}")
        copy = tmp_path / "cache" / repo_id / (revision or "main")
        copy.mkdir(parents=True, exist_ok=True)
        for file in (place / repo_id).iterdir():
            if file.name in allow_patterns:
                shutil.copy(file, copy)
        return str(copy)

    stand_in = types.SimpleNamespace(HfApi=HfApi, snapshot_download=snapshot_download)
    monkeypatch.setitem(sys.modules, "huggingface_hub", stand_in)
    monkeypatch.chdir(tmp_path)
    return place


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    run = tmp_path_factory.mktemp("trained") / "run"
    small = {"hidden": (8,), "quantiles": 4}
    UCP("Courier-v0", networks=small, random_steps=100, num_envs=2).learn(200, run=run, show=False)
    evaluate_run(Request(policy=run, budgets=[0.0, 5.0], episodes=4))
    return run


def test_a_run_is_pushed_with_a_card_and_loaded_as_it_was(shelf, trained, capsys):
    main(["push", str(trained), "me/courier"])
    assert "ucpo evaluate hf:me/courier" in capsys.readouterr().err
    kept = {file.name for file in (shelf / "me/courier").iterdir()}
    assert kept == {*hub.SHARED, "README.md"}  # no checkpoints, no events
    obs, stock = np.zeros((3, 2), np.float32), np.zeros((3, 1), np.float32)
    for name in ("hf:me/courier", "hf:me/courier@v1"):
        assert np.array_equal(load(name).act(obs, stock), load(trained).act(obs, stock))


def test_the_card_says_what_it_does_and_how_to_use_it(shelf, trained):
    hub.push(trained, "me/courier", private=True)
    text = (shelf / "me/courier/README.md").read_text()
    assert text.startswith("---\nlibrary_name: ucpo\n")
    rows = pl.read_parquet(trained / "evaluation.parquet")
    paid = rows.filter(pl.col("budget_near_misses") == 5.0)["return"].mean()
    assert f"| Courier-v0 | 5 | near_misses | {paid:.2f} |" in text
    assert 'load("hf:me/courier").controller(budget=20)' in text
    assert "seed 0, for 200 environment steps" in text


def test_a_shared_policy_is_evaluated_and_its_copy_stays_as_it_came(shelf, trained):
    hub.push(trained, "me/courier")
    main(["evaluate", "hf:me/courier", "--budgets", "5", "--episodes", "2"])
    assert len(pl.read_parquet("runs/hub/me/courier/evaluation.parquet")) == 2


def test_what_cannot_work_is_answered(shelf, trained, tmp_path, monkeypatch):
    with pytest.raises(
        UsageError, match=r"cannot be fetched \(FileNotFoundError: 404.*hf auth login"
    ):
        load("hf:me/nothing")
    for name in ("hf:me", "hf:a/b/c", "hf:me/../x"):
        with pytest.raises(UsageError, match="is called hf:user/name"):
            load(name)
    with pytest.raises(UsageError, match="there is no policy at"):
        hub.push(tmp_path / "empty", "me/empty")
    assert not (shelf / "me/empty").exists()
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(UsageError, match=r"pip install 'ucpo\[hub\]'"):
        load("hf:me/courier")


def test_the_stand_in_takes_what_the_library_takes():
    library = pytest.importorskip("huggingface_hub", reason="not needed by other tests")
    for call, names in (
        (library.HfApi.create_repo, {"repo_id", "private", "exist_ok"}),
        (library.HfApi.upload_folder, {"repo_id", "folder_path", "commit_message"}),
        (library.snapshot_download, {"repo_id", "revision", "allow_patterns"}),
        (library.HfApi.__init__, {"library_name"}),
    ):
        assert names <= set(inspect.signature(call).parameters)


def test_what_is_shared_exists_in_a_run(trained):
    assert all(Path(trained, name).is_file() for name in hub.SHARED)
