"""Our tasks as single Gymnasium environments: ``gymnasium.make("ucpo/SafetyPointGoal1-v0")``."""

from __future__ import annotations

from gymnasium.envs.registration import register, registry

from ucpo.envs.navigation import names as navigation
from ucpo.envs.velocity import runners as velocity


def register_all() -> None:
    """Tell Gymnasium about the tasks; harmless when repeated."""
    for name in navigation.NAMES:
        _register(name, "ucpo.envs.navigation.gym:NavigationEnv", navigation.time_limit(name))
    for name in velocity.NAMES:
        _register(name, "ucpo.envs.velocity.gym:VelocityEnv", velocity.MAX_EPISODE_STEPS)


def _register(name: str, entry_point: str, time_limit: int) -> None:
    if f"ucpo/{name}" not in registry:
        register(
            f"ucpo/{name}",
            entry_point=entry_point,
            kwargs={"name": name},
            max_episode_steps=time_limit,
            order_enforce=True,
        )
