"""What docs/baselines.md says, against the episodes it was made from."""

import importlib.util
from pathlib import Path

import polars as pl
import pytest

DOCS = Path(__file__).parents[1] / "docs"
FOLDER = DOCS / "evidence" / "baselines"
PAGE = (DOCS / "baselines.md").read_text(encoding="utf-8")


def load(name):
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


tables = load("tables")


def test_there_is_evidence_of_everything_the_paper_compares_with():
    methods = {config.method for task in tables.tasks() for config, _ in tables.runs(task)}
    assert methods >= {"ucp", "ppo", "ppo-lag", "ppo-saute", "ppo-et"}


@pytest.mark.parametrize("task", tables.tasks())
def test_the_page_has_every_line_of_the_table_and_every_command(task):
    said = PAGE.splitlines()
    for line in "\n".join(tables.table(task)).splitlines():
        assert line in said
    for line in tables.commands(task):
        assert f"    {line}" in said


@pytest.mark.parametrize("task", tables.tasks())
def test_nothing_is_evaluated_on_too_few_episodes_or_another_budget(task):
    for config, folder in tables.runs(task):
        for file in folder.glob("evaluation*.parquet"):
            episodes = pl.read_parquet(file)
            assert len(episodes) >= 100
            assert set(episodes["method"]) == {config.method}
            assert set(episodes["task"]) == {task}
            stopped = file.stem.endswith("-stopped")
            assert episodes["policy"].str.ends_with("-stopped").all() == stopped


def test_a_table_has_the_numbers_of_the_episodes(tmp_path, monkeypatch):
    """Two episodes: costs 20 and 40 at a return of 10 and 20."""
    folder = tmp_path / "SafetyPointGoal1-v0-ppo-lag-25-seed7"
    folder.mkdir()
    (folder / "config.toml").write_text(
        'task = "SafetyPointGoal1-v0"\nmethod = "ppo-lag"\nseed = 7\nbudget = ["25"]\n'
        'starts = "single"\nenv_steps = 3000000\n'
    )
    (tmp_path / "spent.csv").write_text(f"run,seconds\n{folder.name},90\n")
    pl.DataFrame(
        {
            "task": ["SafetyPointGoal1-v0"] * 2,
            "method": ["ppo-lag"] * 2,
            "training_seed": [7, 7],
            "env_steps": [3_000_103] * 2,
            "budget_cost": [25.0, 25.0],
            "return": [10.0, 20.0],
            "cost_cost": [20.0, 40.0],
        }
    ).write_parquet(folder / "evaluation.parquet")
    monkeypatch.setattr(tables, "HERE", tmp_path)
    assert tables.table("SafetyPointGoal1-v0")[1:] == [
        "| PPOLag | short | 7 | 3M | 1.5 | 15.0 | 30.0 | 0.50 | 7.5 | 16.0 ± 1.6 | 21.1 ± 2.4 |"
    ]
