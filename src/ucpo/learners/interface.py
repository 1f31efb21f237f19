"""The questions a run asks: of what learns, of what prices a budget and of what chooses one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol, runtime_checkable

import numpy as np
from torch import Tensor

from ucpo.envs.interface import Arrays, Episodes, Ints, Step
from ucpo.policies.policy import Policy
from ucpo.problem import Floats

Metrics = Mapping[str, Tensor]
"""What an update has to say: some of its learner's `metrics` by name, a number each."""


class Learner(Protocol):
    """What acts and learns. The loop, checkpoints and reports know nothing else of it."""

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of everything its updates may say."""

    @property
    def env_steps(self) -> int:
        """Environment steps remembered so far."""

    @property
    def updates(self) -> int:
        """Gradient updates made so far."""

    @property
    def memory(self) -> Memory | None:
        """Rows too large for `state`, saved as they come; None where `state` holds everything."""

    def act(self, obs: Floats, stock: Floats) -> Floats:
        """Actions in [-1, 1] to collect with, (n, action); exploration and warm-up included.

        Args:
            obs: Observations, (n, obs).
            stock: Costs so far minus the budget, in cost units, (n, C).
        """

    def remember(self, obs: Floats, stock: Floats, actions: Floats, step: Step) -> None:
        """Take in what acting brought."""

    def observe(self, episodes: Episodes) -> None:
        """Learn of finished episodes; they move the prices."""

    def improve(self) -> Iterator[Metrics]:
        """Make the updates that are due now, one at a time; often none."""

    def prices(self) -> list[Floats]:
        """For each cost the prices of its budgets, largest budget first; may be empty."""

    def policy(self) -> Policy:
        """What has been learned so far: to be saved, evaluated, exported."""

    def cut(self) -> None:
        """The episodes under way are lost: none of them goes on after what was remembered."""

    def recent_actions(self, row: int, env_steps: int) -> Floats:
        """What an environment was last made to do, (k, action), for as many steps as are kept."""

    def state(self) -> Arrays:
        """Everything that what comes next depends on, but for the rows of its memory."""

    def restore(self, state: Arrays) -> None:
        """Go on from the state of a learner of the same configuration."""


@runtime_checkable
class Timed(Learner, Protocol):
    """A learner whose learning rates fall until the training ends."""

    def last_until(self, env_steps: int) -> None:
        """The training now ends after this many environment steps, counted from its beginning."""


@runtime_checkable
class Collected(Learner, Protocol):
    """A learner for which copies of it may act elsewhere, since it learns of whole rollouts."""

    sample: Floats
    """What the last actions were drawn as, (n, k); to be set where they were drawn elsewhere."""

    @property
    def room(self) -> int:
        """Decisions until it next improves, and acts otherwise."""

    def acting(self) -> Arrays:
        """What acting depends on."""

    def act_as(self, state: Arrays, seed: int) -> None:
        """Act as the learner does that `state` is of, with noise of this seed."""

    def forget(self, rows: Ints) -> None:
        """The episodes under way in these rows are lost: new ones begin there."""


class Memory(Protocol):
    """A ring of rows that never change once a newer one is there, numbered from the beginning."""

    @property
    def rows_written(self) -> int:
        """Rows ever added; the last `rows_kept` of them are still here."""

    @property
    def rows_kept(self) -> int:
        """Rows there is room for."""

    @property
    def row_bytes(self) -> int:
        """Size of one row."""

    def rows(self, first: int, last: int) -> Arrays:
        """Copies of the rows of these numbers, `last` excluded; they must still be here."""

    def restore(self, first: int, rows: Arrays) -> None:
        """Put rows back, the first of them with this number; older ones must come first."""


class Multiplier(Protocol):
    """The price of exceeding each initial budget: a Lagrange multiplier, or a table of them."""

    def value(self, initial_stock: Tensor) -> Tensor:
        """Prices of episodes that began with these stocks, both (batch, C)."""

    def observe(self, episodes: Episodes) -> None:
        """Note finished episodes; their undiscounted costs are what counts."""

    def update(self, env_steps: int) -> None:
        """Move the prices, if it is time to, after so many environment steps of training."""

    def tables(self) -> list[Tensor]:
        """All prices: for each cost its levels, the largest budget first."""

    def state(self) -> Arrays:
        """What `restore` needs to go on from here."""

    def restore(self, state: Arrays) -> None:
        """Go on from a saved state."""


class Schedule(Protocol):
    """Where the initial stocks of training episodes come from."""

    def draw(self, generator: np.random.Generator) -> Floats:
        """Minus the budget of each cost for the next episode, float32 of shape (C,)."""

    def observe(self, episodes: Episodes) -> None:
        """Note finished episodes."""

    def state(self) -> Arrays:
        """What `restore` needs to go on from here."""

    def restore(self, state: Arrays) -> None:
        """Go on from a saved state."""
