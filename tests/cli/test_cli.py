import os
import shlex
import shutil
import subprocess
import sys
from importlib import metadata

import polars as pl
import pytest

from ucpo.cli.main import main
from ucpo.errors import UsageError

QUICK = [
    *("--env-steps", "800", "--random-steps", "400", "--log-every", "400"),
    *("--networks.hidden", "16"),
]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def fails(capsys, *arguments):
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    return " ".join(capsys.readouterr().err.split())


def test_train_then_evaluate(elsewhere, capsys):
    main(["train", "Courier-v0", "--seed", "3", *QUICK])
    run = elsewhere / "runs" / "Courier-v0" / "ucp-seed3"
    assert "ucpo evaluate" in capsys.readouterr().err
    main(["evaluate", str(run), "--budgets", "0", "2.5", "--episodes", "20"])
    assert "E[cost" in capsys.readouterr().out
    rows = pl.read_parquet(run / "evaluation.parquet")
    assert len(rows) == 40
    assert set(rows["method"]) == {"ucp"}
    assert set(rows["training_seed"]) == {3}


def test_budgets_are_chosen_from_the_trained_range_unless_given(elsewhere, capsys):
    ranges = ["--budget-range", "near_misses=0:9", "fines=3"]
    main(["train", "Courier2-v0", *ranges, "--run", "r", *QUICK])
    main(["evaluate", "r", "--episodes", "2"])
    rows = pl.read_parquet("r/evaluation.parquet")
    assert sorted(set(rows["budget_near_misses"])) == [0.0, 3.0, 6.0, 9.0]
    assert set(rows["budget_fines"]) == {3.0}
    main(["evaluate", "r", "--episodes", "2", "--budgets", "near_misses=4.5,fines=3"])
    rows = pl.read_parquet("r/evaluation.parquet")
    assert sorted(set(rows["budget_near_misses"])) == [0.0, 3.0, 4.5, 6.0, 9.0]  # added to
    assert "no cost 'vases'" in fails(capsys, "evaluate", "r", "--budgets", "vases=3")


def test_a_variant_with_one_budget(elsewhere):
    main(["train", "Courier-v0", "--method", "ucp-nr", "--budget", "7", *QUICK])
    assert (elsewhere / "runs/Courier-v0/ucp-nr-7-seed0/policy.safetensors").is_file()


def test_several_costs_with_budgets_by_name(elsewhere):
    ranges = ["--budget-range", "near_misses=0:10", "fines=0:4"]
    main(["train", "Courier2-v0", *ranges, "--run", "two", *QUICK])
    text = (elsewhere / "two" / "config.toml").read_text()
    assert 'budget_range = ["near_misses=0:10", "fines=0:4"]' in text


def test_the_demo_ends_with_a_table_and_a_picture(elsewhere, capsys):
    main(["demo", "--env-steps", "4400"])
    assert "optimum" in capsys.readouterr().out
    assert (elsewhere / "runs/demo/frontier.png").stat().st_size > 10_000


def test_an_episode_is_watched(elsewhere, capsys):
    main(["watch", "SafetyPointCircle1-v0", "--output", "seen.gif"])
    assert (elsewhere / "seen.gif").read_bytes()[:3] == b"GIF"
    assert "500 steps" in capsys.readouterr().err
    assert "only navigation and velocity tasks" in fails(capsys, "watch", "Courier-v0")
    assert "every must be at least 1" in fails(
        capsys, "watch", "SafetyPointGoal1-v0", "--every", "0"
    )


def test_budgets_are_watched_side_by_side(elsewhere, capsys):
    from PIL import Image

    small = ["--every", "100", "--pixels", "64", "--output", "seen.gif"]
    main(["watch", "SafetyPointCircle1-v0", "--budget", "0", "25", *small])
    with Image.open("seen.gif") as seen:
        assert seen.size == (128, 64)
    said = capsys.readouterr().err
    assert "budget 0: return" in said
    assert "budget 25: return" in said


def test_the_illustration_prints_a_table_and_draws(elsewhere, capsys):
    main(["illustrate", "--gamma", "0.9", "--budgets", "1"])
    assert "mean" in capsys.readouterr().out
    assert (elsewhere / "runs/illustration/two-actions.png").is_file()


def test_tasks_are_listed(capsys):
    main(["tasks"])
    assert "Courier-v0" in capsys.readouterr().out


def test_the_version_is_the_package_s(capsys):
    main(["--version"])
    assert capsys.readouterr().out == f"ucpo {metadata.version('ucpo')}\n"


def test_mistakes_end_with_one_paragraph_and_code_2(elsewhere, capsys):
    assert "which task" in fails(capsys, "train")
    assert "did you mean 'Courier-v0'" in fails(capsys, "train", "Curier-v0")
    assert "did you mean 'ucp-nr'" in fails(capsys, "train", "Courier-v0", "--method", "ucp-rn")
    assert "--budget 25" in fails(capsys, "train", "Courier-v0", "--method", "ucp-nr")
    assert "no policy at nowhere" in fails(capsys, "evaluate", "nowhere")
    assert "cannot read the budget" in fails(
        capsys, "train", "Courier-v0", "--budget-range", "zero", *QUICK
    )
    assert not (elsewhere / "runs").exists()


def test_an_existing_run_is_refused(capsys):
    main(["train", "Courier-v0", "--run", "here", *QUICK])
    assert "here exists already" in fails(capsys, "train", "Courier-v0", "--run", "here", *QUICK)


def test_a_misspelt_option_is_answered(capsys):
    assert "--env-steps" in fails(capsys, "train", "Courier-v0", "--env-step", "5")


def test_debug_shows_the_traceback():
    with pytest.raises(UsageError, match="no policy"):
        main(["evaluate", "nowhere", "--debug"])


def test_help_does_not_import_pytorch():
    code = (
        "import sys, contextlib, ucpo, ucpo.cli.main\n"
        "with contextlib.suppress(SystemExit): ucpo.cli.main.main(['--help'])\n"
        "heavy = {'torch', 'polars', 'matplotlib', 'numba', 'mujoco'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_reader_that_has_seen_enough_is_no_error():
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "ucpo", "train", "--help"]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash on this machine")
def test_bash_completes_commands_and_options(capsys, elsewhere):
    with pytest.raises(SystemExit) as stop:
        main(["completion", "bash"])
    assert not stop.value.code
    (elsewhere / "complete.bash").write_text(capsys.readouterr().out)

    def completed(*words):
        given = " ".join(map(shlex.quote, words))
        script = (
            f"source complete.bash; COMP_WORDS=({given}); COMP_CWORD={len(words) - 1}; "
            '_tyro_ucpo; printf "%s\\n" "${COMPREPLY[@]}"'
        )
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
        return set(done.stdout.split())

    assert completed("ucpo", "ev") == {"evaluate"}
    assert "--budgets" in completed("ucpo", "evaluate", "--bu")


def test_what_is_public_is_what_dir_shows():
    import ucpo

    assert {"UCP", "load", "train", "Controller", "__version__"} <= set(dir(ucpo))
    assert not [name for name in dir(ucpo) if name.startswith("_") and name != "__version__"]
    assert set(ucpo.__all__) <= set(dir(ucpo))


def test_a_value_of_an_option_is_not_taken_for_the_task(capsys):
    with pytest.raises(SystemExit):
        main(["train", "--seed", "1"])
    assert "which task?" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["train", "--networks.normalise", "--seed", "1", "Courier-v9"])
    assert "Courier-v9" in capsys.readouterr().err


def test_numbers_of_options_are_not_taken_for_the_task_either(capsys):
    with pytest.raises(SystemExit):
        main(["train", "--critic.rate", "-1", "Courier-v0"])
    assert capsys.readouterr().err == "ucpo: critic.rate must be above 0, got -1.0\n"
    with pytest.raises(SystemExit):
        main(["train", "--networks.hidden", "64", "64"])
    assert "which task?" in capsys.readouterr().err


def test_impossible_values_are_told_in_our_own_words(capsys):
    with pytest.raises(SystemExit):
        main(["train", "Courier-v0", "--critic.rate", "-1"])
    assert capsys.readouterr().err == "ucpo: critic.rate must be above 0, got -1.0\n"


def test_what_was_called_variant_is_told(capsys):
    with pytest.raises(SystemExit):
        main(["train", "Courier-v0", "--variant", "ucp-ds"])
    assert "--variant is called --method now" in capsys.readouterr().err


def test_methods_are_listed_with_a_sentence_and_their_parts(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    main(["methods"])
    said = " ".join(capsys.readouterr().out.split())
    assert "ucp-na A plain constrained agent" in said
    assert "learner ucp, multiplier pid, shaping none, utility mean, starts single" in said
