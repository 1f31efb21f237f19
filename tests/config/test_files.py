import dataclasses

import pytest

from ucpo.config.files import (
    method_names,
    preset_names,
    read_config,
    read_method,
    resolve,
    to_toml,
)
from ucpo.errors import UsageError

VARIANTS = ("ucp", "ucp-ds", "ucp-nr", "ucp-mean", "ucp-nr-mean", "ucp-na")


def needs_budget(method):
    return {"budget": "25"} if read_method(method)[1]["starts"] == "single" else {}


@pytest.mark.parametrize("method", method_names())
@pytest.mark.parametrize("preset", preset_names())
def test_every_preset_and_method_is_valid(preset, method):
    config = resolve("X", preset=preset, method=method, **needs_budget(method))
    assert (config.preset, config.method) == (preset, method)


@pytest.mark.parametrize("method", method_names())
def test_every_method_says_what_it_is_and_names_its_parts(method):
    summary, parts = read_method(method)
    assert summary.endswith(".")
    assert {"learner", "utility", "starts", "stock"} <= parts.keys()


def test_a_method_of_ones_own_is_a_file(tmp_path):
    mine = tmp_path / "mine.toml"
    mine.write_text('summary = "Mine."\nutility = "mean"\nmultiplier = "pid"\nstarts = "single"\n')
    config = resolve("X", method=str(mine), budget="5")
    assert (config.method, config.utility, config.multiplier.kind) == ("mine", "mean", "pid")
    with pytest.raises(UsageError, match="mine trains for one budget"):
        resolve("X", method=str(mine))
    with pytest.raises(UsageError, match=r"there is no file .*other\.toml"):
        resolve("X", method=str(tmp_path / "other.toml"))
    mine.write_text('lerner = "ucp"\n')
    with pytest.raises(UsageError, match="no option 'lerner'; did you mean 'learner'"):
        resolve("X", method=str(mine))


def test_what_variants_were_called_leads_to_what_they_are_called():
    with pytest.raises(UsageError, match="--method instead of --variant"):
        resolve("X", variant="ucp-nr")
    with pytest.raises(UsageError, match="did you mean 'ucp-nr'"):
        resolve("X", method="ucp-rn")
    with pytest.raises(UsageError, match="kind"):
        resolve("X", multiplier={"ascent": "adam"})


def test_variants_differ_from_ucp_in_nothing_but_their_column_of_the_table():
    names = {"utility", "stock", "starts"}
    base = resolve("X", preset="paper", budget="25")
    differences = {}
    for method in VARIANTS:
        config = resolve("X", preset="paper", method=method, budget="25")
        differences[method] = {
            field.name: getattr(config, field.name)
            for field in dataclasses.fields(config)
            if getattr(config, field.name) != getattr(base, field.name) and field.name != "method"
        }
        assert set(differences[method]) <= names
    assert differences == {
        "ucp": {},
        "ucp-ds": {"stock": "discounted"},
        "ucp-nr": {"starts": "single"},
        "ucp-mean": {"utility": "mean"},
        "ucp-nr-mean": {"utility": "mean", "starts": "single"},
        "ucp-na": {"utility": "mean", "starts": "single", "stock": "hidden"},
    }


def test_the_papers_hyperparameters():
    navigation = resolve("SafetyPointGoal1-v0", preset="paper")
    velocity = resolve("SafetyHopperVelocity-v1", preset="paper")
    for config in (navigation, velocity):
        assert (config.replay.batch, config.networks.quantiles) == (256, 100)
        assert (config.replay.capacity, config.networks.hidden) == (1_000_000, (256, 256))
        assert (config.critic.polyak, config.actor.polyak) == (0.005, 0.05)
        assert (config.actor.rate, config.tolerance) == (3e-4, 1e-6)
        assert (config.budget_range, config.budget_levels) == (("0:30",), 31)
        assert config.critic.next_action == "sampled"
    assert (navigation.gamma, navigation.replay.n_step, navigation.critic.rate) == (0.999, 10, 3e-5)
    assert (velocity.gamma, velocity.replay.n_step, velocity.critic.rate) == (0.99, 1, 1e-4)
    assert (navigation.env_steps, velocity.env_steps) == (3_000_000, 1_000_000)
    assert (navigation.entropy.weight, velocity.entropy.weight) == (0.0, 0.5)


def test_the_released_code_counts_iterations_of_eight_environments():
    config = resolve("SafetyPointGoal1-v0", preset="paper-code")
    assert config.env_steps == 8 * 3_000_000
    assert config.random_steps == 8 * 30_000
    assert config.multiplier.start == 8 * 50_000
    assert (config.critic.next_action, config.actor.polyak, config.actor.every) == (
        "mean",
        0.005,
        2,
    )
    assert (config.multiplier.kind, config.networks.stock_features) == ("softplus", 16)


def test_presets_know_the_odd_tasks():
    assert resolve("SafetyPointCircle1-v0", preset="paper").networks.stock_scale == 100.0
    assert resolve("SafetyPointGoal1-v0", preset="paper").networks.stock_scale == 10.0
    assert resolve("SafetySwimmerVelocity-v1", preset="paper").gamma == 0.995
    assert resolve("SafetyHumanoidVelocity-v1", preset="paper").env_steps == 3_000_000


def test_a_task_alone_is_trained_by_what_learns_best_here_and_the_papers_settings_have_names():
    ours = resolve("SafetyPointGoal1-v0", family="navigation")
    assert (ours.hold, ours.env_steps, ours.networks.hidden) == (4, 4_400_000, (128, 128))
    assert resolve("SafetyPointGoal1-v0", preset="paper").hold == 1
    code = resolve("SafetyHopperVelocity-v1", preset="paper-code")
    assert (code.env_steps, code.entropy.weight, code.multiplier.initial) == (8_000_000, 0.5, 10.0)


def test_what_the_user_says_wins():
    config = resolve("X", preset="paper", gamma=0.9, critic={"rate": 1e-2})
    assert (config.gamma, config.critic.rate, config.critic.polyak) == (0.9, 1e-2, 0.005)


def test_configurations_survive_a_file(tmp_path):
    config = resolve("a/b:C-v0", method="ucp-nr", budget=["x=25", "y=3"], preset="default")
    (tmp_path / "config.toml").write_text(to_toml(config))
    assert read_config(tmp_path / "config.toml") == config


def test_a_preset_of_ones_own_is_a_path(tmp_path):
    (tmp_path / "mine.toml").write_text("gamma = 0.5\n[replay]\nn_step = 2\n")
    config = resolve("X", preset=str(tmp_path / "mine.toml"))
    assert (config.gamma, config.replay.n_step) == (0.5, 2)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"gama": 0.9}, "did you mean 'gamma'"),
        ({"critic": {"rte": 1.0}}, "did you mean 'rate'"),
        ({"critic": 3.0}, "table of options"),
        ({"gamma": "high"}, "type float"),
        ({"critic": {"next_action": "men"}}, "critic.next_action: no 'men'; did you mean 'mean'"),
        ({"precision": "bf61"}, "precision: no 'bf61'; did you mean 'bf16'"),
        ({"seed": 1.5}, "type int"),
        ({"asynchronous": 1}, "type bool"),
        ({"method": "ucp-rn"}, "did you mean 'ucp-nr'"),
        ({"preset": "velocty"}, "did you mean 'velocity'"),
        ({"preset": "missing.toml"}, "no file missing.toml"),
    ],
)
def test_mistakes_are_named_with_a_remedy(overrides, message):
    with pytest.raises(UsageError, match=message):
        resolve("X", **overrides)


def test_a_damaged_file_is_named(tmp_path):
    (tmp_path / "bad.toml").write_text("gamma = = 1")
    with pytest.raises(UsageError, match=r"bad\.toml is not valid TOML"):
        resolve("X", preset=str(tmp_path / "bad.toml"))
