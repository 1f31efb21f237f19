"""What a sweep's file asks for, and what its runs are called."""

import pytest

from ucpo import UsageError
from ucpo.runs.sweep.plan import Evaluation, make_plan, read_plan


def names(table):
    return [run.name for run in make_plan(table).runs]


def test_lists_are_crossed_and_runs_named_by_task_method_budget_and_seed():
    found = names(
        {
            "task": ["Courier-v0", "TwoActions-v0"],
            "method": ["ppo-lag", "sac-lag"],
            "budget": [5, 10],
            "seed": [0, 1],
        }
    )
    assert len(found) == len(set(found)) == 16
    assert found[0] == "Courier-v0/ppo-lag-5-seed0"
    assert found[-1] == "TwoActions-v0/sac-lag-10-seed1"


def test_an_option_that_was_a_list_is_part_of_the_name_even_if_it_has_one_value():
    rate = {"critic": {"rate": [1e-4]}}
    assert names({"task": "Courier-v0", **rate}) == ["Courier-v0/ucp-critic.rate=0.0001-seed0"]
    assert names({"task": "Courier-v0", "critic": {"rate": 1e-4}}) == ["Courier-v0/ucp-seed0"]


def test_an_option_that_is_a_list_itself_takes_lists_of_lists():
    one = make_plan({"task": "Courier-v0", "networks": {"hidden": [16, 16]}}).runs
    assert [run.config.networks.hidden for run in one] == [(16, 16)]
    two = make_plan({"task": "Courier-v0", "networks": {"hidden": [[16, 16], [8]]}}).runs
    assert [run.config.networks.hidden for run in two] == [(16, 16), (8,)]
    assert two[0].name == "Courier-v0/ucp-networks.hidden=16x16-seed0"


def test_budgets_of_several_costs_are_one_value_and_plain_ones_several():
    both = ["near_misses=2", "fines=3"]
    (one,) = make_plan({"task": "Courier2-v0", "method": "ucp-nr", "budget": both}).runs
    assert one.config.budget == ("near_misses=2", "fines=3")
    ranges = make_plan({"task": "Courier-v0", "budget_range": ["0:5", "0:9"]}).runs
    assert [run.config.budget_range for run in ranges] == [("0:5",), ("0:9",)]


def test_tables_of_runs_add_to_what_is_common_and_each_is_crossed_for_itself():
    plan = make_plan(
        {
            "task": "Courier-v0",
            "seed": [0, 1],
            "networks": {"hidden": [16]},
            "runs": [
                {"method": "ucp", "networks": {"quantiles": 8}},
                {"method": "ppo-lag", "budget": [5, 10]},
            ],
        }
    )
    assert [run.name.partition("/")[2] for run in plan.runs] == [
        "ucp-seed0",
        "ucp-seed1",
        "ppo-lag-5-seed0",
        "ppo-lag-10-seed0",
        "ppo-lag-5-seed1",
        "ppo-lag-10-seed1",
    ]
    assert plan.runs[0].config.networks.hidden == (16,)
    assert plan.runs[0].config.networks.quantiles == 8
    assert plan.runs[-1].config.networks.quantiles != 8


def test_tables_of_runs_that_differ_in_an_option_are_told_apart_by_it():
    found = names({"task": "Courier-v0", "runs": [{"gamma": 0.9}, {"gamma": 0.99}]})
    assert found == ["Courier-v0/ucp-gamma=0.9-seed0", "Courier-v0/ucp-gamma=0.99-seed0"]


def test_a_run_asked_for_twice_is_one_run():
    assert names({"task": "Courier-v0", "seed": [3, 3]}) == ["Courier-v0/ucp-seed3"]


def test_what_is_evaluated_can_be_said():
    table = {"task": "Courier-v0", "evaluate": {"episodes": 50, "budgets": [0, 5], "seed": 7}}
    assert make_plan(table).evaluation == Evaluation(50, ("0", "5"), 7)
    assert make_plan({"task": "Courier-v0", "evaluate": {"budgets": 0}}).evaluation.budgets == (
        "0",
    )


@pytest.mark.parametrize(
    ("table", "answer"),
    [
        ({}, "which task?"),
        ({"task": "Courier-v0", "sede": 1}, "no option 'sede'; did you mean 'seed'?"),
        ({"task": "Courier-v0", "critic": {"rat": 1}}, "no option 'critic.rat'; did you mean"),
        ({"task": "Courier-v0", "seed": []}, "seed is an empty list"),
        ({"task": "Courier-v0", "runs": []}, "runs is an empty list"),
        ({"task": "Courier-v0", "runs": [{"method": []}]}, "method is an empty list"),
        ({"task": "Courier-v0", "runs": 3}, r"\[\[runs\]\]"),
        ({"task": "Courier-v0", "evaluate": 3}, r"\[evaluate\]"),
        ({"task": "Courier-v0", "evaluate": {"episode": 3}}, "did you mean 'episodes'"),
        ({"task": "Courier-v0", "evaluate": {"episodes": -3}}, "at least 0, got -3"),
        ({"task": ["Courier-v0", "Courier-v9"]}, "Courier-v9"),
        ({"task": "Courier-v0", "method": "upc"}, "no method 'upc'; did you mean 'ucp'"),
        ({"task": "Courier-v0", "method": "ppo-lag"}, "say which, e.g. --budget 25"),
        ({"task": "Courier-v0", "gamma": [0.99999991, 0.99999992]}, "would be called"),
    ],
)
def test_what_cannot_work_is_said_in_a_sentence(table, answer):
    with pytest.raises(UsageError, match=answer):
        make_plan(table)


def test_a_file_that_is_not_there_or_no_toml_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"there is no file nowhere\.toml"):
        read_plan(tmp_path.relative_to(tmp_path) / "nowhere.toml")
    (tmp_path / "bad.toml").write_text("task = ")
    with pytest.raises(UsageError, match="is not valid TOML"):
        read_plan(tmp_path / "bad.toml")
    (tmp_path / "odd.toml").write_text("tsk = 1")
    with pytest.raises(UsageError, match=r"sweep .*odd.toml: no option 'tsk'"):
        read_plan(tmp_path / "odd.toml")
