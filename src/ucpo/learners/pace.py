"""When prices move: with every finished episode, or with every update."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Protocol

from ucpo.envs.interface import Episodes
from ucpo.learners.interface import Multiplier


class Pace(Protocol):
    """When a multiplier is asked to move."""

    def observed(self, multiplier: Multiplier, episodes: Episodes, env_steps: int) -> None:
        """Episodes have finished; often none."""

    def updated(self, multiplier: Multiplier, env_steps: int) -> None:
        """The networks have made an update."""


class EveryEpisode:
    """A step for each finished episode.

    Where prices go depends on the episodes alone: not on how many environments or updates there
    are. While none finishes, nothing moves.
    """

    def observed(self, multiplier: Multiplier, episodes: Episodes, env_steps: int) -> None:
        """One episode after the other."""
        for one in _one_by_one(episodes):
            multiplier.observe(one)
            multiplier.update(env_steps)

    def updated(self, multiplier: Multiplier, env_steps: int) -> None:
        """Nothing new is known."""


class EveryUpdate:
    """A step for each update, on the same episodes until others finish (OmniSafe, and the paper).

    Rates are then per update.
    """

    def observed(self, multiplier: Multiplier, episodes: Episodes, env_steps: int) -> None:
        """Note them."""
        multiplier.observe(episodes)

    def updated(self, multiplier: Multiplier, env_steps: int) -> None:
        """Move."""
        multiplier.update(env_steps)


def _one_by_one(episodes: Episodes) -> Iterator[Episodes]:
    names = [field.name for field in fields(episodes)]
    for k in range(len(episodes)):
        yield Episodes(**{name: getattr(episodes, name)[k : k + 1] for name in names})
