"""The tasks against recordings of the original ones, from every recorded state."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ucpo.envs.navigation import parity
from ucpo.envs.navigation.names import NAMES

GOLDEN = Path(__file__).parents[2] / "golden"
RECORDED = [name for name in NAMES if (GOLDEN / f"{name}.npz").exists()]


def test_all_sixteen_tasks_are_recorded():
    assert len(RECORDED) == 16


@pytest.mark.parametrize("name", RECORDED)
def test_every_recorded_step_is_reproduced(name):
    fields = parity.compare(GOLDEN / f"{name}.npz")
    wrong = [field for field in fields if not field.holds]
    assert not wrong, "\n" + parity.table(wrong)
    by_name = {field.name: field for field in fields}
    assert len(by_name["judged reward"].errors) == 600
    assert by_name["judged reward"].worst <= 1e-6
    assert by_name["judged cost"].worst == 0.0
    assert by_name["near cost"].worst == 0.0


def test_an_error_above_tolerance_is_found_and_named():
    errors = np.zeros(1000)
    errors[17] = 1e-3
    field = parity.Field("judged lidar", errors, [(1, step) for step in range(1000)])
    assert not field.holds
    assert field.worst_step == (1, 17)
    assert "ABOVE TOLERANCE" in parity.table([field])


def test_contact_tolerances_do_not_excuse_the_state_alone():
    assert parity.Field("judged reward", np.array([2e-6]), [(0, 0)]).tolerance == parity.EXACT


def test_the_command_fails_when_a_recording_is_not_reproduced(tmp_path):
    with np.load(GOLDEN / "SafetyPointCircle1-v0.npz") as file:
        arrays = dict(file)
    command = [sys.executable, "benchmarks/parity.py", "--brief"]
    for change, code in ((0.0, 0), (1e-5, 1)):
        arrays["s0/reward"] = arrays["s0/reward"] + change
        np.savez_compressed(tmp_path / "recording.npz", **arrays)
        run = subprocess.run(
            [*command, str(tmp_path / "recording.npz")],
            cwd=GOLDEN.parents[1],
            capture_output=True,
            text=True,
            check=False,
        )
        assert run.returncode == code, run.stderr
        assert ("ABOVE TOLERANCE" in run.stdout) == bool(code)
