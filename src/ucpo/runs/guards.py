"""What stops a run that has gone wrong, and leaves what is needed to see why."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Mapping
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np

from ucpo.config.files import read_config
from ucpo.config.options import RunConfig
from ucpo.envs.interface import Arrays, BrokenStepError
from ucpo.envs.registry import Task, make_task
from ucpo.errors import NotFiniteError, UsageError, shell
from ucpo.learners.interface import Learner, Metrics
from ucpo.stock import Start
from ucpo.storage import files
from ucpo.storage.names import BROKEN_STEP, BROKEN_UPDATE, CONFIG_FILE


def finite(metrics: Metrics, learner: Learner) -> Metrics:
    """The metrics of an update, if all are numbers."""
    for name, value in metrics.items():
        if not math.isfinite(value):
            raise NotFiniteError(
                f"update {learner.updates:,} made {name} {float(value)} after "
                f"{learner.env_steps:,} "
                "environment steps; lower learning rates or rewards and costs of a smaller scale "
                "usually help"
            )
    return metrics


def dump(folder: Path, error: NotFiniteError, config: RunConfig, learner: Learner) -> str:
    """Write down what led to an error; returns a sentence on what to do with it."""
    about: dict[str, Any] = {"message": str(error), "task": config.task}
    about |= {"env_steps": learner.env_steps, "updates": learner.updates}
    if isinstance(error, BrokenStepError):
        earlier = learner.recent_actions(error.row, error.made - error.held)
        name = BROKEN_STEP
        about |= {"environment": error.row, "seed": error.start.seed}
        about |= {
            "step_of_episode": error.made + 1,
            "complete": len(earlier) + error.held == error.made,
        }
        held = [error.action] * (error.held + 1)
        arrays = {"actions": np.vstack([earlier, *held]), "stock": error.start.stock}
        hint = (
            f"ucpo.runs.guards.reproduce({str(folder)!r}) plays the episode again up to that step"
        )
    else:
        name, arrays = BROKEN_UPDATE, learner.state()
        resume = f"ucpo resume {shell(folder)}"
        hint = f"{resume} goes on before it, and meets it again unless something differs"
    about |= {"reproduce": hint}
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **_named(arrays))
    files.replace(folder / f"{name}.npz", buffer.getvalue())
    files.replace(folder / f"{name}.json", json.dumps(about, indent=2).encode())
    return f"What led to it is in {folder / name}.json and .npz; {hint}"


def reproduce(run: str | Path, task: Task | None = None) -> None:
    """Play the episode that broke a run again; raises the same error if it breaks again.

    Args:
        run: The run's folder, with a ``broken-step.json``.
        task: For a run whose task was a function: that function.
    """
    folder = Path(run)
    try:
        about: Mapping[str, Any] = json.loads((folder / f"{BROKEN_STEP}.json").read_text())
        with np.load(folder / f"{BROKEN_STEP}.npz", allow_pickle=False) as file:
            actions, stock = file["actions"], file["stock"]
        start = Start(int(about["seed"]), stock)
    except (OSError, ValueError, KeyError, TypeError, UsageError) as error:
        raise UsageError(f"{folder} holds no broken step that can be read ({error})") from None
    config = read_config(folder / CONFIG_FILE)
    played = make_task(config.task if task is None else task, 1, config.costs or None)
    try:
        played.reset(repeat(start), config.stock_discount)
        for action in actions:
            played.step(action[None])
    finally:
        played.close()


def _named(arrays: Arrays) -> Any:
    """Names fit for an archive: no folders in it."""
    return {name.replace("/", "."): value for name, value in arrays.items()}
