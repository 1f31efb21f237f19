"""The ruler: known policies have known gaps, and mistakes are answered before any training."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

from ucpo import UCP
from ucpo.cli.main import main
from ucpo.envs.finite import FiniteTask
from ucpo.envs.registry import make_task
from ucpo.errors import UsageError
from ucpo.evaluation import evaluate
from ucpo.exact import Branch, FiniteProblem, solve
from ucpo.exact.problems import crossing, fords, streets, timed_two_actions
from ucpo.problem import EXCESS, MEAN, Constraint, Problem
from ucpo.reports.gap import gap_figure, gap_table, over_seeds
from ucpo.runs.gap import acting, best, losses, measure_gap, solved, worth

QUICK = {"env_steps": 400, "random_steps": 200, "networks": {"hidden": [8]}}


def always(action, actions):
    return lambda states, stock, time: np.tile(np.eye(actions)[action], (len(states), 1))


def coin(horizon=2, unit=1.0):
    """Each step pays 3 and costs a unit, with probability 1/2 each on its own."""
    halves = [(reward, cost) for reward in (0.0, 3.0) for cost in (0.0, unit)]
    branches = {(0, 0): [Branch(0.25, 0, reward, (cost,)) for reward, cost in halves]}
    return FiniteProblem(branches, [1.0], horizon=horizon, cost_unit=unit, name="coin")


def toll():
    """One cell costs 1, whatever is done."""
    return FiniteProblem({(0, 0): [Branch(1.0, None, 1.0, (1.0,))]}, [1.0], horizon=1, name="toll")


# What a policy is worth


def test_a_policy_counted_out_by_hand():
    seen = worth(coin(), always(0, 1), budget=1.0)
    assert (seen.value, seen.cost, seen.exceeded, seen.excess) == (3.0, 1.0, 0.25, 0.25)
    seen = worth(coin(), always(0, 1), budget=0.5)
    assert (seen.exceeded, seen.excess) == (0.75, 0.5 * 0.5 + 0.25 * 1.5)
    staying = worth(timed_two_actions(3), always(1, 2), budget=1.0)
    assert (staying.value, staying.cost, staying.exceeded, staying.excess) == (3.0, 3.0, 1.0, 2.0)


def test_costs_that_are_no_binary_fractions_do_not_exceed_their_own_sum():
    assert worth(coin(3, unit=0.1), always(0, 1), budget=0.3).exceeded == 0.0


def test_the_policy_sees_the_stock_the_agent_would_see():
    seen = []

    def choose(states, stock, time):
        seen.append(sorted(stock.tolist()))
        return np.ones((len(states), 1))

    worth(coin(), choose, budget=2.0, stock_discount=0.5)
    assert seen == [[-2.0], [-4.0, -2.0]]  # (-2 + cost) / 0.5


@pytest.mark.parametrize("problem", [streets(), fords(), crossing()], ids=lambda p: p.name)
def test_the_exact_policy_played_through_the_task_has_no_gap(problem):
    (solution,) = solve(problem, Problem((Constraint("cost", EXCESS, 0.0),)), [-2.0])
    task = FiniteTask(problem, 1)

    def act(obs, stock):
        states = obs[:, :-1].argmax(1)
        times = np.round((1.0 - obs[:, -1]) * problem.horizon).astype(int)
        rows = zip(states.tolist(), stock[:, 0].tolist(), times.tolist(), strict=True)
        return task.encode(states, np.array([solution.policy(*row).argmax() for row in rows]))

    seen = worth(problem, acting(SimpleNamespace(act=act), task), 2.0)
    assert seen.value == pytest.approx(solution.value, abs=1e-9)
    assert seen.excess == seen.exceeded == 0.0


@pytest.mark.parametrize("discounted", [False, True])
def test_following_a_policy_agrees_with_playing_it(discounted):
    # Not trained: any policy that uses the stock will do.
    agent = UCP("Fords-v0", seed=1, gamma=0.8, stock="discounted" if discounted else "shown")
    task, policy = make_task("Fords-v0", 64), agent.policy()
    seen = worth(fords(), acting(policy, task), 1.0, policy.info.stock_discount)
    played = evaluate(policy, task, [1.0], episodes=2000)
    for column, said in (("return", seen.value), ("cost_cost", seen.cost)):
        values = played[column].to_numpy()
        assert abs(values.mean() - said) <= 4.5 * values.std() / np.sqrt(len(values)) + 1e-9


def test_other_constraints_have_optima_of_their_own():
    within, average = best(fords(), 1.0), best(fords(), 1.0, MEAN)
    assert within.value == pytest.approx(-9.0) and within.excess == 0.0
    assert average.value == pytest.approx(-8.0) and average.cost == pytest.approx(1.0)
    assert average.excess > 0.4
    # A discounted stock thinks costs to come are small, and overspends what it is given.
    inflated = best(streets(), 2.0, EXCESS, 0.9, 0.9)
    assert inflated.excess > 1.0 and inflated.value > best(streets(), 2.0).value


def test_solved_policies_may_roll_dice():
    (mean,) = solve(fords(), Problem((Constraint("cost", MEAN, 0.0),)), [-1.0])
    assert worth(fords(), solved(mean.policy), 1.0).value == pytest.approx(mean.value)


def test_losses_by_step_are_where_the_policy_errs_and_add_up_to_the_gap():
    (solution,) = solve(streets(), Problem((Constraint("cost", EXCESS, 0.0),)), [-2.0])
    exact = solved(solution.policy)

    def timid(states, stock, time):  # safe in the third street, whatever its risk
        return always(0, 2)(states, stock, time) if time == 2 else exact(states, stock, time)

    lost = losses(streets(), timid, 2.0)
    assert lost[2] > 0.05 and np.abs(np.delete(lost, 2)).max() < 1e-9
    gap = best(streets(), 2.0).value - worth(streets(), timid, 2.0).value
    assert lost.sum() == pytest.approx(gap)
    with pytest.raises(UsageError, match="need a horizon"):
        losses(FiniteProblem({(0, 0): [Branch(1.0, None)]}, [1.0]), always(0, 1), 1.0)


# Training and measuring


def test_one_row_for_each_method_seed_and_budget(tmp_path):
    rows = measure_gap(
        fords(),
        methods=("ucp", "ucp-nr", "ucp-mean"),
        seeds=(0, 1),
        budgets=(1.0, 2.0),
        folder=tmp_path / "runs",
        show=False,
        **QUICK,
    )
    assert len(rows) == 3 * 2 * 2 and rows["task"].unique().to_list() == ["fords"]
    assert len(list(tmp_path.glob("runs/ucp-nr-*-seed?/policy.safetensors"))) == 4
    levels = dict(rows.select("method", "levels").unique().iter_rows())
    assert levels == {"ucp": 7, "ucp-nr": 1, "ucp-mean": 7}
    one = rows.filter(budget=1.0, seed=0)
    assert one["optimum"].to_list() == pytest.approx([-9.0] * 3)
    assert one["own_return"].to_list() == pytest.approx([-9.0, -9.0, -8.0])


def test_a_discounted_stock_with_too_many_values_has_no_optimum_of_its_own(monkeypatch):
    monkeypatch.setattr("ucpo.runs.gap.MAX_STATES", 4_000)
    quick = {**QUICK, "show": False, "gamma": 0.9, "budgets": (4.0,)}
    (row,) = measure_gap("Streets-v0", methods=["ucp-ds"], **quick).to_dicts()
    assert np.isnan(row["own_return"]) and row["optimum"] == pytest.approx(10.378, abs=1e-3)


def test_budgets_are_four_across_the_range_unless_given():
    rows = measure_gap("Fords-v0", budget_range="0:3", budget_levels=4, show=False, **QUICK)
    assert rows["budget"].to_list() == [0.0, 1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    ("problem", "options", "message"),
    [
        ("Street-v0", {}, "did you mean 'Streets-v0'"),
        ("Courier-v0", {}, "no finite problem 'Courier-v0'"),
        ("no_such_module:problem", {}, "PYTHONPATH"),
        ("ucpo.exact.problems:swamp", {}, "has no attribute 'swamp'"),
        ("ucpo.exact.problems:CROSSING", {}, "not a ucpo.exact.FiniteProblem"),
        ("Streets-v0", {"budgets": (99.0,)}, "outside the range trained for"),
        ("Streets-v0", {"seeds": ()}, "at least one method and one seed"),
        ("Streets-v0", {"folder": Path.cwd()}, "exists already"),
        ("Streets-v0", {"methods": ("ucp", "ucp-rn")}, "did you mean 'ucp-nr'"),
        (toll(), {"budgets": (0.5,)}, "no policy meets the constraints"),
        (
            FiniteProblem({(0, 0): [Branch(1.0, None)]}, [1.0], ("wear", "gas"), horizon=1),
            {"budget_range": "0:1"},
            "one cost",
        ),
    ],
)
def test_mistakes_are_answered_before_any_training(problem, options, message, monkeypatch):
    monkeypatch.setattr(UCP, "learn", lambda *_, **__: pytest.fail("trained"))
    with pytest.raises(UsageError, match=message):
        measure_gap(problem, **options)


# Reports


def measurements():
    shared = {"task": "t", "levels": 5, "gamma": 1.0, "optimum": -10.0, "cost": 1.0}
    shared |= {"exceeded": 0.0, "own_return": -10.0, "own_excess": 0.0, "method": "ucp"}
    seen = [(1.0, 0, -10.5, 0.0), (1.0, 1, -10.6, 0.0), (2.0, 0, -9.0, 0.06), (2.0, 1, -10.0, 0.04)]
    return pl.DataFrame(
        [
            {**shared, "budget": budget, "seed": seed, "return": value, "excess": excess}
            for budget, seed, value, excess in seen
        ]
    )


def test_close_means_both_near_the_optimum_and_within_the_budget():
    first, second = over_seeds(measurements()).to_dicts()
    assert (first["close"], second["close"], first["seeds"]) == (1, 1, 2)
    assert (second["return"], second["worst"]) == (-9.5, 0.06)
    # Student's t for one degree of freedom: 12.706 standard errors.
    assert first["return_ci95"] == pytest.approx(12.706 * 0.05, rel=1e-4)
    assert "2 of 4" in gap_table(measurements()).caption


def test_the_figure_is_drawn(tmp_path):
    gap_figure(measurements(), tmp_path / "new" / "gap.png")
    assert (tmp_path / "new" / "gap.png").stat().st_size > 10_000


# The command line


def test_the_gap_on_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "quick.toml").write_text("random_steps = 200\nbudget_range = ['0:3']\n")
    options = ["--preset", "quick.toml", "--env-steps", "400", "--budget-levels", "4"]
    main(["measure-gap", "Fords-v0", "--budgets", "1", "2", *options, "--output", "out"])
    assert "of 2 measurements" in " ".join(capsys.readouterr().out.split())
    rows = pl.read_csv("out/gap.csv")
    assert rows["levels"].to_list() == [4, 4] and rows["env_steps"].to_list() == [400, 400]
    assert (tmp_path / "out" / "ucp-seed0" / "policy.safetensors").is_file()
    assert (tmp_path / "out" / "gap.png").is_file()
    with pytest.raises(SystemExit) as stop:
        main(["measure-gap", "Street-v0"])
    assert stop.value.code == 2 and "did you mean" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "budgets"),
    [("Streets-v0", (0.0, 1.0, 2.0, 4.0)), ("TwoActionsTimed-v0", (1.0, 2.0, 4.0, 6.0))],
)
def test_ucp_is_within_five_percent_of_the_optimum_and_within_its_budget(task, budgets):
    for row in measure_gap(task, budgets=budgets, show=False).iter_rows(named=True):
        assert row["return"] >= row["optimum"] - 0.05 * abs(row["optimum"]), row
        assert row["excess"] < 0.05, row
