import json

import numpy as np
import pytest

from ucpo import UCP, load
from ucpo.errors import UsageError
from ucpo.show.live import messages
from ucpo.show.live.lanes import Lane
from ucpo.show.live.sources import Source, charts, tell_apart
from ucpo.show.live.stage import MOST_LANES, Stage
from ucpo.storage.names import CONFIG_FILE, METRICS_FILE, POLICY_FILE

from .conftest import ZOO


@pytest.fixture
def stage(with_critics):
    made = Stage([Source(str(with_critics))], [[10.0]], seed=3)
    yield made
    made.close()


def test_an_episode_is_the_one_that_an_evaluation_plays(with_critics):
    """The same seed and budget, step for step, through the controller and through the batch."""
    from itertools import repeat

    from ucpo.envs.registry import make_task
    from ucpo.stock import Start

    policy = load(with_critics)
    lane = Lane(0, Source(str(with_critics)), [10.0])
    lane.begin(5)
    task = make_task("SafetyPointGoal1-v0", 1)
    obs, stock = task.reset(repeat(Start(5, np.array([-10.0], np.float32))))
    returns = 0.0
    for _ in range(40):
        lane.step()
        step = task.step(policy.act(obs, stock))
        returns += float(step.reward[0])
        obs, stock = step.obs, step.stock
    assert lane.returns == returns
    assert lane.trail[-1][:2] == pytest.approx(task.positions()[0].tolist(), abs=1e-3)
    lane.close()
    task.close()


def test_a_budget_is_that_of_the_next_episode_and_spending_is_that_of_this_one(stage):
    (lane,) = stage.lanes
    stage.obey("budget", {"lane": 0, "values": [4.0]})
    stage.obey("spend", {"lane": 0, "extra": [5.0]})
    assert lane.moment["point"][2] == [15.0]
    stage.obey("restart", {})
    assert lane.moment["point"][2] == [4.0]
    assert lane.seed == 4


def test_a_prediction_is_a_distribution_and_a_probability(stage):
    age, spent, budget, fan, holds = stage.lanes[0].moment["point"]
    assert (age, spent, budget) == (0, [0.0], [10.0])
    assert fan[0] == sorted(fan[0])
    assert 0.0 <= holds[0] <= 1.0


def test_without_critics_the_page_is_told_so(alone):
    lane = Lane(0, Source(str(alone)), [10.0])
    lane.begin(0)
    assert lane.moment["point"][3:] == [None, None]
    assert "there are no critics" in lane.silence
    lane.close()


def test_time_passes_at_the_speed_that_is_set(stage, monkeypatch):
    monkeypatch.setattr("ucpo.show.live.stage.AT_ONCE", 60.0)
    stage.obey("speed", {"value": 2.0})
    stage.advance(0.1)  # ten steps of 0.02 s are due
    assert stage.lanes[0].age in (9, 10)  # the last one may be a rounding error away
    stage.obey("pause", {"on": True})
    assert not stage.advance(1.0)
    before = stage.lanes[0].age
    stage.obey("step", {})
    assert stage.lanes[0].age == before + 1


def test_an_episode_that_is_over_is_remembered_and_another_begins(stage, monkeypatch):
    monkeypatch.setattr("ucpo.show.live.stage.PATIENCE", 0.0)
    (lane,) = stage.lanes
    lane._task.arena = lane._task.arena.__class__(
        **{**vars(lane._task.arena), "max_episode_steps": 3}
    )
    for _ in range(3):
        stage.obey("step", {})
    assert lane.over
    (row,) = stage.past
    assert (row["seed"], row["steps"], row["budget"]) == (3, 3, [10.0])
    with pytest.raises(UsageError, match="is over"):
        stage.obey("spend", {"lane": 0, "extra": [1.0]})
    stage.obey("pause", {"on": False})
    assert stage.advance(0.03)
    assert (lane.over, lane.seed, lane.age) == (False, 4, 0)


def test_lanes_play_the_same_seed_side_by_side(stage):
    stage.obey("add", {"source": 0, "values": [25.0]})
    one, other = stage.lanes
    assert one.seed == other.seed == 3
    assert one.moment["see"] == other.moment["see"]
    assert (one.budgets, other.budgets) == ([10.0], [25.0])
    for _ in range(MOST_LANES - 2):
        stage.obey("add", {"source": 0, "values": [1.0]})
    with pytest.raises(UsageError, match="at most 4"):
        stage.obey("add", {"source": 0, "values": [1.0]})
    stage.obey("remove", {"lane": one.number})
    with pytest.raises(UsageError, match="nothing plays as number 0"):
        stage.obey("remove", {"lane": 0})
    for lane in stage.lanes[1:]:
        stage.obey("remove", {"lane": lane.number})
    with pytest.raises(UsageError, match="one has to stay"):
        stage.obey("remove", {"lane": stage.lanes[0].number})


def test_the_same_seed_again_if_wanted(stage):
    stage.obey("keep", {"on": True})
    stage.obey("restart", {})
    assert stage.lanes[0].seed == 3
    stage.obey("keep", {"on": False})
    stage.obey("seed", {"value": 77})
    stage.obey("restart", {})
    assert stage.lanes[0].seed == 77


@pytest.mark.parametrize(
    ("wish", "why"),
    [
        ({"do": "budget", "lane": 0, "values": [1e9]}, "outside the range trained for"),
        ({"do": "budget", "lane": 0, "values": [1.0, 2.0]}, "give one budget"),
        ({"do": "spend", "lane": 0, "extra": [500.0]}, "more than the largest budget"),
        ({"do": "spend", "lane": 0, "extra": [-11.0]}, "take at most 10"),
        ({"do": "speed", "value": 0}, "the speed is 0.1 to 64"),
        ({"do": "add", "source": 3, "values": [1.0]}, "no policy number 3"),
    ],
)
def test_impossible_wishes_are_refused_and_change_nothing(stage, wish, why):
    before = json.dumps([stage.settings(), stage.episode()])
    with pytest.raises(UsageError, match=why):
        stage.obey(*messages.read(json.dumps(wish)))
    assert json.dumps([stage.settings(), stage.episode()]) == before


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", "3", "null", '{"do": 1}', '{"do": "open", "path": "/etc/passwd"}'),
        *('{"do": "__init__"}', '{"do": "obey"}', '{"do": "pause"}', '{"do": "pause", "on": 1}'),
        *('{"do": "pause", "on": true, "x": 1}', '{"do": "seed", "value": -1}'),
        *('{"do": "seed", "value": 1.5}', '{"do": "seed", "value": true}'),
        *('{"do": "speed", "value": NaN}', '{"do": "speed", "value": Infinity}'),
        *('{"do": "speed", "value": 1e999}', '{"do": "speed", "value": "2"}'),
        *('{"do": "budget", "lane": 0, "values": []}', '{"do": "spend", "lane": 0, "extra": [{}]}'),
        *("[" * 3000, '{"do": "step", "a": ' + "[" * 1500, "x" * 5000, "\ud800"),
        '{"do": "seed", "value": ' + "9" * 3000 + "}",
    ],
)
def test_messages_that_are_none_are_refused(text):
    with pytest.raises(UsageError):
        messages.read(text)


def test_every_wish_that_can_be_asked_for_is_done_by_the_stage():
    assert {name.removeprefix("_do_") for name in vars(Stage) if name.startswith("_do_")} == set(
        messages.WISHES
    )


def test_policies_with_one_name_are_told_apart(with_critics, tmp_path):
    sources = [Source(str(with_critics)), Source("zoo:SafetyPointGoal1-v0")]
    tell_apart(sources)
    assert len({source.name for source in sources}) == 2


def test_what_a_budget_buys_comes_from_the_evaluation():
    (returns, costs) = charts([Source(ZOO)])["frontier"]
    assert returns["series"][0]["x"] == (0.0, 5.0, 15.0, 25.0)
    assert costs["rules"][0]["along"] == "diagonal"


def test_a_run_without_a_policy_shows_its_curves_and_plays_once_it_has_one(tmp_path):
    agent = UCP("Courier-v0", env_steps=300, num_envs=2, random_steps=100, log_every=50)
    agent.learn(300, run=tmp_path / "run", show=False)
    run = tmp_path / "run"
    (run / POLICY_FILE).rename(tmp_path / POLICY_FILE)
    source = Source(str(run))
    stage = Stage([source], [])
    assert (stage.lanes, source.ready, source.task) == ([], False, "Courier-v0")
    assert [figure["title"] for figure in charts([source])["training"]] == [
        "Learning",
        "Multipliers",
    ]
    with pytest.raises(UsageError, match="no policy yet"):
        stage.obey("restart", {})
    (tmp_path / POLICY_FILE).rename(run / POLICY_FILE)
    assert source.refresh()
    assert stage.open()
    assert stage.lanes[0].scenery == {"kind": "none"}
    assert not source.refresh()
    (run / METRICS_FILE).write_text("env_steps,ret")  # half a line
    assert charts([source])["training"] == []
    stage.close()


def test_a_newer_policy_of_a_run_takes_over_with_the_next_episode(with_critics, tmp_path):
    import os
    import shutil

    from ucpo.policies.policy import Policy

    run = tmp_path / "run"
    shutil.copytree(with_critics, run)
    source = Source(str(run))
    stage = Stage([source], [[10.0]])
    (lane,) = stage.lanes
    newer = type(source.policy.info)(**{**vars(source.policy.info), "env_steps": 777})
    Policy(source.policy.actor, newer).save(run / POLICY_FILE)
    os.utime(run / POLICY_FILE, ns=(1, 1))  # another moment, whatever the clock says
    assert source.refresh()
    assert lane.playing.env_steps == 0
    stage.obey("restart", {})
    assert lane.playing.env_steps == 777
    assert "another moment of the training" in lane.silence  # critics are of the one before
    (run / POLICY_FILE).write_bytes(b"half")
    assert source.refresh()  # and what cannot be read is not taken over
    stage.obey("restart", {})
    assert lane.playing.env_steps == 777
    stage.close()


def test_a_folder_without_anything_is_refused_as_everywhere(tmp_path):
    with pytest.raises(UsageError, match="there is no policy at"):
        Source(str(tmp_path))


def test_a_module_that_only_a_file_names_is_not_imported(with_critics, tmp_path):
    (tmp_path / CONFIG_FILE).write_text('task = "evil:Env-v0"\nmethod = "ucp"\nseed = 0\n')
    with pytest.raises(UsageError, match="--task evil:Env-v0"):
        Source(str(tmp_path))


def test_robots_that_run_are_seen_from_the_side():
    lane = Lane(0, Source("zoo:SafetyHopperVelocity-v1"), [10.0])
    lane.begin(0)
    scenery, see = lane.scenery, lane.moment["see"]
    assert (scenery["kind"], scenery["floor"], len(scenery["radii"])) == ("side", True, 4)
    assert len(see) == 1 + 5 * 4
    limbs = np.array(see[1:]).reshape(4, 5)
    assert limbs[:, [1, 3]].min() == pytest.approx(0.1, abs=0.05)  # the foot on the floor
    assert limbs[:, [1, 3]].max() == pytest.approx(1.45, abs=0.05)  # the top of the torso
    lane.close()
