"""On-policy methods as files, presets that know learners, and what is refused."""

import dataclasses

import numpy as np
import pytest

from ucpo.config.assembly import make_grid, make_learner, make_task
from ucpo.config.files import method_names, read_config, read_method, resolve, to_toml
from ucpo.envs.interface import TaskSpec
from ucpo.envs.shaping import EarlyTermination, Staggered
from ucpo.errors import UsageError

SPEC = TaskSpec("Test", 3, (-1.0, -1.0), (1.0, 1.0), ("cost",), 100)
ON_POLICY = [name for name in method_names() if read_method(name)[1]["learner"] == "ppo"]


def config_of(method, task="X", **changes):
    single = read_method(method)[1]["starts"] == "single"
    given = {"cost_units": "1"} | ({"budget": "5"} if single else {})
    return resolve(task, method=method, **{**given, **changes})


def make(method, spec=SPEC, **changes):
    config = config_of(method, **changes)
    return make_learner(config, spec, make_grid(config, spec), np.random.default_rng(0))


def test_the_methods_of_the_comparison_are_there():
    assert {
        *("ppo", "ppo-lag", "ppo-pid", "ppo-saute", "ppo-saute-any", "ppo-et", "ppo-et-any"),
        *("ppo-jiang", "ucp-ppo", "oncrpo", "focops", "p3o", "trpo-lag", "trpo-et", "cpo"),
    } <= set(ON_POLICY)


@pytest.mark.parametrize("method", ON_POLICY)
def test_every_method_makes_a_learner_and_survives_its_file(method, tmp_path):
    learner = make(method)
    unpriced = (
        "ppo",
        "ppo-saute",
        "ppo-saute-any",
        "ppo-simmer",
        "ppo-et",
        "ppo-et-any",
        "trpo-et",
    )
    priced = method not in unpriced
    assert len(learner.values.mean) == 1 + priced
    config = config_of(method)
    (tmp_path / "config.toml").write_text(to_toml(config))
    assert read_config(tmp_path / "config.toml") == config


def test_presets_say_values_for_a_learner_and_then_for_a_method(tmp_path):
    mine = tmp_path / "mine.toml"
    mine.write_text(
        "gamma = 0.5\nnum_envs = 3\n"
        "[learners.ppo]\nnum_envs = 5\n"
        '[learners.ppo.tasks."Y*"]\nnum_envs = 7\n'
        "[methods.ppo-lag.multiplier]\nrate = 0.5\n"
        '[methods."*-lag".tasks."Y*".multiplier]\nrate = 0.25\n'
    )

    def numbers(method, task):
        config = config_of(method, task, preset=str(mine))
        return config.num_envs, config.gamma, config.multiplier.rate

    assert numbers("ucp", "X")[:2] == (3, 0.5)
    assert numbers("ppo", "X")[:2] == (5, 0.5)
    assert numbers("ppo-lag", "X") == (5, 0.5, 0.5)
    assert numbers("ppo-lag", "Y1") == (7, 0.5, 0.25)
    assert numbers("trpo-lag", "X")[2] == 0.035  # the method's own
    mine.write_text("learners = 3\n")
    with pytest.raises(UsageError, match="learners must be tables"):
        config_of("ucp", preset=str(mine))


def test_presets_leave_what_they_say_of_ucp_alone():
    ucp = resolve("SafetyPointGoal1-v0", preset="navigation")
    assert (ucp.num_envs, ucp.hold, ucp.networks.hidden, ucp.gamma) == (8, 4, (128, 128), 0.999)
    short = config_of("ppo-lag", "SafetyPointGoal1-v0", preset="navigation")
    assert (short.num_envs, short.hold, short.networks.hidden) == (64, 4, (64, 64))
    assert (short.gamma, short.networks.normalise) == (0.99, True)
    assert short.multiplier.rate == 0.06
    circle = config_of("ppo-lag", "SafetyPointCircle1-v0", preset="navigation")
    assert (circle.hold, circle.multiplier.rate) == (1, 0.03)
    velocity = config_of("ppo-lag", "SafetyHopperVelocity-v1", preset="velocity")
    assert (velocity.ppo.rollout, velocity.multiplier.rate) == (128, 0.01)
    assert velocity.networks.normalise


def test_omnisafes_settings():
    lag = config_of("ppo-lag", "SafetyHopperVelocity-v1", preset="omnisafe-velocity")
    assert (lag.num_envs * lag.ppo.rollout, lag.ppo.minibatch, lag.ppo.passes) == (2048, 64, 40)
    assert (lag.multiplier.rate, lag.multiplier.window, lag.multiplier.initial) == (0.035, 50, 1e-3)
    assert (lag.ppo.unit_share, lag.ppo.regulariser, lag.ppo.norm) == (0.0, 1e-3, 40.0)
    saute = config_of("ppo-saute", "SafetyHopperVelocity-v1", preset="omnisafe-velocity")
    assert (saute.stock, saute.stock_discount, saute.shaping.penalty) == ("discounted", 0.999, 1.0)
    goal = config_of("ppo-saute", "SafetyPointGoal1-v0", preset="omnisafe-navigation")
    assert (goal.cost_gamma, goal.shaping.penalty, goal.ppo.passes) == (0.9999, 0.2, 80)
    assert not goal.networks.normalise
    # Twenty whole episodes, from beginning to end, as if environments were reset before each.
    assert (goal.num_envs, goal.ppo.rollout, goal.ppo.stagger) == (20, 1000, False)


def test_costs_are_summed_to_the_horizon_where_there_is_one():
    timed, endless = make("ucp-ppo"), make("ucp-ppo", TaskSpec(*SPEC_WITHOUT_LIMIT))
    assert (timed.signals.gammas[1], timed.signals.bootstraps) == (1.0, (True, False))
    assert timed.values.timed
    assert (endless.signals.gammas[1], endless.signals.bootstraps) == (0.99, (True, True))
    assert not endless.values.timed
    discounted = make("ucp-ppo", ppo={"costs": "discounted"}, cost_gamma=0.95)
    assert discounted.signals.gammas == (0.99, 0.95)
    with pytest.raises(UsageError, match=r"needs a time limit.*ppo\.costs = .discounted"):
        make("ucp-ppo", TaskSpec(*SPEC_WITHOUT_LIMIT), ppo={"costs": "horizon"})


SPEC_WITHOUT_LIMIT = ("Test", 3, (-1.0,), (1.0,), ("cost",), None)


def test_tasks_are_shaped_as_methods_ask():
    spread = make_task("Courier-v0", config_of("ppo-et", "Courier-v0"))
    assert isinstance(spread, Staggered)
    assert isinstance(spread.task, EarlyTermination)
    together = make_task("Courier-v0", config_of("ppo", ppo={"stagger": False}))
    assert not isinstance(together, Staggered)
    assert not isinstance(make_task("Courier-v0", config_of("ucp")), Staggered)


@pytest.mark.parametrize(
    ("method", "changes", "words"),
    [
        ("ppo-lag", {"budget": ()}, "trains for one budget; say which, e.g. --budget 25"),
        ("ppo-pid", {"budget": (), "starts": "grid"}, "one budget, not of a range; give --budget"),
        ("oncrpo", {"budget": (), "starts": "grid"}, "one budget, not for a range; give --budget"),
        ("p3o", {"budget": (), "starts": "grid"}, "one budget, not for a range; give --budget"),
        ("cpo", {"budget": (), "starts": "grid"}, "one budget, not for a range; give --budget"),
        ("pcpo", {"budget": (), "starts": "grid"}, "one budget, not for a range; give --budget"),
        ("ppo-saute", {"multiplier": {"kind": "clamped"}}, "penalises costs already"),
        (
            "sac-saute",
            {"multiplier": {"kind": "clamped"}, "utility": "mean"},
            "penalises costs already, so sac-saute goes without a price",
        ),
        ("ppo-jiang", {"multiplier": {"initial": 1.0}}, "penalises costs already"),
        ("ucp-ppo", {"stock": "discounted"}, "stock = .shown"),
        ("p3o", {"multiplier": {"kind": "clamped"}}, "without a price"),
        ("ppo-pid", {"multiplier": {"window": 0}}, "window must be at least 1"),
        ("ppo", {"ppo": {"minibatch": 0}}, "ppo.minibatch must be at least 1"),
        ("ppo", {"ppo": {"actor_rate": 0.0}}, "ppo.actor_rate must be above 0"),
        ("ppo", {"ppo": {"update": "sgd"}}, "ppo.update: no 'sgd'"),
        ("ucp", {"multiplier": {"window": 0}}, "or choose learner ppo"),
        ("ucp", {"multiplier": {"kind": "switch"}}, "or choose learner ppo"),
        ("ucp", {"shaping": {"kind": "saute"}}, "choose another learner"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_remedy(method, changes, words):
    with pytest.raises(UsageError, match=words):
        make(method, **changes)


@pytest.mark.parametrize("method", ["p3o", "cpo", "pcpo"])
def test_updates_that_keep_a_cost_themselves_keep_one(method):
    two = dataclasses.replace(SPEC, cost_names=("first", "second"))
    with pytest.raises(UsageError, match=rf"{method} keeps one cost.*name one cost \(--costs\)"):
        make(method, two)
