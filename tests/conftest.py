"""Settings all tests share."""

from hypothesis import settings

# A busy machine must not fail a test: speed is for benchmarks.
settings.register_profile("ucpo", deadline=None)
settings.load_profile("ucpo")
