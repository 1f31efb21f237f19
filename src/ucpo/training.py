"""The loop: collect, update, observe episodes, log."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch

from ucpo import states
from ucpo.agents.ucp import UCPAgent
from ucpo.envs.interface import Arrays, Episodes, Hold, VectorTask
from ucpo.guards import finite
from ucpo.journal import Journal, Row
from ucpo.problem import BudgetGrid, Floats

BANDS = 4  # of budgets, for reporting


def train(
    agent: UCPAgent,
    task: VectorTask,
    begun: tuple[Floats, Floats],
    progress: Progress,
    journal: Journal,
    *,
    random_steps: int,
    updates: int,
    hold: Hold,
    generator: np.random.Generator,
    stopped: Callable[[], bool] = lambda: False,
    save: Callable[[], None] = lambda: None,
) -> None:
    """Train up to the goal, or until stopped.

    Args:
        agent: What acts and learns; may have learned before.
        task: The batch of environments, with episodes under way.
        begun: What it says to act on: observations (n, obs) and stocks (n, C).
        progress: How far the training is, and its goal.
        journal: Where metrics go.
        random_steps: With fewer environment steps made, actions are uniformly random, no updates.
        updates: Updates per iteration of all environments.
        hold: How long decisions are kept.
        generator: For the random actions.
        stopped: Asked after every iteration; True ends the training.
        save: Called after every iteration; may write a checkpoint.
    """
    shape = (task.num_envs, task.spec.action_size)
    obs, stock = begun
    while agent.env_steps < progress.goal and not stopped():
        learning = agent.env_steps >= random_steps
        if learning:
            actions = agent.act(obs, stock)
        else:
            actions = generator.uniform(-1.0, 1.0, shape).astype(np.float32)
        step = task.step(actions, hold)
        agent.remember(obs, stock, actions, step)
        agent.observe(step.episodes)
        progress.observe(step.episodes)
        obs, stock = step.obs, step.stock
        if learning:
            for _ in range(updates):
                progress.learned |= finite(agent.update(), agent)
        if agent.env_steps >= progress.next_log or agent.env_steps >= progress.goal:
            progress.next_log += progress.log_every
            journal.write(progress.row(), progress.timing())
        save()


@dataclass
class Progress:
    """How far a training is: statistics over recent episodes, overall and by band of budget."""

    agent: UCPAgent
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
        self._clock = (time.perf_counter(), self.agent.env_steps)
        self.next_log = self.agent.env_steps + self.log_every
        self.learned = dict.fromkeys(self.agent.METRICS, torch.tensor(float("nan")))

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

    def row(self) -> Row:
        """Metrics as they stand; nothing in them depends on the clock."""
        agent = self.agent
        row: Row = {
            "env_steps": agent.env_steps,
            "updates": agent.updates,
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
            "learned": np.array([float(self.learned[name]) for name in self.agent.METRICS]),
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
        metrics = np.zeros(len(self.agent.METRICS))
        states.fit(rest, {"counts": np.zeros(2, np.int64), "learned": metrics}, "progress")
        self._recent.clear()
        self._recent.extend(zip(*(recent[name] for name in like), strict=True))
        self.episodes, self.next_log = map(int, rest["counts"])
        values = torch.from_numpy(rest["learned"])
        self.learned = dict(zip(self.agent.METRICS, values, strict=True))

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
        row: Row = {f"cost/{name}": _mean(costs)}
        prices = self.agent.multipliers.tables()[cost].numpy()
        levels = -self.grid.stocks(cost)
        for label, low, high in bands(self.grid, cost):
            inside = (budgets >= low) & (budgets <= high)
            over = costs[inside] - budgets[inside]
            row[f"violations/{name}/{label}"] = _mean(over > 0.0)
            row[f"excess/{name}/{label}"] = _mean(np.maximum(over, 0.0))
            row[f"price/{name}/{label}"] = _mean(prices[(levels >= low) & (levels <= high)])
        return row

    def timing(self) -> Row:
        """Environment steps per second since the last row, seconds left at that speed, the goal."""
        before, self._clock = self._clock, (time.perf_counter(), self.agent.env_steps)
        seconds, steps = (now - then for now, then in zip(self._clock, before, strict=True))
        speed = steps / max(seconds, 1e-9)
        left = (self.goal - self.agent.env_steps) / max(speed, 1e-9)
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
