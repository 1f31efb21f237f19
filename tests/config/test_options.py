import pytest

from ucpo.config.offpolicy_options import OffPolicyConfig
from ucpo.config.options import EntropyConfig, MultiplierConfig, ReplayConfig, RunConfig
from ucpo.errors import UsageError


def test_the_defaults_are_valid():
    assert RunConfig().method == "ucp"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RunConfig(gamma=1.5), "gamma must be above 0 and at most 1, got 1.5"),
        (lambda: RunConfig(cost_gamma=0.0), "cost_gamma must be above 0 and at most 1, got 0.0"),
        (lambda: RunConfig(num_envs=0), "num_envs must be at least 1, got 0"),
        (lambda: RunConfig(num_envs=99, replay=ReplayConfig(capacity=64)), "least num_envs=99"),
        (lambda: ReplayConfig(n_step=0), "n_step must be"),
        (lambda: ReplayConfig(relabel=1.5), "relabel must be at most 1.0, got 1.5"),
        (
            lambda: RunConfig(stock="discounted", replay=ReplayConfig(relabel=0.5)),
            "relabel needs undiscounted stocks",
        ),
        (lambda: EntropyConfig(rate=0.1), "must start above 0"),
        (lambda: RunConfig(starts="single"), "--budget 25"),
        (lambda: MultiplierConfig(gains=(0.1, 0.2)), "three numbers"),
        (
            lambda: OffPolicyConfig(exploration=0.1, final_exploration=0.2),
            "above 0 and at most the exploration, 0.1, got 0.2",
        ),
    ],
)
def test_values_without_sense_are_refused_with_what_would_make_it(make, message):
    with pytest.raises(UsageError, match=message):
        make()


def test_costs_are_discounted_as_rewards_are_unless_told_otherwise():
    assert RunConfig(gamma=0.9).discount_of_costs == 0.9
    config = RunConfig(gamma=0.9, cost_gamma=0.95)
    assert (config.discount_of_costs, config.stock_discount) == (0.95, 1.0)
    assert RunConfig(gamma=0.9, cost_gamma=0.95, stock="discounted").stock_discount == 0.95


def test_runs_are_named_by_one_rule_and_their_budget_is_part_of_it():
    assert RunConfig(task="a/b:C-v0", seed=2).folder.as_posix() == "a-b-C-v0/ucp-seed2"
    one = RunConfig(method="ucp-nr", starts="single", budget=("hazards=5", "vases=2"))
    assert one.name == "ucp-nr-hazards5-vases2-seed0"
