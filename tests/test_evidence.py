"""What docs/learning.md says about trainings that are not in the zoo, against their episodes."""

from pathlib import Path

import polars as pl
import pytest

from ucpo import zoo
from ucpo.config_files import read_config
from ucpo.reports.paper import name_of
from ucpo.stats import summarise
from ucpo.zoo.adding import command

DOCS = Path(__file__).parents[1] / "docs"
RUNS = sorted(file.parent for file in DOCS.glob("evidence/*/*/evaluation.parquet"))
CURVES = [*sorted(DOCS.glob("evidence/goals/*")), zoo.locate("zoo:SafetyPointGoal1-v0")]
SAID = (DOCS / "learning.md").read_text(encoding="utf-8")


def rows(run):
    """The rows of the table that a run stands for."""
    for row in (
        summarise(pl.read_parquet(run / "evaluation.parquet")).sort("budget_cost").to_dicts()
    ):
        yield (
            f"| {name_of(row['method'])} | {row['budget_cost']:g} | {row['return']:.1f} "
            f"| {row['cost_cost']:.1f} | {row['exceeded_cost']:.3f} | {row['excess_cost']:.2f} |"
        )


def test_there_is_evidence():
    assert {run.name for run in RUNS} >= {"ucp-seed0", "ucp-mean-seed0"}


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_the_page_says_what_the_episodes_say_and_how_they_came_about(run):
    assert command(read_config(run / "config.toml")) in SAID
    lines = SAID.splitlines()
    assert [row for row in rows(run) if row not in lines] == []


@pytest.mark.parametrize("run", CURVES, ids=lambda run: run.name)
def test_the_page_says_what_was_logged_on_the_way_and_how_it_came_about(run):
    assert command(read_config(run / "config.toml")) in SAID
    logged = pl.read_csv(run / "metrics.csv", infer_schema_length=None)
    now_and_then = logged.filter(pl.col("env_steps") % 200_000 == 0)
    assert len(now_and_then) >= 4
    cells = [
        f"{mean:.1f} ({cost:.0f})"
        for mean, cost in now_and_then.select("return", "cost/cost").iter_rows()
    ]
    assert " | ".join(cells) in SAID
