"""What docs/learning.md says about trainings that are not in the zoo, against their episodes."""

from pathlib import Path

import polars as pl
import pytest

from ucpo.config.files import read_config
from ucpo.policies import zoo
from ucpo.policies.zoo.adding import command
from ucpo.reports.paper import name_of
from ucpo.stats import summarise

DOCS = Path(__file__).parents[1] / "docs"
RUNS = [
    DOCS / "evidence" / "risk" / f"{method}-seed{seed}"
    for method in ("ucp-mean", "ucp")
    for seed in range(3)
]
CURVES = [*sorted(DOCS.glob("evidence/goals/*")), DOCS / "evidence" / "risk" / "ucp-seed0"]
SAID = (DOCS / "learning.md").read_text(encoding="utf-8")


def row(run):
    """The row of the table of risks that a run stands for: each number at all budgets."""
    seen = summarise(pl.read_parquet(run / "evaluation.parquet")).sort("budget_cost")
    assert set(seen["episodes"]) == {1000}
    cells = [
        ", ".join(f"{value:.{digits}f}" for value in seen[name])
        for name, digits in (
            ("return", 1),
            ("cost_cost", 1),
            ("exceeded_cost", 3),
            ("excess_cost", 2),
        )
    ]
    config = read_config(run / "config.toml")
    return f"| {name_of(config.method)} | {config.seed} | {' | '.join(cells)} |"


def test_there_is_evidence():
    assert sorted(RUNS) == sorted(path.parent for path in DOCS.glob("evidence/risk/*/config.toml"))
    assert len(CURVES) > 5


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_the_page_says_what_the_episodes_say_and_how_they_came_about(run):
    assert command(read_config(run / "config.toml")) in SAID
    assert row(run) in SAID.splitlines()


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


def logged(run, every, last):
    """Return and cost on the way, as the page writes them."""
    metrics = pl.read_csv(run / "metrics.csv", infer_schema_length=None).filter(
        (pl.col("env_steps") % every == 0) & (pl.col("env_steps") <= last)
    )
    pairs = metrics.select("return", "cost/cost").iter_rows()
    return " | ".join(f"{mean:.1f} ({cost:.0f})" for mean, cost in pairs)


NOT_SHOWN = zoo.locate("zoo:SafetyPointGoal1-v0/ucp-seed0")


@pytest.mark.parametrize("run", [DOCS / "evidence" / "held" / "seed0", NOT_SHOWN], ids=str)
def test_the_page_says_what_came_of_not_showing_an_excess(run):
    assert f"| {logged(run, 400_000, 3_200_000)} |" in SAID
    assert f"| {logged(run, 100_000, 500_000)} |" in SAID


@pytest.mark.parametrize("run", sorted(DOCS.glob("evidence/batches/*")), ids=lambda run: run.name)
def test_the_page_says_what_smaller_batches_brought(run):
    assert command(read_config(run / "config.toml")) in SAID
    assert f"| {logged(run, 100_000, 500_000)} |" in SAID


@pytest.mark.parametrize(
    "run",
    [*sorted(DOCS.glob("evidence/skill-first/*")), zoo.locate("zoo:SafetyPointGoal2-v0")],
    ids=lambda run: run.name,
)
def test_the_page_says_what_learning_to_drive_first_brought(run):
    assert command(read_config(run / "config.toml")) in SAID
    cells = logged(run, 400_000, 2_800_000)
    assert cells in SAID or all(cell in SAID for cell in cells.split(" | "))


@pytest.mark.parametrize(
    "run", [*sorted(DOCS.glob("evidence/held/*")), NOT_SHOWN], ids=lambda run: run.name
)
def test_the_page_says_what_held_decisions_brought(run):
    seen = summarise(pl.read_parquet(run / "evaluation.parquet")).sort("budget_cost")
    assert set(seen["episodes"]) == {1000}
    pairs = zip(seen["return"], seen["cost_cost"], strict=True)
    cells = " | ".join(f"{value:.1f} @ {cost:.1f}" for value, cost in pairs)
    rows = [line for line in SAID.splitlines() if cells in line]
    assert any(command(read_config(run / "config.toml")) in row for row in rows)


@pytest.mark.parametrize("run", sorted(DOCS.glob("evidence/pushing/*")), ids=lambda run: run.name)
def test_the_page_says_what_helps_to_push(run):
    assert command(read_config(run / "config.toml")) in SAID
    metrics = pl.read_csv(run / "metrics.csv", infer_schema_length=None)
    cells = []
    for env_steps in range(300_000, 1_500_001, 300_000):  # held decisions end shortly after
        mean, cost, entropy = (
            metrics.filter(pl.col("env_steps") >= env_steps)
            .select("return", "cost/cost", "entropy")
            .row(0)
        )
        cells.append(f"{mean:.1f} ({cost:.0f}), {entropy:.1f}")
    assert f"| {' | '.join(cells)} | {metrics['updates'][-1]:,} |" in SAID


@pytest.mark.parametrize("run", sorted(DOCS.glob("evidence/swimmer/*")), ids=lambda run: run.name)
def test_the_page_says_what_teaches_to_swim(run):
    assert f"    {command(read_config(run / 'config.toml'))}" in SAID.splitlines()
    assert f"| {logged(run, 300_000, 1_500_000)} |" in SAID


HUMANOIDS = [DOCS / "evidence" / "humanoid" / "from-2", zoo.locate("zoo:SafetyHumanoidVelocity-v1")]


@pytest.mark.parametrize("run", HUMANOIDS, ids=lambda run: run.name)
def test_the_page_says_what_keeps_humanoid_on_its_feet(run):
    assert f"    {command(read_config(run / 'config.toml'))}" in SAID.splitlines()
    assert f"| {logged(run, 200_000, 1_600_000)} |" in SAID


ON_POLICY = DOCS / "evidence" / "on-policy"


@pytest.mark.parametrize(
    "run", sorted(path.parent for path in ON_POLICY.glob("*/metrics.csv")), ids=lambda run: run.name
)
def test_the_page_says_what_teaches_to_keep_budgets_on_rollouts(run):
    assert f"    {command(read_config(run / 'config.toml'))}" in SAID.splitlines()
    metrics = pl.read_csv(run / "metrics.csv", infer_schema_length=None)
    rows = [
        metrics.filter(pl.col("env_steps") >= env_steps).row(0, named=True)
        for env_steps in range(1_000_000, min(metrics["env_steps"][-1], 5_000_000) + 1, 1_000_000)
    ]
    cells = " | ".join(f"{row['return']:.1f} ({row['cost/cost']:.0f})" for row in rows)
    prices = " | ".join(f"{row['price/cost/0-6']:.2f}" for row in rows)
    assert f"| {cells} |" in SAID
    assert f"| its price | {prices} |" in SAID


@pytest.mark.parametrize("run", sorted(ON_POLICY.glob("beside/*")), ids=lambda run: run.name)
def test_the_page_says_what_rollouts_bring_in_the_same_minutes(run):
    config = read_config(run / "config.toml")
    assert f"    {command(config)}" in SAID.splitlines()
    seen = summarise(pl.read_parquet(run / "evaluation.parquet")).sort("budget_cost")
    assert set(seen["episodes"]) == {200}
    minutes = float((run / "seconds").read_text()) / 60
    cells = [config.method, config.task, config.seed, f"{config.env_steps / 1e6:.3g}M"]
    cells.append(f"{minutes:.1f}")
    for name, digits in (("return", 1), ("cost_cost", 1), ("exceeded_cost", 2)):
        cells.append(", ".join(f"{value:.{digits}f}" for value in seen[name]))
    assert f"| {' | '.join(map(str, cells))} |" in SAID.splitlines()


def test_the_page_says_how_circles_and_buttons_were_learned():
    wide = DOCS / "evidence" / "circles" / "wide-seed0"
    assert f"| {logged(wide, 300_000, 1_500_000)} |" in SAID
    narrow = zoo.locate("zoo:SafetyPointCircle1-v0/ucp-seed0")
    assert f"| {logged(narrow, 300_000, 2_400_000)} |" in SAID
    buttons = zoo.locate("zoo:SafetyPointButton1-v0/ucp-seed0")
    assert f"| {logged(buttons, 400_000, 4_400_000)} |" in SAID
    car = DOCS / "evidence" / "car-goals" / "slower"
    assert f"    {command(read_config(car / 'config.toml'))}" in SAID.splitlines()
    assert f"| {logged(car, 400_000, 4_400_000)} |" in SAID
    car = zoo.locate("zoo:SafetyCarGoal2-v0/ucp-seed0")
    assert f"| {logged(car, 400_000, 5_200_000)} |" in SAID


@pytest.mark.parametrize("seed", range(3))
def test_the_page_says_what_a_long_horizon_of_costs_did_on_circles(seed):
    run = DOCS / "evidence" / "circles" / f"wide-seed{seed}"
    seen = summarise(pl.read_parquet(run / "evaluation.parquet")).sort("budget_cost")
    assert set(seen["episodes"]) == {1000}
    returns, costs = (
        ", ".join(f"{value:.1f}" for value in seen[name]) for name in ("return", "cost_cost")
    )
    assert f"| {seed} | 0.999 | {returns} | {costs} |" in SAID
