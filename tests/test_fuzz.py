"""Mutated policies, configurations and checkpoints; `tests/fuzzing.py` makes them."""

import subprocess
import sys

import pytest

from tests.fuzzing import KINDS, fuzz


@pytest.mark.parametrize("kind", KINDS)
def test_mutated_files_load_or_are_refused_in_one_paragraph(kind, tmp_path):
    outcomes = fuzz(kind, 100, 0, tmp_path)
    assert outcomes["loaded"] + outcomes["refused"] == 100
    assert outcomes["refused"] >= 30


@pytest.mark.slow
def test_ten_thousand_mutated_files():
    command = [sys.executable, "-m", "tests.fuzzing", "10200"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("3400 files") == 3
