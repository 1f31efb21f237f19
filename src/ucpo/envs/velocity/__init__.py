"""The velocity tasks of Safety-Gymnasium 1.0.0, built natively: robots that may not run too fast.

As a batch behind the interface of this library, `ucpo.envs.registry.make_task` makes them by name.
As single Gymnasium environments they are ``gymnasium.make("ucpo/SafetyHopperVelocity-v1")`` once
`ucpo` has been imported.
"""

from __future__ import annotations


def register() -> None:
    """Tell Gymnasium about the tasks; harmless when repeated."""
    from gymnasium.envs.registration import register as register_environment
    from gymnasium.envs.registration import registry

    from ucpo.envs.velocity.runners import MAX_EPISODE_STEPS, NAMES

    for name in NAMES:
        if f"ucpo/{name}" not in registry:
            register_environment(
                f"ucpo/{name}",
                entry_point="ucpo.envs.velocity.gym:VelocityEnv",
                kwargs={"name": name},
                max_episode_steps=MAX_EPISODE_STEPS,
                order_enforce=True,
            )
