import json
import shlex
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest

import ucpo
from ucpo.cli.main import main
from ucpo.config.files import read_config
from ucpo.errors import UsageError
from ucpo.evaluation.episodes import file_of, fingerprint
from ucpo.policies import zoo
from ucpo.policies.zoo import adding
from ucpo.policies.zoo.adding import EPISODES, LARGEST, _evaluation, command, deciding
from ucpo.policies.zoo.cards import card
from ucpo.policies.zoo.page import groups, results, training

ENTRIES = zoo.names()


def options(text, monkeypatch):
    """The configuration that a command trains with."""
    seen = []
    monkeypatch.setattr("ucpo.cli.main.Train.__call__", lambda self: seen.append(self.config))
    main(shlex.split(text)[1:])
    return seen[0]


def test_there_are_entries():
    assert "SafetyPointCircle1-v0/ucp-seed0" in ENTRIES


@pytest.mark.parametrize("name", ENTRIES)
def test_an_entry_is_whole_and_its_card_is_true(name, monkeypatch):
    folder, said = zoo.locate(f"zoo:{name}"), card(name)
    config = read_config(folder / "config.toml")
    assert name == config.folder.as_posix()
    policy = ucpo.load(f"zoo:{name}")
    assert (policy.info.env_steps, policy.info.updates) == (said.env_steps, said.updates)
    assert policy.info.env_steps >= config.env_steps
    assert (folder / "policy.safetensors").stat().st_size < LARGEST
    episodes = pl.read_parquet(folder / file_of("evaluation.parquet", said.hold))
    assert set(episodes["policy"]) == {fingerprint(policy, said.hold)}
    assert dict(episodes.group_by("budget_cost").len().iter_rows()) == dict.fromkeys(
        (0.0, 5.0, 15.0, 25.0), EPISODES
    )
    assert said.evaluation == _evaluation(episodes, folder)
    assert said.command == command(config)
    chosen = options(said.command, monkeypatch)
    assert deciding(chosen) == deciding(config)


@pytest.mark.parametrize("names", groups(), ids=lambda names: names[0])
def test_the_page_of_results_says_what_the_cards_say(names):
    page = (Path(__file__).parents[2] / "docs" / "results.md").read_text(encoding="utf-8")
    lines = page.splitlines()
    rows = list(results(names))
    assert len(rows) == len(card(names[0]).evaluation)
    assert [row for row in [*map(training, names), *rows] if row not in lines] == []


def test_seeds_of_a_task_share_their_rows_on_the_page(monkeypatch):
    def said(name):
        values = {"return": float(name[-1]), "cost": 2.0, "exceeded": 0.5, "excess": 1.0}
        return SimpleNamespace(evaluation=[{"budget": 25.0, **values}], hold=1)

    entries = [f"SafetyPointGoal1-v0/{run}" for run in ("ucp-mean-seed0", "ucp-seed1", "ucp-seed3")]
    monkeypatch.setattr("ucpo.policies.zoo.page.card", said)
    monkeypatch.setattr("ucpo.policies.zoo.names", lambda: entries)
    assert groups() == [entries[:1], entries[1:]]
    (alone,), (both,) = (list(results(names)) for names in groups())
    assert alone.startswith(
        "| SafetyPointGoal1-v0 | ucp-mean | 0 | 25 | 0.000 | 2.00 | 0.500 | 1.00 |"
    )
    # Two seeds: the half-width is t(0.975, 1) = 12.706 times half their distance.
    assert both.startswith("| SafetyPointGoal1-v0 | ucp | 1, 3 | 25 | 2.0 ± 12.7 | 2.00 ± 0.00 |")
    assert both.endswith("| 25.4 ± 0.7 | 12.0 ± 0.6 |")


def test_the_page_says_how_long_actions_were_held_and_puts_ucp_of_the_paper_beside_ucp_ppo(
    monkeypatch,
):
    values = {"return": 5.0, "cost": 2.0, "exceeded": 0.5, "excess": 1.0}
    said = SimpleNamespace(evaluation=[{"budget": 25.0, **values}], hold=8)
    monkeypatch.setattr("ucpo.policies.zoo.page.card", lambda name: said)
    (row,) = results(["SafetyPointGoal1-v0/ucp-ppo-seed0"])
    assert row.startswith("| SafetyPointGoal1-v0 | ucp-ppo, hold 8 | 0 | 25 | 5.00 |")
    assert row.endswith("| 25.4 ± 0.7 | 12.0 ± 0.6 |")


def test_a_task_stands_for_ucp_and_without_one_for_ucp_on_rollouts(monkeypatch):
    runs = ["A-v0/ucp-ppo-seed0", "A-v0/ucp-seed0", "B-v0/ucp-ppo-seed0", "B-v0/ucp-seed1"]
    monkeypatch.setattr("ucpo.policies.zoo.names", lambda: runs)
    found = [zoo.locate(f"zoo:{name}").name for name in ("A-v0", "B-v0", "B-v0/ucp-seed1")]
    assert found == ["ucp-seed0", "ucp-ppo-seed0", "ucp-seed1"]


def test_an_entry_does_in_its_task_what_its_card_says(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    main(["evaluate", "zoo:SafetyPointCircle1-v0", "--budgets", "25", "--episodes", "16"])
    rows = pl.read_parquet(tmp_path / "runs/zoo/SafetyPointCircle1-v0/ucp-seed0/evaluation.parquet")
    at_25 = card("SafetyPointCircle1-v0").evaluation[-1]
    assert at_25["budget"] == 25.0
    # Not to the last bit: other processors round otherwise.
    assert rows["return"].mean() == pytest.approx(at_25["return"], rel=0.1)


def test_what_is_not_in_the_zoo_is_named_with_what_is_near():
    with pytest.raises(UsageError, match="did you mean 'SafetyPointCircle1-v0'"):
        ucpo.load("zoo:SafetyPointCricle1-v0")
    with pytest.raises(UsageError, match="did you mean 'SafetyPointCircle1-v0/ucp-seed0'"):
        ucpo.load("zoo:SafetyPointCircle1-v0/upc-seed0")


def test_an_entry_is_watched_in_its_own_task_only(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    policy = ["--policy", "zoo:SafetyPointCircle1-v0", "--every", "100", "--pixels", "64"]
    main(["watch", "SafetyPointCircle1-v0", *policy])
    assert (tmp_path / "episode.gif").is_file()
    with pytest.raises(SystemExit):
        main(["watch", "SafetyPointGoal1-v0", *policy])
    assert "does not fit SafetyPointGoal1-v0" in " ".join(capsys.readouterr().err.split())


def test_all_entries_are_listed(capsys):
    main(["zoo"])
    shown = capsys.readouterr().out
    assert all(name in shown for name in ENTRIES)


def test_only_finished_and_evaluated_runs_are_added(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    short = ["--env-steps", "160", "--random-steps", "80", "--gamma", "0.9", "--seed", "2"]
    main(["train", "Courier-v0", *short, "--networks.hidden", "16", "8", "--run", "r"])
    run, root = tmp_path / "r", tmp_path / "zoo"
    main(["evaluate", "r", "--episodes", "3", "--budgets", "0", "5"])
    with pytest.raises(UsageError, match="1000 episodes at each budget"):
        adding.add(run, "here", root)
    monkeypatch.setattr(adding, "EPISODES", 3)
    folder = adding.add(run, "here", root)
    assert folder == root / "Courier-v0" / "ucp-seed2"
    small, whole = ((each / "critics.safetensors").stat().st_size for each in (folder, run))
    assert small < whole / 3
    main(["evaluate", str(folder), "--episodes", "2", "--budgets", "5", "--calibrate"])
    assert (folder / "calibration.parquet").is_file()
    said = json.loads((folder / zoo.CARD_FILE).read_text())
    assert [row["budget"] for row in said["evaluation"]] == [0.0, 5.0]
    assert said["hours"] >= 0.0
    chosen = options(said["command"], monkeypatch)
    assert deciding(chosen) == deciding(read_config(folder / "config.toml"))
    assert said["hold"] == 1
    main(["evaluate", "r", "--episodes", "3", "--budgets", "0", "5", "--hold", "2"])
    adding.add(run, "here", tmp_path / "held", hold=2)
    held = tmp_path / "held" / "Courier-v0" / "ucp-seed2"
    assert json.loads((held / zoo.CARD_FILE).read_text())["hold"] == 2
    assert [file.name for file in held.glob("evaluation*")] == ["evaluation-hold2.parquet"]
    text = (run / "config.toml").read_text()
    (run / "config.toml").write_text(text.replace("env_steps = 160", "env_steps = 320"))
    with pytest.raises(UsageError, match="not finished: 160 of 320"):
        adding.add(run, "here", root)
