"""Train and resume."""

from __future__ import annotations

import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import Positional, arg

from ucpo.cli.messages import say
from ucpo.config.options import RunConfig
from ucpo.errors import shell

if TYPE_CHECKING:
    from ucpo.runs.run import Run

PREEMPTED = 75  # exit code after SIGTERM: a checkpoint was written, `ucpo resume` goes on


@dataclass(frozen=True)
class Train:
    """Train an agent on a task."""

    config: Annotated[RunConfig, arg(name="")]
    run: str | None = None
    """Folder for the run; by default runs/TASK/METHOD-seedSEED. Must be new."""
    track: Literal["wandb"] | None = None
    """Also log to this service."""

    def __call__(self) -> None:
        """Train, then say where the policy is."""
        from ucpo.runs.run import Run

        folder = Path(self.run) if self.run else "runs" / self.config.folder
        _finish(Run.from_config(self.config).learn(run=folder, track=self.track), folder)


@dataclass(frozen=True)
class Resume:
    """Go on with a run that was stopped or broke off, as if nothing had happened."""

    run: Positional[str]
    """The run's folder."""
    env_steps: int | None = None
    """A new total of environment steps, to extend a run; by default what it was begun with."""
    track: Literal["wandb"] | None = None
    """Also log to this service."""

    def __call__(self) -> None:
        """Train on, then say where the policy is."""
        from ucpo.runs.run import Run

        folder = Path(self.run)
        _finish(Run.resume(folder, env_steps=self.env_steps).learn(track=self.track), folder)


def _finish(run: Run, folder: Path) -> None:
    """Say how a training ended; one that was told to go away ends with a code of its own."""
    made = f"{run.learner.env_steps:,} environment steps, {run.learner.updates:,} updates"
    own = run.config.task
    evaluate = f"ucpo evaluate {shell(folder)}" + (f" --task {shell(own)}" if ":" in own else "")
    network = run.config.networks.own
    evaluate += f" --network {shell(network)}" if network else ""
    if run.interrupted is None:
        say(f"done; the policy is in {folder} ({made}). Next: {evaluate}")
        return
    say(
        f"stopped early; the policy so far is in {folder} ({made}). Next: {evaluate}, or go on "
        f"with ucpo resume {shell(folder)}"
    )
    if run.interrupted is signal.SIGTERM:
        sys.exit(PREEMPTED)
