"""Settings all tests share."""

import sys

import pytest
from hypothesis import settings

# A busy machine must not fail a test: speed is for benchmarks.
settings.register_profile("ucpo", deadline=None)
settings.load_profile("ucpo")


@pytest.fixture(autouse=True)
def products_in_f32():
    """A run in bf16 says so to the whole process, and the next test is not to know."""
    yield
    if "torch" in sys.modules:
        sys.modules["torch"].set_float32_matmul_precision("highest")
