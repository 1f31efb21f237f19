"""Replay of single transitions, assembled into n-step windows when sampled."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np
import torch
from torch import Tensor

from ucpo.envs.interface import Arrays, Ints, Step
from ucpo.errors import UsageError
from ucpo.learners.compiled.kernels import assemble_windows
from ucpo.problem import Floats
from ucpo.storage import states


@dataclass(frozen=True, slots=True)
class Batch:
    """Windows of up to n decisions. Stocks are in cost units."""

    obs: Tensor  # (batch, obs)
    stock: Tensor  # (batch, C)
    action: Tensor  # (batch, action)
    initial_stock: Tensor  # (batch, C) of the episode the window came from
    reward: Tensor  # (batch,) discounted sum over the window
    costs: Tensor  # (batch, C) likewise, with the discount of costs
    successor: Tensor  # (batch, obs) at the end of the window
    successor_stock: Tensor  # (batch, C)
    discount: Tensor  # (batch,) gamma^k after k environment steps, 0 after a termination
    cost_discount: Tensor  # (batch,) the same for costs

    def to(self, device: torch.device) -> Batch:
        """The same on a device."""
        if device == self.obs.device:
            return self
        names = (field.name for field in fields(self))
        return Batch(**{name: getattr(self, name).to(device) for name in names})

    def under(self, initial_stock: Tensor) -> Batch:
        """The same, the first k windows as if their episodes had begun with these stocks, (k, C).

        A task does not depend on the stock, so only what had been spent is carried over. This holds
        for undiscounted stocks; discounted ones grow apart.
        """
        others = torch.cat([initial_stock, self.initial_stock[len(initial_stock) :]])
        shift = others - self.initial_stock
        return replace(
            self,
            stock=self.stock + shift,
            successor_stock=self.successor_stock + shift,
            initial_stock=others,
        )


class Replay:
    """The last `capacity` transitions of `num_envs` environments, in rows of one iteration each.

    A window of n decisions stops early where its episode ended or the newest row is reached; it
    never reaches into another episode. After a time limit it bootstraps from the episode's last
    observation, after a termination it does not bootstrap.
    """

    def __init__(
        self,
        capacity: int,
        num_envs: int,
        observation_size: int,
        action_size: int,
        cost_size: int,
        n_step: int,
        gamma: float,
        cost_gamma: float,
        hold: int = 1,
    ) -> None:
        if capacity < num_envs:
            raise UsageError(f"replay capacity must be at least num_envs={num_envs}: {capacity}")
        rows, D, C, A = capacity // num_envs, observation_size, cost_size, action_size
        # Zeros take no memory until they are written to: a large capacity costs nothing at first.
        self._before = np.zeros((rows, num_envs, D + C + A + C), np.float32)
        self._after = np.zeros((rows, num_envs, D + C), np.float32)
        self._gains = np.zeros((rows, num_envs, 1 + C), np.float32)  # reward, costs
        self._env_steps = np.zeros((rows, num_envs), np.uint16)  # a decision was kept for
        self._terminated = np.zeros((rows, num_envs), np.bool_)
        self._ended = np.zeros((rows, num_envs), np.bool_)
        self._splits = np.cumsum([D, C, A])
        self._widths = [D, C, A, C]
        gammas = np.array([gamma] + [cost_gamma] * C)
        self._n_step = n_step
        # Of what comes so many environment steps after a window's beginning.
        self._decay = (gammas ** np.arange(n_step * hold + 1)[:, None]).astype(np.float32)
        self._rows_written = 0

    def __len__(self) -> int:
        rows, num_envs = self._ended.shape
        return min(self._rows_written, rows) * num_envs

    def add(self, obs: Floats, stock: Floats, actions: Floats, step: Step) -> None:
        """Store one iteration: what was seen and done, (n, ...) each, and what came of it."""
        row = self._rows_written % len(self._ended)
        np.concatenate([obs, stock, actions, step.initial_stock], axis=1, out=self._before[row])
        np.concatenate([step.successor, step.successor_stock], axis=1, out=self._after[row])
        self._gains[row, :, 0] = step.reward
        self._gains[row, :, 1:] = step.costs
        self._env_steps[row] = step.env_steps
        self._terminated[row] = step.terminated
        self._ended[row] = step.terminated | step.truncated
        if step.lost is not None and step.lost.any():
            self._overwrite_lost(row, np.flatnonzero(step.lost))
        self._rows_written += 1

    def _overwrite_lost(self, row: int, envs: Ints) -> None:
        """Where an environment broke nothing was learned: repeat what it did before, twice over.

        A window must reach neither into nor across the gap, so both copies end their episode.
        """
        if self._rows_written == 0:
            raise UsageError("an environment broke in its very first step; see that it works")
        self.cut(envs)
        for column in self._columns().values():
            column[row, envs] = column[row - 1, envs]

    def cut(self, envs: Ints | slice = slice(None)) -> None:
        """Let the newest transitions of some environments be the last of their episodes."""
        if self._rows_written:
            self._ended[(self._rows_written - 1) % len(self._ended), envs] = True

    def actions(self, env: int, count: int) -> Floats:
        """What an environment did in its latest steps, (k, action).

        There are as many as asked for, or as are kept.
        """
        kept = min(count, self._rows_written, self.rows_kept)
        places = np.arange(self._rows_written - kept, self._rows_written) % self.rows_kept
        decisions = self._before[places, env, self._splits[1] : self._splits[2]]
        made = np.repeat(decisions, self._env_steps[places, env], axis=0)
        return made[len(made) - min(count, len(made)) :]

    def mean_reward(self) -> float:
        """Of what is kept, per environment step."""
        kept = slice(min(self._rows_written, self.rows_kept))
        return float(self._gains[kept, :, 0].sum() / max(self._env_steps[kept].sum(), 1))

    # Rows are saved by their number since the beginning, so that only new ones need writing.

    @property
    def rows_written(self) -> int:
        """Rows ever added; the last `rows_kept` of them are still here."""
        return self._rows_written

    @property
    def rows_kept(self) -> int:
        """Rows there is room for."""
        return len(self._ended)

    @property
    def row_bytes(self) -> int:
        """Size of one row."""
        return sum(column[0].nbytes for column in self._columns().values())

    def rows(self, first: int, last: int) -> Arrays:
        """Copies of the rows of these numbers, `last` excluded; they must still be here."""
        places = np.arange(first, last) % self.rows_kept
        return {name: column[places] for name, column in self._columns().items()}

    def restore(self, first: int, rows: Arrays) -> None:
        """Put rows back, the first of them with this number; older ones must come first."""
        count = len(rows.get("ended", ()))
        like = {
            name: np.broadcast_to(column[:1], (count, *column.shape[1:]))
            for name, column in self._columns().items()
        }
        states.fit(rows, like, "replay")
        places = np.arange(first, first + count) % self.rows_kept
        for name, column in self._columns().items():
            column[places] = rows[name]
        self._rows_written = first + count

    def _columns(self) -> Arrays:
        return {
            "before": self._before,
            "after": self._after,
            "gains": self._gains,
            "env_steps": self._env_steps,
            "terminated": self._terminated,
            "ended": self._ended,
        }

    def sample(self, batch: int, generator: np.random.Generator) -> Batch:
        """Windows that begin at transitions drawn uniformly, with replacement."""
        _, num_envs = self._ended.shape
        rows, envs = np.divmod(generator.integers(len(self), size=batch), num_envs)
        return self.windows(rows, envs)

    def windows(self, rows: Ints, envs: Ints) -> Batch:
        """The windows that begin at the given rows and environments, (batch,) each."""
        newest = (self._rows_written - 1) % len(self._ended)
        gains = np.zeros((len(rows), self._gains.shape[2]), np.float32)
        last, discount = np.empty_like(rows), np.empty_like(gains)
        past = (self._gains, self._env_steps, self._ended, self._terminated)
        limits = (newest, self._n_step)
        assemble_windows(*past, *limits, rows, envs, self._decay, gains, last, discount)

        before, after = _taken(self._before, rows, envs), _taken(self._after, last, envs)
        obs, stock, action, initial_stock = torch.split(before, self._widths, dim=1)
        successor, successor_stock = torch.split(after, self._widths[:2], dim=1)
        return Batch(
            obs=obs,
            stock=stock,
            action=action,
            initial_stock=initial_stock,
            reward=torch.from_numpy(gains[:, 0]),
            costs=torch.from_numpy(gains[:, 1:]),
            successor=successor,
            successor_stock=successor_stock,
            discount=torch.from_numpy(discount[:, 0]),
            cost_discount=torch.from_numpy(discount[:, 1]),
        )


def _taken(kept: Floats, rows: Ints, envs: Ints) -> Tensor:
    """Some transitions of (rows, environments, numbers), whole ones at once, (batch, numbers)."""
    _, num_envs, wide = kept.shape
    return torch.from_numpy(kept.reshape(-1, wide).take(rows * num_envs + envs, axis=0))
