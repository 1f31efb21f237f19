"""The navigation tasks of Safety-Gymnasium 1.0.0, built natively: robots among objects.

As a batch behind the interface of this library, `ucpo.envs.registry.make_task` makes them by name.
As single Gymnasium environments they are ``gymnasium.make("ucpo/SafetyPointGoal1-v0")`` once
`ucpo` has been imported.
"""

from __future__ import annotations


def register() -> None:
    """Tell Gymnasium about the tasks; harmless when repeated."""
    from gymnasium.envs.registration import register as register_environment
    from gymnasium.envs.registration import registry

    from ucpo.envs.navigation.names import NAMES, time_limit

    for name in NAMES:
        if f"ucpo/{name}" not in registry:
            register_environment(
                f"ucpo/{name}",
                entry_point="ucpo.envs.navigation.gym:NavigationEnv",
                kwargs={"name": name},
                max_episode_steps=time_limit(name),
                order_enforce=True,
            )
