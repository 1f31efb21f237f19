"""What one policy did, row by row, and what each decision was worth.

A rollout is `decisions` times `num_envs` transitions in arrays that are there from the beginning.
Its end is no end of an episode: rows go on in the next one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ucpo.envs.interface import Arrays, Bools, Ints, Step
from ucpo.errors import UsageError
from ucpo.learners.compiled.kernels import walk_back
from ucpo.problem import Floats, Problem
from ucpo.storage import states

Increments = Callable[[Floats, Floats, Floats], Floats]
"""What a step adds to what is priced, (n, C), of the stocks (n, C) before it, after it and at the
beginning of the episode."""


class Rollout:
    """The transitions of one policy, and how long the episodes under way have lasted.

    Args:
        decisions: Of each environment.
        num_envs: Environments.
        observation_size: Numbers in an observation.
        action_size: Numbers in an action.
        costs: How many there are.
        max_episode_steps: Environment steps after which an episode is truncated; None: not known.
    """

    def __init__(
        self,
        decisions: int,
        num_envs: int,
        observation_size: int,
        action_size: int,
        costs: int,
        max_episode_steps: int | None,
    ) -> None:
        shape = (decisions, num_envs)
        self.obs = np.zeros((*shape, observation_size), np.float32)
        self.stock = np.zeros((*shape, costs), np.float32)
        self.left = np.zeros(shape, np.float32)  # share of the episode's time, before the decision
        self.sample = np.zeros((*shape, action_size), np.float32)  # before it became an action
        self.action = np.zeros((*shape, action_size), np.float32)
        self.reward = np.zeros(shape, np.float32)
        self.increments = np.zeros((*shape, costs), np.float32)
        self.initial_stock = np.zeros((*shape, costs), np.float32)
        self.successor = np.zeros((*shape, observation_size), np.float32)
        self.successor_stock = np.zeros((*shape, costs), np.float32)
        self.env_steps = np.ones(shape, np.int64)
        self.terminated = np.zeros(shape, np.bool_)
        self.truncated = np.zeros(shape, np.bool_)
        self.lost = np.zeros(shape, np.bool_)
        self.age = np.zeros(num_envs, np.int64)  # environment steps of the episodes under way
        self.length = 0  # decisions made so far
        self.begun = 0  # rollouts, this one included
        self._limit = max_episode_steps

    @property
    def full(self) -> bool:
        """Whether there is no room for another decision."""
        return self.length == len(self.reward)

    @property
    def room(self) -> int:
        """Decisions there is room for, before it begins anew."""
        return len(self.reward) - (0 if self.full else self.length)

    def add(
        self,
        obs: Floats,
        stock: Floats,
        sample: Floats,
        action: Floats,
        reward: Floats,
        increments: Floats,
        step: Step,
    ) -> None:
        """Note one decision everywhere; rewards may be other than those of the step."""
        if self.full:
            self.length = 0
        t = self.length
        self.begun += t == 0
        self.obs[t], self.stock[t], self.left[t] = obs, stock, self.time_left(self.age)
        self.sample[t], self.action[t] = sample, action
        self.reward[t], self.increments[t] = reward, increments
        self.initial_stock[t] = step.initial_stock
        self.successor[t], self.successor_stock[t] = step.successor, step.successor_stock
        self.env_steps[t] = step.env_steps
        self.terminated[t], self.truncated[t] = step.terminated, step.truncated
        self.lost[t] = False if step.lost is None else step.lost
        self.age += step.env_steps
        self.age[step.terminated | step.truncated] = 0
        self.length += 1

    def time_left(self, age: Ints) -> Floats:
        """The share of an episode's time that is left after so many steps; 0 if not known."""
        if self._limit is None:
            return np.zeros(age.shape, np.float32)
        return (1.0 - age / self._limit).astype(np.float32)

    def left_after(self) -> Floats:
        """The share of time left after each decision, (decisions, n)."""
        if self._limit is None:
            return np.zeros_like(self.left)
        return self.left - (self.env_steps / self._limit).astype(np.float32)

    @property
    def ended(self) -> Bools:
        """Where an episode was over, (decisions, n)."""
        over: Bools = self.terminated | self.truncated
        return over

    def cut(self) -> None:
        """Episodes under way are lost, and with them what they have not been judged for."""
        self.length = 0
        self.age[:] = 0

    def forget(self, rows: Ints) -> None:
        """Episodes under way in these rows are lost: what they did last is as at a time limit."""
        if 0 < self.length < len(self.reward):
            self.truncated[self.length - 1, rows] |= ~self.terminated[self.length - 1, rows]
        self.age[rows] = 0

    def recent_actions(self, row: int, env_steps: int) -> Floats:
        """What an environment was last made to do, (k, action), as far as it is kept."""
        before = self.begun > 1 or (self.begun == 1 and self.length == 0)  # one that was full
        older = slice(self.length, None if before else self.length)
        decisions = np.concatenate([self.action[older, row], self.action[: self.length, row]])
        held = np.concatenate([self.env_steps[older, row], self.env_steps[: self.length, row]])
        made = np.repeat(decisions, held, axis=0)
        return made[len(made) - min(env_steps, len(made)) :]

    def state(self) -> Arrays:
        """Everything, with the rollout under way."""
        return {**{n: getattr(self, n).copy() for n in self._names()}, **self._counts()}

    def restore(self, state: Arrays) -> None:
        """Go on from a saved state."""
        states.fit(state, self.state(), "rollout")
        length, begun = int(state["length"]), int(state["begun"])
        if not (0 <= length <= len(self.reward) and begun >= 0):
            raise UsageError("the saved state of the rollout has an impossible length")
        for name in self._names():
            getattr(self, name)[...] = state[name]
        self.length, self.begun = length, begun

    def _names(self) -> list[str]:
        return [name for name, value in vars(self).items() if isinstance(value, np.ndarray)]

    def _counts(self) -> Arrays:
        return {"length": np.array(self.length), "begun": np.array(self.begun)}


@dataclass(frozen=True)
class Signals:
    """How the reward and each priced cost are summed up, (1 + C) of each.

    Args:
        gammas: Discount per environment step.
        lams: Share of what later values say, against the next one.
        bootstraps: Whether a value stands for what would follow a time limit; without, nothing
            does.
    """

    gammas: tuple[float, ...]
    lams: tuple[float, ...]
    bootstraps: tuple[bool, ...]


def advantages(
    gains: Floats, values: Floats, after: Floats, rollout: Rollout, signals: Signals
) -> Floats:
    """How much better each decision was than its state led to expect (GAE), signal by signal.

    With ``delta = x + gamma (1 - terminated) V(successor) - V(obs)`` the advantage is
    ``delta + gamma lam (1 - ended)`` times the next one. Arrays are (decisions, n, 1 + C).

    Args:
        gains: Rewards and increments.
        values: Of the states decided in.
        after: Of the states decisions led to; read where an episode or the rollout ended.
        rollout: Where episodes ended, and how many environment steps decisions took.
        signals: Discounts and the like.
    """
    discount = np.array(signals.gammas) ** rollout.env_steps[:, :, None]
    found = np.empty_like(gains)
    walk_back(
        gains,
        values,
        after,
        discount,
        np.array(signals.lams),
        np.array(signals.bootstraps),
        rollout.terminated,
        rollout.ended,
        rollout.lost,
        found,
    )
    return found


def increments_of(problem: Problem) -> Increments:
    """Of the utilities of a problem: ``g(Z') - g(Z)``, which add up to the utility at the end.

    There is no discount in them: ``gamma g(Z') - g(Z)`` would add up to nearly nothing.
    """
    utilities = [constraint.utility for constraint in problem.constraints]

    def increments(stock: Floats, successor_stock: Floats, initial_stock: Floats) -> Floats:
        columns = [
            utility(successor_stock[:, cost]) - utility(stock[:, cost])
            for cost, utility in enumerate(utilities)
        ]
        return np.stack(columns, axis=1)

    return increments
