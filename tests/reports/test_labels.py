"""Runs with different settings are never averaged, and nothing is left out without a word."""

import numpy as np
import polars as pl
import pytest

from tests.reports.test_report import rows
from ucpo.cli.main import main
from ucpo.errors import UsageError
from ucpo.reports import build, paper, report
from ucpo.reports.labels import Subject, labels, name_of, published, rank

CONFIG = """task = "T-v0"
method = "{method}"
seed = {seed}
gamma = {gamma}
utility = "{utility}"
log_every = {seed}
budget = {budget}

[critic]
rate = {rate}
"""


@pytest.fixture(autouse=True)
def undrawn(monkeypatch):
    """Figures take a second each and are tested elsewhere: here their names are enough."""

    def named(views, folder, processes):
        for view in views:
            (folder / f"{view.name}.png").touch()
            yield view

    monkeypatch.setattr(report, "draw_all", named)


def run(place, name, seed=0, method="ucp", task="T-v0", hold="", **settings):
    """A run folder with a configuration and an evaluation."""
    values = {"gamma": 0.9, "utility": "excess", "rate": 0.1, "budget": "[]", **settings}
    folder = place / name
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(CONFIG.format(method=method, seed=seed, **values))
    frame = rows(method, seed, task=task).with_columns(policy=pl.lit(f"0123456789ab{hold}"))
    name = f"evaluation{hold}.parquet"
    frame.write_parquet(folder / name)
    return folder


def table(place, name="budgets"):
    return pl.read_csv(place / "tables" / f"{name}.csv")


def test_baselines_stand_beside_the_papers_in_any_case_and_stopped_ones_beside_stopped_ones(
    tmp_path,
):
    task = "SafetyHalfCheetahVelocity-v1"
    for method, manner in (("ppo-lag", ""), ("ppo-et", ""), ("ppo-et", "-stopped")):
        folder = tmp_path / "runs" / method
        folder.mkdir(parents=True, exist_ok=True)
        frame = rows(method, budgets=(25.0,), task=task).with_columns(
            pl.col("cost_cost") + 100.0, policy=pl.lit(f"0123456789ab{manner}")
        )
        frame.write_parquet(folder / f"evaluation{manner}.parquet")
    build([tmp_path / "runs"], tmp_path / "out", against_paper=True)
    beside = dict(table(tmp_path / "out").select("method", "paper_return").iter_rows())
    assert beside == {"ppo-lag": 3024.1, "ppo-et": None, "ppo-et [stopped]": 2091.8}
    compared = table(tmp_path / "out", "comparison").filter(pl.col("source") == "runs")
    assert compared["method"].to_list() == ["ppo-lag", "ppo-et", "ppo-et [stopped]"]
    assert compared["cost"].min() > 100.0  # far above 25


def test_seeds_are_averaged_and_settings_are_not(tmp_path):
    for seed in (0, 1):
        run(tmp_path / "runs", f"a{seed}", seed)
        run(tmp_path / "runs", f"b{seed}", seed, rate=0.5)
    told = []
    build([tmp_path / "runs"], tmp_path / "out", told=told.append)
    found = table(tmp_path / "out")
    assert found["method"].to_list() == ["ucp [critic.rate=0.1]", "ucp [critic.rate=0.5]"]
    assert found["seeds"].to_list() == [2, 2]
    episodes = [pl.read_parquet(tmp_path / f"runs/b{i}/evaluation.parquet") for i in (0, 1)]
    expected = np.mean([frame["return"].mean() for frame in episodes])
    assert found["return"][1] == pytest.approx(expected)
    assert "UCP [critic.rate=0.5]" in (tmp_path / "out" / "report.md").read_text()
    assert any("Runs with different settings are not averaged" in text for text in told)


def test_what_makes_no_difference_to_learning_makes_none_to_the_label(tmp_path):
    for seed in (0, 1):  # log_every differs too
        run(tmp_path / "runs", f"a{seed}", seed)
    build([tmp_path / "runs"], tmp_path / "out")
    assert table(tmp_path / "out")["method"].to_list() == ["ucp"]


def test_a_utility_of_ones_own_is_not_called_ucp_nor_set_beside_the_papers(tmp_path):
    task = "SafetyPointGoal1-v0"
    run(tmp_path, "mine", utility="cube", task=task)
    build([tmp_path / "mine"], tmp_path / "out", against_paper=True)
    found = table(tmp_path / "out")
    assert found["method"].to_list() == ["ucp [utility=cube]"]
    assert found["paper_return"].null_count() == len(found)
    run(tmp_path, "plain", gamma=0.8, task=task)
    run(tmp_path, "other", gamma=0.7, task=task)
    build([tmp_path / "plain", tmp_path / "other"], tmp_path / "beside", against_paper=True)
    both = table(tmp_path / "beside")
    assert both["method"].to_list() == ["ucp [gamma=0.7]", "ucp [gamma=0.8]"]
    assert both["paper_return"].to_list() == [paper.lookup("UCP", task, 5).return_mean] * 2


def test_methods_for_one_budget_are_one_method_at_many_budgets(tmp_path):
    subjects = [
        Subject("T", "ucp-nr", {"budget": [budget]}, budgets=frozenset({(float(budget),)}))
        for budget in (5, 25)
    ]
    assert labels(subjects) == ["ucp-nr", "ucp-nr"]
    clash = Subject("T", "ucp-nr", {"budget": [7]}, budgets=frozenset({(5.0,)}))
    assert labels([*subjects, clash])[2] == "ucp-nr [budget=7]"


def test_held_episodes_are_a_method_of_their_own(tmp_path):
    first = run(tmp_path, "a")
    held = run(tmp_path, "b", hold="-hold4") / "evaluation-hold4.parquet"
    build([first, held], tmp_path / "out")
    assert table(tmp_path / "out")["method"].to_list() == ["ucp", "ucp [hold=4]"]
    aside = pl.read_parquet(held).with_columns(return_=0.0)
    aside.write_parquet(held.with_name("evaluation-hold4-of-ffff.parquet"))  # of an older policy
    build([tmp_path], tmp_path / "all")
    assert table(tmp_path / "all").equals(table(tmp_path / "out"))
    text = (tmp_path / "all" / "report.md").read_text()
    assert "not averaged: UCP; UCP [hold=4]." in text
    assert "Not evaluated" not in text


def test_runs_may_be_given_labels(tmp_path, capsys):
    run(tmp_path, "short/0")
    run(tmp_path, "long/0", gamma=0.99)
    names = [f"short={tmp_path / 'short'}", f"long={tmp_path / 'long'}"]
    out = str(tmp_path / "out")
    main(["report", str(tmp_path), "-o", out, "--label", *names])
    assert set(table(tmp_path / "out")["method"]) == {"short", "long"}
    with pytest.raises(SystemExit):
        main(["report", str(tmp_path), "-o", out, "--label", "short"])
    assert "a label is NAME=FOLDER" in capsys.readouterr().err


def test_runs_without_an_evaluation_are_named_in_the_report_and_on_the_terminal(tmp_path, capsys):
    run(tmp_path / "runs", "a")
    idle = run(tmp_path / "runs", "b c", 1)
    (idle / "evaluation.parquet").unlink()
    main(["report", str(tmp_path / "runs"), "-o", str(tmp_path / "out")])
    text = (tmp_path / "out" / "report.md").read_text()
    for said in (capsys.readouterr().err, text):
        assert f"Not evaluated, and so not in this report: {idle}" in " ".join(said.split())
        assert f"ucpo evaluate '{idle}'" in " ".join(said.split())


def test_where_nothing_says_how_a_policy_was_trained_the_report_says_so(tmp_path):
    run(tmp_path, "a")
    bare = run(tmp_path, "b", 1)
    (bare / "config.toml").unlink()
    build([tmp_path / "a", bare], tmp_path / "out")
    assert table(tmp_path / "out")["seeds"].to_list() == [2]
    assert "No config.toml beside 1 evaluation" in (tmp_path / "out" / "report.md").read_text()


def test_the_same_run_twice_is_still_refused(tmp_path):
    with pytest.raises(UsageError, match="count as one run"):
        build([run(tmp_path, "a"), run(tmp_path, "b")], tmp_path / "out")


def test_learning_curves_are_those_of_the_task_trained_on(tmp_path):
    folder = run(tmp_path, "a")
    other = rows(task="Another-v0").with_columns(policy=pl.lit("x"))
    both = pl.concat([other, pl.read_parquet(folder / "evaluation.parquet")])
    both.write_parquet(folder / "evaluation.parquet")
    (folder / "metrics.csv").write_text("env_steps,return,cost/cost\n1,2,3\n2,3,4\n")
    build([folder], tmp_path / "out")
    assert [f.name for f in (tmp_path / "out/figures").glob("learning*.png")] == [
        "learning-T-v0.png"
    ]


def test_many_differences_are_cut_short_but_stay_apart():
    subjects = [Subject("T", "ucp", {f"o{i}": i + k for i in range(6)}) for k in (0, 0, 1)]
    first, again, other = labels(subjects)
    assert first == again != other
    assert first == "ucp [o0=0, o1=1, o2=2, o3=3, and 2 more #1]"
    same = [Subject("T", "ucp", {f"o{i}": i + k * (i > 3) for i in range(9)}) for k in (0, 1)]
    assert len(set(labels(same))) == 2


def test_labels_are_shown_sorted_and_compared_by_their_method():
    assert name_of("ucp-mean [gamma=0.9]") == "UCP-Mean [gamma=0.9]"
    assert published("ucp-mean [gamma=0.9]") == "UCP-Mean"
    assert published("ucp [utility=cube]") == ""
    found = sorted(["zeta", "ucp-mean", "ucp [b=2]", "ucp [b=1]"], key=rank)
    assert found == ["ucp [b=1]", "ucp [b=2]", "ucp-mean", "zeta"]


def with_settings(preset, task="T", **settings):
    return Subject(task, "ppo-lag", {"preset": preset, **settings})


def test_a_preset_stands_for_all_that_it_sets():
    subjects = [
        with_settings("auto", gamma=0.99, hold=4, rate=0.1),
        with_settings("omnisafe-velocity", gamma=0.9, hold=1, rate=0.2),
        with_settings("omnisafe-velocity", gamma=0.9, hold=1, rate=0.3),
        with_settings("omnisafe-navigation", "U", gamma=0.9, hold=2, rate=0.2),
    ]
    assert labels(subjects) == [
        "ppo-lag",
        "ppo-lag [omnisafe-velocity, rate=0.2]",
        "ppo-lag [omnisafe-velocity, rate=0.3]",
        "ppo-lag [omnisafe-navigation]",
    ]


def test_a_preset_is_not_said_where_it_makes_no_difference():
    assert labels([with_settings("swift", gamma=0.9)] * 2) == ["ppo-lag"] * 2
    same = [with_settings("auto", gamma=0.9), with_settings("my/own.toml", gamma=0.9)]
    assert labels(same) == ["ppo-lag"] * 2
    other = with_settings("my/own.toml", gamma=0.8)
    assert labels([*same, other]) == ["ppo-lag", "ppo-lag", "ppo-lag [own.toml]"]
