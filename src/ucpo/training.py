"""The loop: collect, update, observe episodes, log."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import torch

from ucpo.agents.ucp import UCPAgent
from ucpo.envs.interface import Episodes, VectorTask
from ucpo.journal import Journal, Row
from ucpo.problem import BudgetGrid
from ucpo.stock import Start

BANDS = 4  # of budgets, for reporting


def train(
    agent: UCPAgent,
    task: VectorTask,
    starts: Iterator[Start],
    grid: BudgetGrid,
    journal: Journal,
    *,
    env_steps: int,
    random_steps: int,
    updates: int,
    log_every: int,
    stock_discount: float,
    generator: np.random.Generator,
    stopped: Callable[[], bool] = lambda: False,
) -> None:
    """Train for a number of environment steps (of all environments together), or until stopped.

    Args:
        agent: What acts and learns; may have learned before.
        task: The batch of environments.
        starts: Seeds and initial stocks of the episodes to come.
        grid: The budgets trained for; metrics are reported by bands of them.
        journal: Where metrics go.
        env_steps: Environment steps to make in this call.
        random_steps: With fewer environment steps made, actions are uniformly random, no updates.
        updates: Updates per iteration of all environments.
        log_every: Environment steps between rows of metrics.
        stock_discount: See `ucpo.stock.advance`.
        generator: For the random actions.
        stopped: Asked after every iteration; True ends the training.
    """
    progress = Progress(agent, grid, task.spec.cost_names, goal=agent.env_steps + env_steps)
    next_log = agent.env_steps + log_every
    shape = (task.num_envs, task.spec.action_size)
    obs, stock = task.reset(starts, stock_discount)
    learned = dict.fromkeys(agent.METRICS, torch.tensor(float("nan")))
    while agent.env_steps < progress.goal and not stopped():
        learning = agent.env_steps >= random_steps
        if learning:
            actions = agent.act(obs, stock)
        else:
            actions = generator.uniform(-1.0, 1.0, shape).astype(np.float32)
        step = task.step(actions)
        agent.remember(obs, stock, actions, step)
        agent.observe(step.episodes)
        progress.observe(step.episodes)
        obs, stock = step.obs, step.stock
        if learning:
            for _ in range(updates):
                learned |= agent.update()
        if agent.env_steps >= next_log or agent.env_steps >= progress.goal:
            next_log += log_every
            journal.write(progress.row(learned), progress.timing())


@dataclass
class Progress:
    """Statistics over recent episodes, overall and by band of budget."""

    agent: UCPAgent
    grid: BudgetGrid
    cost_names: tuple[str, ...]
    goal: int
    episodes: int = 0
    _recent: deque[tuple[float, int, np.ndarray, np.ndarray]] = field(
        default_factory=lambda: deque(maxlen=400)
    )
    _clock: tuple[float, int] = (0.0, 0)  # when the last row was written, and at which step

    def __post_init__(self) -> None:
        self._clock = (time.perf_counter(), self.agent.env_steps)

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

    def row(self, learned: dict[str, torch.Tensor]) -> Row:
        """Metrics as they stand; nothing in them depends on the clock."""
        agent = self.agent
        row: Row = {
            "env_steps": agent.env_steps,
            "updates": agent.updates,
            "episodes": self.episodes,
        }
        returns, lengths, budgets, costs = (
            map(np.asarray, zip(*self._recent, strict=True))
            if self._recent
            else (np.empty(0), np.empty(0), *[np.empty((0, len(self.cost_names)))] * 2)
        )
        row["return"] = _mean(returns)
        row["length"] = _mean(lengths)
        for cost, name in enumerate(self.cost_names):
            row |= self._columns(name, cost, budgets[:, cost], costs[:, cost])
        return row | {name: float(value) for name, value in learned.items()}

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
