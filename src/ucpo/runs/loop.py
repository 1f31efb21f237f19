"""The loop: collect, improve, observe episodes, log."""

from __future__ import annotations

from collections.abc import Callable

from ucpo.envs.interface import Episodes
from ucpo.learners.interface import Learner
from ucpo.runs.collection import Source
from ucpo.runs.guards import finite
from ucpo.runs.progress import Progress
from ucpo.runs.sinks import Journal


def train(
    learner: Learner,
    source: Source,
    progress: Progress,
    journal: Journal,
    *,
    stopped: Callable[[], bool] = lambda: False,
    save: Callable[[], None] = lambda: None,
    on_episodes: Callable[[Episodes], object] = lambda episodes: None,
) -> None:
    """Train up to the goal, or until stopped.

    Args:
        learner: What acts and learns; may have learned before.
        source: Where its decisions and what came of them are made.
        progress: How far the training is, and its goal.
        journal: Where metrics go.
        stopped: Asked after every iteration; True ends the training.
        save: Called after every iteration whose source is settled; may write a checkpoint.
        on_episodes: Told of episodes as they finish.
    """
    while learner.env_steps < progress.goal and not (source.settled and stopped()):
        obs, stock, actions, step = source.decide(progress.goal - learner.env_steps)
        learner.remember(obs, stock, actions, step)
        learner.observe(step.episodes)
        progress.observe(step.episodes)
        if len(step.episodes):
            on_episodes(step.episodes)
        for metrics in learner.improve():
            progress.learned |= finite(metrics, learner)
        if progress.due():
            journal.write(progress.row(), progress.timing())
        if source.settled:
            save()
