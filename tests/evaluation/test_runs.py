"""Evaluating a run folder: resumed, on several processes, with paths and calibration."""

import shlex
import sys

import numpy as np
import polars as pl
import pytest
from gymnasium import Env, register
from gymnasium.spaces import Box
from polars.testing import assert_frame_equal

from ucpo import UCP, UsageError
from ucpo.envs.illustration import Courier
from ucpo.envs.registry import make_task
from ucpo.evaluation import Request, evaluate, evaluate_run, make_jobs, workers
from ucpo.evaluation import runs as runs_module
from ucpo.policies.critics import CRITICS_FILE, load_critics
from ucpo.policies.policy import load

NETWORKS = {"hidden": (16, 16), "quantiles": 16}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    run = tmp_path_factory.mktemp("trained") / "run"
    discounts = {"gamma": 0.9, "cost_gamma": 0.95}
    agent = UCP("Courier-v0", seed=5, networks=NETWORKS, random_steps=100, **discounts)
    agent.learn(400, run=run, show=False)
    return run


@pytest.fixture
def run(trained, tmp_path):
    """A copy that may be written to."""
    for name in ("policy.safetensors", CRITICS_FILE):
        (tmp_path / name).write_bytes((trained / name).read_bytes())
    return tmp_path


def ask(run, episodes=6, budgets=(0.0, 4.0), **options):
    return Request(policy=run, budgets=budgets, episodes=episodes, **options)


def test_rows_say_whose_they_are_and_what_happened(run):
    rows = evaluate_run(ask(run)).episodes
    assert set(rows["training_seed"]) == {5}
    assert set(rows["env_steps"]) == {400}
    assert len(set(rows["policy"])) == 1
    spent = rows["budget_near_misses"] - rows["cost_near_misses"]
    assert rows["remaining_near_misses"].to_list() == spent.to_list()
    assert rows.drop("policy").null_count().sum_horizontal().item() == 0


def test_discounted_sums_are_those_of_the_steps(run):
    """From the rewards and costs of whole episodes, by Horner's rule."""
    result = evaluate_run(ask(run, save_paths=6, num_envs=4))
    paths = pl.read_parquet(run / "paths.parquet")
    keys = ["budget_near_misses", "episode_seed"]
    both = result.episodes.join(paths, on=keys, suffix="_path")
    assert len(both) == 12
    for row in both.iter_rows(named=True):
        for total, discounted, steps, gamma in (
            ("return", "discounted_return", "reward", 0.9),
            ("cost_near_misses", "discounted_cost_near_misses", "cost_near_misses_path", 0.95),
        ):
            value = 0.0
            for each in reversed(row[steps]):
                value = each + gamma * value
            assert row[total] == pytest.approx(sum(row[steps]), rel=1e-4, abs=1e-4)
            assert row[discounted] == pytest.approx(value, rel=1e-4, abs=1e-4)
        assert row["length"] == len(row["reward"])
        stock = row["stock_near_misses"]
        assert stock[0] == -row["budget_near_misses"]
        assert np.diff(stock) == pytest.approx(row["cost_near_misses_path"][:-1])


def test_more_episodes_and_budgets_only_add(run):
    first = evaluate_run(ask(run, episodes=3, budgets=(0.0,)))
    told = []
    second = evaluate_run(
        ask(run, episodes=5), begun=lambda kept, missing: told.append((kept, missing))
    )
    assert told == [(3, 7)]
    assert (first.played, second.played) == (3, 7)
    assert_frame_equal(second.episodes.head(3), first.episodes)
    assert evaluate_run(ask(run, episodes=5)).played == 0
    assert len(pl.read_parquet(run / "evaluation.parquet")) == 10


def test_an_interrupted_evaluation_goes_on_where_it_was(run, monkeypatch, tmp_path):
    whole = evaluate_run(ask(run, episodes=8, output=tmp_path / "other.parquet")).episodes

    def interrupted(work, policy, jobs, processes):
        for i, rows in enumerate(workers.share(work, policy, jobs, processes)):
            if i == 2:
                raise KeyboardInterrupt
            yield rows

    monkeypatch.setattr(runs_module, "share", interrupted)
    with pytest.raises(KeyboardInterrupt):
        evaluate_run(ask(run, episodes=8, num_envs=2))
    assert not (run / "evaluation.parquet").exists()
    monkeypatch.undo()
    rest = evaluate_run(ask(run, episodes=8))
    assert 0 < rest.played < 16
    assert_frame_equal(rest.episodes, whole)
    assert not (run / "evaluation.parts").exists()


def test_processes_and_batches_make_no_difference(run, tmp_path):
    results = [
        evaluate_run(
            ask(run, save_paths=1, calibrate=True, output=tmp_path / f"{i}.parquet", **how)
        ).episodes
        for i, how in enumerate(({"num_envs": 3}, {"num_envs": 2, "processes": 2}))
    ]
    assert_frame_equal(*results, check_exact=True)
    for kind in ("paths", "calibration"):
        one, other = (pl.read_parquet(tmp_path / f"{i}.{kind}.parquet") for i in range(2))
        assert_frame_equal(one, other, check_exact=True)


def test_the_last_bit_does_not_depend_on_the_batch_where_physics_is_chaotic():
    policy = UCP("SafetyPointGoal2-v0", num_envs=1, replay={"capacity": 1000}).policy()
    one, other = (
        evaluate(policy, make_task("SafetyPointGoal2-v0", n, max_episode_steps=60), [5.0], 8)
        for n in (1, 8)
    )
    assert_frame_equal(one, other, check_exact=True)


def test_what_goes_wrong_in_a_process_is_told(run):
    with pytest.raises(UsageError, match="does not fit"):
        evaluate_run(ask(run, processes=2, task="TwoActions-v0"))


def test_a_policy_that_learned_on_is_evaluated_anew(run):
    first = evaluate_run(ask(run, episodes=2))
    policy = load(run)
    policy.actor.body.layers.stack()[-1][1].add_(0.1)
    policy.save(run / "policy.safetensors")
    second = evaluate_run(ask(run, episodes=2))
    assert second.played == 4
    assert second.moved is not None
    kept = pl.read_parquet(second.moved)
    assert set(kept["policy"]) == set(first.episodes["policy"]) != set(second.episodes["policy"])


def test_another_evaluation_with_other_columns_is_not_overwritten(run):
    pl.DataFrame({"task": ["x"]}).write_parquet(run / "evaluation.parquet")
    with pytest.raises(UsageError, match="has no column budget_near_misses"):
        evaluate_run(ask(run))
    (run / "evaluation.parquet").write_bytes(b"nonsense")
    with pytest.raises(UsageError, match="cannot be read as Parquet"):
        evaluate_run(ask(run))


def test_seeds_are_distinct_and_more_of_them_begin_with_the_same(run):
    policy = load(run)
    few, many = (make_jobs(policy, [1.0], n, seed=3) for n in (10, 500))
    assert many[:10] == few
    assert len({job.seed for job in many}) == 500
    assert make_jobs(policy, [1.0, 1.0], 10, seed=3) == few  # a budget named twice is one budget
    assert make_jobs(policy, [1.0], 10, seed=4) != few


def test_predictions_are_compared_with_the_discounted_costs_that_followed(run):
    evaluate_run(ask(run, save_paths=6, calibrate=True))
    rows = pl.read_parquet(run / "calibration.parquet")
    paths = pl.read_parquet(run / "paths.parquet")
    gamma = 0.95
    both = rows.join(paths, on=["budget_near_misses", "episode_seed"], suffix="_path")
    assert len(both) == len(rows) > 12
    for row in both.iter_rows(named=True):
        costs = np.array(row["cost_near_misses"][row["age"] :])
        seen = float(np.sum(costs * gamma ** np.arange(len(costs))))
        if row["observed"] == 1.0:
            assert row["happened"] == pytest.approx(seen, rel=1e-4, abs=1e-4)
        else:
            assert row["observed"] == pytest.approx(1.0 - gamma ** len(costs))
        assert 0.0 <= row["pit_low"] < row["pit_high"] <= 1.0
        assert row["q05"] <= row["q50"] <= row["q95"]


def test_an_episode_cut_off_is_completed_by_what_the_critic_expects(run):
    """With critics that always say 7, the rest beyond the limit is 7, discounted."""
    from ucpo.evaluation.calibration import Calibration
    from ucpo.evaluation.episodes import play

    policy = load(run)
    critics = load_critics(run, policy.info)
    weight, bias = critics.critics.body.layers.stack()[-1]
    weight.zero_()
    bias.fill_(7.0)

    class CutOff(Courier):
        def advance(self, actions):
            out = super().advance(actions)
            out.costs[:] = 0.0
            out.truncated[:] = self.lengths >= 4  # the fifth step is the last
            out.terminated[:] = False
            return out

    task = CutOff(2)
    jobs = make_jobs(policy, [3.0], 2, seed=0)
    observers = {"calibration": Calibration(policy, critics, task)}
    rows = [row for seen in play(policy, task, jobs, observers) for row in seen["calibration"]]
    gamma = 0.95
    assert len(rows) >= 2
    for row in rows:
        left = 5 - row["age"]
        assert row["happened"] == pytest.approx(7.0 * gamma**left)
        assert row["observed"] == pytest.approx(1.0 - gamma**left)
        assert row["predicted"] == 7.0


def test_critics_are_saved_with_the_policy_and_damage_is_told(run):
    info = load(run).info
    critics = load_critics(run, info)
    assert critics.critics.body.layers.sizes[-1] == 16
    file = run / CRITICS_FILE
    with pytest.raises(UsageError, match="another moment of the training"):
        load_critics(run, type(info)(**{**vars(info), "updates": 0}))
    file.write_bytes(file.read_bytes()[:-40])
    with pytest.raises(UsageError, match="damaged"):
        load_critics(run, info)
    file.unlink()
    with pytest.raises(UsageError, match="there are no critics"):
        evaluate_run(ask(run, calibrate=True))


def test_saved_critics_are_those_that_were_trained(tmp_path):
    agent = UCP("Courier-v0", networks=NETWORKS, random_steps=100)
    agent.learn(300, run=tmp_path / "run", show=False)
    stored = load_critics(tmp_path / "run", load(tmp_path / "run").info).critics.state_dict()
    for name, value in agent.learner.critics.state_dict().items():
        assert (stored[name] == value).all()


@pytest.mark.parametrize("wrong", [{"processes": 0}, {"num_envs": 0}, {"episodes": 0}])
def test_impossible_requests_are_refused(run, wrong):
    with pytest.raises(UsageError, match="must be at least 1"):
        evaluate_run(ask(run, **wrong))


def test_held_episodes_have_files_and_fingerprints_of_their_own(run):
    plain = evaluate_run(ask(run, episodes=2))
    held = evaluate_run(ask(run, episodes=2, hold=4, save_paths=1, calibrate=True))
    assert (plain.output.name, held.output.name) == (
        "evaluation.parquet",
        "evaluation-hold4.parquet",
    )
    assert (run / "paths-hold4.parquet").is_file()
    assert not set(plain.episodes["policy"]) & set(held.episodes["policy"])
    ages = pl.read_parquet(run / "calibration-hold4.parquet")["age"]
    assert set(ages % 4) == {0}
    # Even where somebody asks for the same file, they do not mix: the others are moved aside.
    again = evaluate_run(ask(run, episodes=2, hold=2, output=plain.output))
    assert set(pl.read_parquet(plain.output)["policy"]) == set(again.episodes["policy"])
    assert len(pl.read_parquet(again.moved)) == len(plain.episodes)


def test_stopped_episodes_end_in_the_step_that_exceeds_the_budget(run):
    """The sums of whole episodes up to that step, from their paths."""
    whole = evaluate_run(ask(run, save_paths=6))
    stopped = evaluate_run(ask(run, stopped=True))
    assert stopped.output == run / "evaluation-stopped.parquet"
    assert set(stopped.episodes["policy"].str.slice(12)) == {"-stopped"}
    paths = pl.read_parquet(run / "paths.parquet")
    both = stopped.episodes.join(paths, on=["budget_near_misses", "episode_seed"], suffix="_path")
    assert len(both) == 12
    for row in both.iter_rows(named=True):
        spent = np.cumsum(row["cost_near_misses_path"])
        over = np.flatnonzero(spent > row["budget_near_misses"])
        end = over[0] if len(over) else len(spent) - 1
        assert row["length"] == end + 1
        assert row["cost_near_misses"] == pytest.approx(spent[end])
        assert row["return"] == pytest.approx(sum(row["reward"][: end + 1]), rel=1e-4, abs=1e-4)
    assert stopped.episodes["length"].sum() < whole.episodes["length"].sum()
    with pytest.raises(UsageError, match="leave one of --stopped and --calibrate out"):
        evaluate_run(ask(run, stopped=True, calibrate=True))


def test_an_output_that_cannot_be_written_is_noticed_before_anything_is_played(run, monkeypatch):
    monkeypatch.setattr(runs_module, "share", lambda *a: pytest.fail("played"))
    (run / "file").write_text("")
    for place in (run, run / "file" / "rows.parquet"):
        with pytest.raises(UsageError, match="name another file with --output"):
            evaluate_run(ask(run, output=place))


def test_rows_of_another_task_in_the_same_file_are_said_aloud(run, caplog):
    evaluate_run(ask(run, episodes=2))
    register("Courier-like-v0", Likewise)
    evaluate_run(ask(run, episodes=2, task="Courier-like-v0"))
    assert "several tasks now (Courier-like-v0, Courier-v0)" in caplog.text
    assert set(pl.read_parquet(run / "evaluation.parquet")["task"]) == {
        "Courier-like-v0",
        "Courier-v0",
    }


class Likewise(Env):
    """Another task of the same sizes and cost."""

    observation_space = Box(-1.0, 1.0, (2,))
    action_space = Box(-1.0, 1.0, (1,))

    def reset(self, *, seed=None, options=None):
        return np.zeros(2, np.float32), {}

    def step(self, action):
        return np.zeros(2, np.float32), 1.0, True, False, {"costs": {"near_misses": 1.0}}


def test_a_policy_file_does_not_decide_what_is_imported(run, monkeypatch):
    policy = load(run)
    object.__setattr__(policy.info, "task", "antigravity:My Env-v0")
    place = run / "a folder" / "policy.safetensors"
    place.parent.mkdir()
    policy.save(place)
    monkeypatch.setitem(sys.modules, "antigravity", None)
    with pytest.raises(UsageError) as refused:
        evaluate_run(ask(place))
    pasted = str(refused.value).partition("own: ")[2]
    given = ["ucpo", "evaluate", str(place), "--task", "antigravity:My Env-v0"]
    assert shlex.split(pasted) == given


def test_where_a_class_was_trained_on_the_remedy_is_said(run):
    policy = load(run)
    object.__setattr__(policy.info, "task", "MyEnv")
    policy.save(run / "policy.safetensors")
    with pytest.raises(UsageError, match="--task my_module:MyEnv"):
        evaluate_run(ask(run))
