import numpy as np
import polars as pl
import pytest

from ucpo import UCP, Policy, UsageError
from ucpo.envs.illustration import Courier, TwoActions
from ucpo.envs.registry import make_task
from ucpo.evaluation import evaluate


@pytest.fixture(scope="module")
def policy():
    agent = UCP("Courier-v0", env_steps=100, num_envs=2)
    return agent.policy()


def test_every_budget_meets_the_same_seeds(policy):
    rows = evaluate(policy, Courier(4), [0.0, 2.5], 10)
    seeds = rows.group_by("budget_near_misses", maintain_order=True).agg("episode_seed")
    assert seeds["budget_near_misses"].to_list() == [0.0, 2.5]
    assert seeds["episode_seed"][0].to_list() == seeds["episode_seed"][1].to_list()
    assert len(set(seeds["episode_seed"][0])) == 10


def test_results_do_not_depend_on_the_size_of_the_batch(policy):
    one, many = (evaluate(policy, Courier(n), [1.0, 5.0], 7) for n in (1, 5))
    assert one.select(pl.exclude("return")).equals(many.select(pl.exclude("return")))
    assert np.allclose(one["return"], many["return"], atol=1e-5)


def test_the_stock_is_reset_to_minus_the_budget_exactly(policy):
    seen = []
    task = Courier(3)
    original = task.reset

    def reset(starts, discount):
        obs, stock = original(starts, discount)
        seen.extend(stock[:, 0].tolist())
        return obs, stock

    task.reset = reset
    evaluate(policy, task, [7.0], 3)
    assert seen == [-7.0] * 3


def test_long_episodes_count_as_much_as_short_ones():
    """Taking whatever ends first would see only the short ones."""
    agent = UCP("TwoActions-v0", env_steps=100, num_envs=2)
    policy = agent.policy()
    # Stays as long as the stock is at most -1, so the budget is the length of the episode.
    policy.act = lambda obs, stock: np.where(stock <= -1.0, 1.0, -1.0)
    rows = evaluate(policy, TwoActions(4), [15.0, 0.0, 3.0], 6)
    assert rows["length"].to_list() == [16] * 6 + [1] * 6 + [4] * 6
    assert rows["cost_cost"].to_list() == rows["budget_cost"].to_list() == rows["return"].to_list()


def test_progress_adds_up_to_the_episodes(policy):
    told = []
    evaluate(policy, Courier(4), [0.0, 2.0], 5, done=told.append)
    assert sum(told) == 10


def test_impossible_requests_are_refused(policy):
    with pytest.raises(UsageError, match="outside the range"):
        evaluate(policy, Courier(1), [30.0], 1)
    with pytest.raises(UsageError, match="at least 1"):
        evaluate(policy, Courier(1), [3.0], 0)
    with pytest.raises(UsageError, match="does not fit"):
        evaluate(policy, make_task("Courier2-v0", 1), [3.0], 1)


def test_held_actions_last_as_long_as_they_are_held_in_each_episode_for_itself():
    """Stays while 3 costs are left, decided at ages 0, 4, 8, ...: then it ends."""
    policy = UCP("TwoActions-v0", env_steps=100, num_envs=2).policy()
    policy.act = lambda obs, stock: np.where(stock <= -3.0, 1.0, -1.0)
    rows = evaluate(policy, TwoActions(2), [2.0, 3.0, 6.0, 7.0], 2, hold=4)
    # Budget 2: ends at once. 3: stays for 4 steps, has -1 left, ends. 6: at age 4 there are 2
    # left, ends. 7: at age 4 there are 3 left, stays until age 8, ends.
    lengths = {2.0: 1, 3.0: 5, 6.0: 5, 7.0: 9}
    assert [lengths[budget] for budget in rows["budget_cost"]] == rows["length"].to_list()
    assert set(rows["policy"].str.slice(12)) == {"-hold4"}
    every = evaluate(policy, TwoActions(2), [6.0], 1)
    assert every["length"].to_list() == [5]  # -6, -5, -4, -3 stay, -2 ends
    assert every["policy"].str.len_chars().to_list() == [12]


def test_an_evaluation_uses_one_thread_and_gives_the_others_back(monkeypatch):
    import torch

    agent, seen = UCP("Courier-v0", networks={"hidden": [8], "quantiles": 4}), []
    torch.set_num_threads(2)
    act = Policy.act
    monkeypatch.setattr(
        Policy, "act", lambda *args: seen.append(torch.get_num_threads()) or act(*args)
    )
    agent.evaluate([5.0], 1)
    assert set(seen) == {1}
    assert torch.get_num_threads() == 2
    torch.set_num_threads(1)
