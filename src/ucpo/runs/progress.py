"""How far a training is, and its metrics as they stand."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field

import numpy as np
import torch

from ucpo.envs.interface import Arrays, Episodes
from ucpo.learners.interface import Learner
from ucpo.problem import BudgetGrid
from ucpo.runs.sinks import Row
from ucpo.storage import names, states

BANDS = 4  # of budgets, for reporting


@dataclass
class Progress:
    """How far a training is: statistics over recent episodes, overall and by band of budget."""

    learner: Learner
    grid: BudgetGrid  # the budgets trained for
    cost_names: tuple[str, ...]
    goal: int  # environment steps, over all environments together
    log_every: int  # environment steps between rows of metrics
    episodes: int = 0
    next_log: int = 0
    learned: dict[str, torch.Tensor] = field(default_factory=dict)  # the latest of each metric
    _recent: deque[tuple[float, int, np.ndarray, np.ndarray]] = field(
        default_factory=lambda: deque(maxlen=400)
    )
    _clock: tuple[float, int] = (0.0, 0)  # when the last row was written, and at which step

    def __post_init__(self) -> None:
        self._clock = (time.perf_counter(), self.learner.env_steps)
        self.next_log = self.learner.env_steps + self.log_every
        self.learned = dict.fromkeys(self.learner.metrics, torch.tensor(float("nan")))

    def observe(self, episodes: Episodes) -> None:
        """Note finished episodes."""
        self.episodes += len(episodes)
        self._recent.extend(
            zip(
                episodes.returns,
                episodes.lengths,
                -episodes.initial_stock,
                episodes.costs,
                strict=True,
            )
        )

    def due(self) -> bool:
        """Whether it is time for a row of metrics; asked once after every iteration."""
        now = self.learner.env_steps
        if now < min(self.next_log, self.goal):
            return False
        self.next_log += self.log_every
        return True

    def row(self) -> Row:
        """Metrics as they stand; nothing in them depends on the clock."""
        row: Row = {
            "env_steps": self.learner.env_steps,
            "updates": self.learner.updates,
            "episodes": self.episodes,
        }
        recent = self._recent_columns()
        row["return"] = _mean(recent["returns"])
        row["length"] = _mean(recent["lengths"])
        budgets, costs = recent["budgets"], recent["costs"]
        for cost, name in enumerate(self.cost_names):
            row |= self._columns(name, cost, budgets[:, cost], costs[:, cost])
        return row | {name: float(value) for name, value in self.learned.items()}

    def state(self) -> Arrays:
        """What `restore` needs to go on from here."""
        counts = (self.episodes, self.next_log)
        return {
            **states.within("recent", self._recent_columns()),
            "counts": np.array(counts, np.int64),
            "learned": np.array([float(self.learned[name]) for name in self.learner.metrics]),
        }

    def restore(self, state: Arrays) -> None:
        """Go on from a saved state."""
        recent, size = states.part(state, "recent"), (len(self.cost_names),)
        episodes = min(len(recent.get("returns", ())), self._recent.maxlen or 0)
        like: Arrays = {
            "returns": np.zeros(episodes),
            "lengths": np.zeros(episodes, np.int64),
            "budgets": np.zeros((episodes, *size), np.float32),
            "costs": np.zeros((episodes, *size)),
        }
        states.fit(recent, like, "recent episodes")
        rest = {key: value for key, value in state.items() if "/" not in key}
        metrics = np.zeros(len(self.learner.metrics))
        states.fit(rest, {"counts": np.zeros(2, np.int64), "learned": metrics}, "progress")
        self._recent.clear()
        self._recent.extend(zip(*(recent[name] for name in like), strict=True))
        self.episodes, self.next_log = map(int, rest["counts"])
        values = torch.from_numpy(rest["learned"])
        self.learned = dict(zip(self.learner.metrics, values, strict=True))

    def _recent_columns(self) -> Arrays:
        """Returns, lengths, budgets and costs of the recent episodes, (k, ...) each."""
        C = len(self.cost_names)
        kinds = {"returns": np.float64, "lengths": np.int64, "budgets": np.float32, "costs": float}
        columns = zip(*self._recent, strict=True) if self._recent else ((),) * len(kinds)
        shapes = [(-1,), (-1,), (-1, C), (-1, C)]
        return {
            name: np.asarray(column, kind).reshape(shape)
            for (name, kind), column, shape in zip(kinds.items(), columns, shapes, strict=True)
        }

    def _columns(self, name: str, cost: int, budgets: np.ndarray, costs: np.ndarray) -> Row:
        """Cost, violation rate, expected excess and price of one cost, overall and by band."""
        row: Row = {names.column(names.COST, name): _mean(costs)}
        tables, levels = self.learner.prices(), -self.grid.stocks(cost)
        for label, low, high in bands(self.grid, cost):
            # A single budget is that of all episodes, also where a schedule lowers it.
            inside = (budgets >= low) & (budgets <= high) | (self.grid.levels[cost] == 1)
            over = costs[inside] - budgets[inside]
            row[names.column(names.VIOLATIONS, name, label)] = _mean(over > 0.0)
            row[names.column(names.EXCESS, name, label)] = _mean(np.maximum(over, 0.0))
            if tables:
                prices = tables[cost][(levels >= low) & (levels <= high)]
                row[names.column(names.PRICE, name, label)] = _mean(prices)
        return row

    def timing(self) -> Row:
        """Environment steps per second since the last row, seconds left at that speed, the goal."""
        before, self._clock = self._clock, (time.perf_counter(), self.learner.env_steps)
        seconds, steps = (now - then for now, then in zip(self._clock, before, strict=True))
        speed = steps / max(seconds, 1e-9)
        left = (self.goal - self.learner.env_steps) / max(speed, 1e-9)
        return {"steps_per_second": speed, "left": left, "goal": self.goal}


def bands(grid: BudgetGrid, cost: int) -> list[tuple[str, float, float]]:
    """The trained budgets of one cost in at most `BANDS` groups of levels: label, low, high."""
    levels = np.sort(-grid.stocks(cost))
    groups = np.array_split(levels, min(BANDS, len(levels)))
    return [
        (f"{g[0]:g}" if len(g) == 1 else f"{g[0]:g}-{g[-1]:g}", float(g[0]), float(g[-1]))
        for g in groups
    ]


def _mean(values: np.ndarray) -> float:
    return float(np.mean(values)) if len(values) else float("nan")
