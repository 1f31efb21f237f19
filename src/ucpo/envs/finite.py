"""Any finite problem as a task with continuous actions, to train on what can be solved exactly."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import numpy as np

from ucpo.envs.finite_problem import ENDED, FiniteProblem
from ucpo.envs.interface import Arrays, Ints, Outcome, TaskSpec, VectorTask
from ucpo.errors import UsageError
from ucpo.problem import Floats

Encoding = Literal["argmax", "bins"]


class FiniteTask(VectorTask):
    """A batch of episodes of a finite problem, each a function of its seed.

    The observation is the features of the state (one-hot unless given) and, with a horizon, the
    share of time that is left. Rewards and costs are those of the problem, undiscounted. The
    problem's horizon terminates an episode: its optimum counts nothing beyond. The step limit of a
    problem without one truncates.

    Args:
        problem: What to play.
        num_envs: Environments in the batch.
        name: Of the task; the problem's by default.
        features: What is seen of each state, (states, size).
        encoding: How an action is chosen. ``argmax`` gives every action a number and takes the
            largest one that is possible; ``bins`` cuts the range of a single number evenly between
            the actions possible in a state, for actions with a natural order.
        max_episode_steps: Truncates episodes of problems without a horizon.
        cost_names: The costs to show, in this order; all by default.
    """

    def __init__(
        self,
        problem: FiniteProblem,
        num_envs: int,
        name: str | None = None,
        features: Floats | None = None,
        encoding: Encoding = "argmax",
        max_episode_steps: int = 1000,
        cost_names: Sequence[str] | None = None,
    ) -> None:
        if encoding not in ("argmax", "bins"):
            raise UsageError(f"the encoding must be 'argmax' or 'bins', got {encoding!r}")
        unknown = set(cost_names or ()) - set(problem.cost_names)
        if unknown:
            raise UsageError(f"{problem.name} has no cost {sorted(unknown)[0]!r}")
        shown = np.eye(problem.states) if features is None else np.asarray(features, np.float64)
        if shown.ndim != 2 or len(shown) != problem.states:
            raise UsageError(f"features must be of shape ({problem.states}, size)")
        numbers = problem.actions if encoding == "argmax" else 1
        names = tuple(cost_names or problem.cost_names)
        spec = TaskSpec(
            name=name or problem.name,
            observation_size=shown.shape[1] + (problem.horizon is not None),
            action_low=(-1.0,) * numbers,
            action_high=(1.0,) * numbers,
            cost_names=names,
            max_episode_steps=problem.horizon or max_episode_steps,
        )
        super().__init__(spec, num_envs)
        self.problem = problem
        self._encoding = encoding
        self._features = shown.astype(np.float32)
        self._limit = problem.horizon or max_episode_steps
        self._columns = [problem.cost_names.index(each) for each in names]
        table = problem.table
        self._pairs = np.diff(table.first_pair)  # (states,) actions possible in each
        state = np.repeat(np.arange(problem.states), self._pairs)
        self._pair = np.full((problem.states, problem.actions), -1)
        self._pair[state, table.action] = np.arange(len(state))
        self._until = _cumulative(table.probability, table.first_branch)
        self._states = np.zeros(num_envs, np.int64)
        # Everything random about an episode, drawn when it begins.
        self._luck = np.zeros((num_envs, self._limit))

    def begin(self, rows: Ints, seeds: Sequence[int]) -> Floats:
        """Draw the starting state and the luck of the episode."""
        cumulative = np.cumsum(self.problem.start)
        for row, seed in zip(rows, seeds, strict=True):
            generator = np.random.default_rng(seed)
            place = np.searchsorted(cumulative, generator.random() * cumulative[-1], "right")
            self._states[row] = place
            self._luck[row] = generator.random(self._limit)
        return self.observe(self._states[rows], np.zeros(len(rows), np.int64))

    def advance(self, actions: Floats) -> Outcome:
        """Let each environment's luck pick the branch of its action."""
        table = self.problem.table
        pair = self.pairs(self._states, actions)
        step = np.minimum(self.lengths, self._limit - 1)  # beyond it nobody is awake
        luck = self._luck[np.arange(self.num_envs), step]
        branch = table.first_branch[pair] + (luck[:, None] >= self._until[pair]).sum(1)
        successor = table.successor[branch]
        ended = successor == ENDED
        over = self.lengths + 1 >= self._limit
        self._states = np.where(ended, self._states, successor)
        timed = self.problem.horizon is not None
        return Outcome(
            successor=self.observe(self._states, self.lengths + 1),
            reward=table.reward[branch],
            costs=table.costs[branch][:, self._columns],
            terminated=ended | (over & timed),
            truncated=over & ~ended & (not timed),
        )

    def row_state(self, row: int) -> Arrays:
        """State and luck of the episode."""
        return {"state": np.array(self._states[row]), "luck": self._luck[row].copy()}

    def set_row_state(self, row: int, state: Arrays) -> None:
        """Go on from what `row_state` returned."""
        self._states[row], self._luck[row] = state["state"], state["luck"]

    def encode(self, states: Ints, choices: Ints) -> Floats:
        """Actions in [-1, 1] that make these choices (n,) in these states (n,)."""
        if self._encoding == "argmax":
            return 2.0 * np.eye(self.problem.actions)[choices] - 1.0
        place = self._pair[states, choices] - self.problem.table.first_pair[states]
        return ((2 * place + 1) / self._pairs[states] - 1.0)[:, None]

    @property
    def states(self) -> Ints:
        """The state of each environment, (n,)."""
        return self._states.copy()

    def pairs(self, states: Ints, actions: Floats) -> Ints:
        """What actions (n, size) mean in states (n,): numbers of pairs in the problem's table."""
        chosen: Ints
        if self._encoding == "argmax":
            pair = self._pair[states]  # (n, actions)
            wanted = np.where(pair >= 0, actions, -np.inf).argmax(1)
            chosen = pair[np.arange(len(states)), wanted]
            return chosen
        count = self._pairs[states]
        place = ((np.clip(actions[:, 0], -1.0, 1.0) + 1.0) / 2.0 * count).astype(np.int64)
        first: Ints = self.problem.table.first_pair[states]
        chosen = first + np.minimum(place, count - 1)
        return chosen

    def observe(self, states: Ints, steps: Ints) -> Floats:
        """What is seen in states (n,) after so many steps (n,); (n, obs)."""
        seen = self._features[states]
        if self.problem.horizon is None:
            return seen
        return np.column_stack([seen, 1.0 - steps / self._limit]).astype(np.float32)


def named(
    problem: str,
    num_envs: int,
    name: str,
    encoding: Encoding = "argmax",
    cost_names: Sequence[str] | None = None,
) -> FiniteTask:
    """The task of a problem named ``module:function``, for the registry."""
    module, _, function = problem.partition(":")
    made = getattr(importlib.import_module(module), function)()
    return FiniteTask(made, num_envs, name, encoding=encoding, cost_names=cost_names)


def _cumulative(probability: Floats, first: Ints) -> Floats:
    """Upper ends of the branches' shares of [0, 1), (pairs, most branches); the last has none."""
    until = np.full((len(first) - 1, int(np.diff(first).max())), np.inf)
    for pair, (low, high) in enumerate(pairwise(first)):
        until[pair, : high - low - 1] = np.cumsum(probability[low:high])[:-1]
    return until
