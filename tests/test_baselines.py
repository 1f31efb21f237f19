"""What docs/baselines.md says, against the episodes it was made from."""

import importlib.util
from pathlib import Path

import polars as pl
import pytest

from ucpo.config.files import resolve, to_toml

DOCS = Path(__file__).parents[1] / "docs"
FOLDER = DOCS / "evidence" / "baselines"
PAGE = (DOCS / "baselines.md").read_text(encoding="utf-8")


def load(name):
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


tables = load("tables")


def runs(task):
    return [run for training in tables.trainings(task) for run in training]


def test_there_is_evidence_of_everything_the_paper_compares_with():
    methods = {config.method for task in tables.tasks() for config, _ in runs(task)}
    assert methods >= {"ucp", "ppo", "ppo-lag", "ppo-saute", "ppo-et"}


@pytest.mark.parametrize("task", tables.tasks())
def test_the_page_has_every_line_of_the_table_and_every_command(task):
    said = PAGE.splitlines()
    for line in "\n".join([*tables.table(task), *tables.budgets(task)]).splitlines():
        assert line in said
    for line in tables.commands(task):
        assert f"    {line}" in said


@pytest.mark.parametrize("task", tables.tasks())
def test_nothing_is_evaluated_on_too_few_episodes_or_another_budget(task):
    for config, folder in runs(task):
        for file in folder.glob("evaluation*.parquet"):
            episodes = pl.read_parquet(file)
            assert len(episodes) >= 100
            assert set(episodes["method"]) == {config.method}
            assert set(episodes["task"]) == {task}
            stopped = file.stem.endswith("-stopped")
            assert episodes["policy"].str.ends_with("-stopped").all() == stopped


def test_a_table_has_the_numbers_of_the_episodes(tmp_path, monkeypatch):
    """Two seeds of two episodes: costs 20 and 40 at a return of 10 and 20, and 26 and 10 at 12."""
    spent = ["run,seconds"]
    for seed, returns, costs in ((7, [10.0, 20.0], [20.0, 40.0]), (8, [12.0, 12.0], [26.0, 10.0])):
        folder = tmp_path / f"SafetyPointGoal1-v0-ppo-lag-25-seed{seed}"
        folder.mkdir()
        task, family = "SafetyPointGoal1-v0", "navigation"
        config = resolve(task, method="ppo-lag", family=family, budget=["25"], seed=seed, hold=2)
        (folder / "config.toml").write_text(to_toml(config))
        spent.append(f"{folder.name},{90 * (seed - 6)}")
        pl.DataFrame(
            {"env_steps": [3_000_103] * 2, "return": returns, "cost_cost": costs}
        ).write_parquet(folder / "evaluation.parquet")
    (tmp_path / "spent.csv").write_text("\n".join(spent))
    monkeypatch.setattr(tables, "HERE", tmp_path)
    # Means 15 and 12, costs 30 and 18, excesses 7.5 and 0.5: half-widths are 12.706 / 2 their gaps.
    assert tables.table("SafetyPointGoal1-v0")[1:] == [
        "| PPOLag | short `--hold 2` | 7, 8 | 3M | 2.2 | 13.5 ± 19.1 | 24.0 ± 76.2 | 0.50 ± 0.00 "
        "| 4.0 ± 44.5 | 16.0 ± 1.6 | 21.1 ± 2.4 |"
    ]
    (line,) = tables.commands("SafetyPointGoal1-v0")
    assert line.endswith("--seed 7  # likewise 8")
