"""What `ucpo check` finds, in environments made to have it."""

import re
import shlex

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box

from ucpo.cli.main import main
from ucpo.envs.checks import check, round_up
from ucpo.errors import UsageError


class Sound(gymnasium.Env):
    """Ten steps; each costs 2 if the action is above 0, so about 10 an episode."""

    observation_space = Box(-1.0, 1.0, (2,))
    action_space = Box(-1.0, 1.0, (1,))
    length = 10

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self.observe(), {}

    def observe(self):
        return self.np_random.uniform(-1.0, 1.0, 2).astype(np.float32)

    def step(self, action):
        self.time += 1
        over = self.time >= self.length
        return self.observe(), 1.0, *self.end(over), self.info(float(action[0]))

    def end(self, over):
        return False, over

    def info(self, action):
        return {"cost": 2.0 * (action > 0.0)}


def variant(**attributes):
    return type("Variant", (Sound,), attributes)


def remarks(**attributes):
    return " ".join(check(variant(**attributes), env_steps=200).remarks)


def test_a_sound_environment_gets_its_numbers_and_a_range_and_no_remark():
    found = check(Sound, env_steps=1000)
    (cost,) = found.costs
    assert (cost.smallest, cost.largest) == (0.0, 2.0)
    assert cost.often == pytest.approx(0.5, abs=0.06)
    assert cost.mean == pytest.approx(1.0, abs=0.12)
    assert set(found.lengths) == {10}
    assert (len(found.lengths), found.terminated) == (100, 0)
    # The sum is twice a binomial count of 10 halves: one in ten is above 14.
    assert cost.most == 20.0
    assert found.remarks == ()
    assert found.command == "ucpo train Sound --budget-range 0:20"


@pytest.mark.parametrize(
    ("value", "rounded"),
    [(0.0, 0.0), (14.0, 20.0), (20.0, 20.0), (2.1, 2.5), (0.03, 0.05), (7e6, 1e7), (-3.0, 0.0)],
)
def test_ranges_end_at_round_numbers(value, rounded):
    assert round_up(value) == pytest.approx(rounded)


@pytest.mark.parametrize(
    ("attributes", "remark"),
    [
        ({"observe": lambda self: np.float32(np.random.random(2))}, "self.np_random"),  # noqa: NPY002
        ({"observe": lambda self: np.zeros(2, np.float32)}, "Different seeds gave the same"),
        ({"length": 10**9}, "No episode ended within 200 steps"),
        ({"end": lambda self, over: (over, False)}, "exactly 10 steps.*`truncated`"),
        ({"info": lambda self, action: {"cost": action}}, "cost was negative"),
        ({"info": lambda self, action: {"cost": 0.0}}, "never cost any cost"),
        (
            {"info": lambda self, action: {"costs": {"energy": 0.001, "wear": 5e4}}},
            "very different size",
        ),
    ],
)
def test_what_is_to_be_thought_about_is_said(attributes, remark):
    assert re.search(remark, remarks(**attributes))


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"info": lambda self, action: {}}, "reports no cost"),
        (
            {"info": lambda self, action: {"cost": 1.0} if self.time < 7 else {}},
            "left out the cost",
        ),
        ({"observe": lambda self: np.full(2, np.nan, np.float32)}, "non-finite observation"),
        ({"info": lambda self, action: {"cost": np.inf}}, "non-finite cost"),
    ],
)
def test_what_cannot_work_is_refused(attributes, message):
    with pytest.raises(UsageError, match=message):
        check(variant(**attributes), env_steps=50)


def test_the_command_it_ends_with_can_be_pasted(capsys):
    gymnasium.register(
        "TwoCosts-v0",
        variant(info=lambda self, action: {"costs": {"a": 1.0, "b c": 0.5}}),
    )
    main(["check", "TwoCosts-v0", "--env-steps", "100"])
    out, err = capsys.readouterr()
    given = ["ucpo", "train", "TwoCosts-v0", "--budget-range", "a=0:10", "b c=0:5"]
    assert shlex.split(out) == given
    assert "10 episodes of 10 to 10 steps" in err
