"""The loop: collect, improve, observe episodes, log."""

from __future__ import annotations

from collections.abc import Callable

from ucpo.envs.interface import Episodes, Hold, VectorTask
from ucpo.learners.interface import Learner
from ucpo.problem import Floats
from ucpo.runs.guards import finite
from ucpo.runs.progress import Progress
from ucpo.runs.sinks import Journal


def train(
    learner: Learner,
    task: VectorTask,
    begun: tuple[Floats, Floats],
    progress: Progress,
    journal: Journal,
    *,
    hold: Hold,
    stopped: Callable[[], bool] = lambda: False,
    save: Callable[[], None] = lambda: None,
    on_episodes: Callable[[Episodes], object] = lambda episodes: None,
) -> None:
    """Train up to the goal, or until stopped.

    Args:
        learner: What acts and learns; may have learned before.
        task: The batch of environments, with episodes under way.
        begun: What it says to act on: observations (n, obs) and stocks (n, C).
        progress: How far the training is, and its goal.
        journal: Where metrics go.
        hold: How long decisions are kept.
        stopped: Asked after every iteration; True ends the training.
        save: Called after every iteration; may write a checkpoint.
        on_episodes: Told of episodes as they finish.
    """
    obs, stock = begun
    while learner.env_steps < progress.goal and not stopped():
        actions = learner.act(obs, stock)
        step = task.step(actions, hold)
        learner.remember(obs, stock, actions, step)
        learner.observe(step.episodes)
        progress.observe(step.episodes)
        if len(step.episodes):
            on_episodes(step.episodes)
        obs, stock = step.obs, step.stock
        for metrics in learner.improve():
            progress.learned |= finite(metrics, learner)
        if progress.due():
            journal.write(progress.row(), progress.timing())
        save()
