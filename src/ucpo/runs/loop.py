"""The loop: collect, update, observe episodes, log."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch

from ucpo.storage import states
from ucpo.learners.ucp import UCPAgent
from ucpo.envs.interface import Arrays, Episodes, Hold, VectorTask
from ucpo.runs.guards import finite
from ucpo.runs.sinks import Journal, Row
from ucpo.problem import Floats
from ucpo.runs.progress import Progress

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
