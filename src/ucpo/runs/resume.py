"""From a training to its checkpoints and back."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ucpo.config.files import parse_config, read_config, to_toml
from ucpo.config.options import RunConfig
from ucpo.errors import UsageError, shell
from ucpo.policies.critics import save_critics
from ucpo.runs.checkpoints import Checkpoint, Checkpoints, DamagedError, any_written, checkpoints
from ucpo.runs.folder import RunFolder, logged
from ucpo.runs.status import policy_steps
from ucpo.runs.training import Training
from ucpo.storage import files
from ucpo.storage.names import CHECKPOINT_FOLDER, CONFIG_FILE, CRITICS_FILE, POLICY_FILE

Make = Callable[[RunConfig], Training]


class Saver:
    """Writes checkpoints of a training, and the policy with them; called after every iteration.

    Args:
        training: What to save.
        folder: Where.
        last: The checkpoint the training goes on from; None where it begins.
        stopped: Whether to give up waiting for room on a full disk.
    """

    def __init__(
        self,
        training: Training,
        folder: RunFolder,
        last: Checkpoint | None,
        stopped: Callable[[], bool],
    ) -> None:
        self._training, self._folder, self._stopped = training, folder, stopped
        self._checkpoints = Checkpoints(
            folder.path,
            training.learner.memory,
            minutes=training.config.checkpoint_every,
            env_steps=training.config.checkpoint_steps,
            last=last,
        )

    def __call__(self) -> None:
        """Keep up with the memory; write a checkpoint if it is time for one."""
        files.patiently(self._checkpoints.keep_up, self._stopped)
        if self._checkpoints.due(self._training.learner.env_steps):
            self.write()

    def write(self) -> None:
        """Write a checkpoint, unless nothing happened since the last one, and the policy."""
        if not self._checkpoints.holds(self._training.learner.env_steps):
            files.patiently(self._write, self._stopped)
        files.patiently(self.write_policy, self._stopped)

    def write_policy(self) -> None:
        """Write the policy as it stands, and its critics where it has some."""
        policy, path = self._training.learner.policy(), self._folder.path
        policy.save(path / POLICY_FILE)
        if policy.critics is not None:
            save_critics(policy.critics, policy.info, path / CRITICS_FILE)

    def _write(self) -> None:
        state = {
            "config": np.frombuffer(to_toml(self._training.config).encode(), np.uint8),
            "metrics": np.frombuffer(self._folder.metrics(), np.uint8),
            **self._training.state(),
        }
        self._checkpoints.write(state, self._training.learner.env_steps)


@dataclasses.dataclass(frozen=True)
class Resumed:
    """A training that goes on, in its folder."""

    training: Training
    folder: RunFolder
    checkpoint: Checkpoint | None  # None: it broke off before the first one
    metrics: bytes  # what metrics.csv held


def resume(path: Path, make: Make) -> Resumed:
    """Restore the newest checkpoint that is whole into what `make` makes of its configuration."""
    if not (path / CONFIG_FILE).is_file():
        raise UsageError(f"there is no run in {path}: it has no {CONFIG_FILE}")
    folder = RunFolder(path)
    try:
        with logged(path, show=True):
            return _newest(folder, make)
    except BaseException:
        folder.close()
        raise


def _newest(folder: RunFolder, make: Make) -> Resumed:
    path = folder.path
    if not any_written(path):
        if (path / POLICY_FILE).is_file():
            raise UsageError(
                f"the run in {path} has a policy but no checkpoint to go on from (its folder "
                f"{CHECKPOINT_FOLDER} is gone); nothing was changed. To train again, choose "
                "another folder: ucpo train ... --run NAME"
            )
        files.log.info("%s has no checkpoint yet: it begins anew", path)
        return Resumed(make(read_config(path / CONFIG_FILE)), folder, None, b"")
    for checkpoint in checkpoints(path):
        try:
            resumed = _restored(folder, checkpoint, make)
        except DamagedError as error:
            files.log.warning("%s; trying the checkpoint before it", error)
            continue
        steps = resumed.training.learner.env_steps
        goal = resumed.training.config.env_steps
        if steps >= goal and policy_steps(path) == steps:
            raise UsageError(
                f"the run in {path} is finished: it has made {steps:,} of {goal:,} environment "
                f"steps. To extend it, name a larger total: ucpo resume {shell(path)} --env-steps "
                f"{2 * steps}"
            )
        files.log.info("%s goes on at %s of %s environment steps", path, f"{steps:,}", f"{goal:,}")
        return resumed
    raise UsageError(
        f"no checkpoint in {path} is whole, so the run cannot go on; its policy may still be of "
        "use. Train anew with another --run"
    )


def _restored(folder: RunFolder, checkpoint: Checkpoint, make: Make) -> Resumed:
    state = checkpoint.state()
    try:
        config = parse_config(state["config"].tobytes().decode(), "configuration in the checkpoint")
        written = read_config(folder.path / CONFIG_FILE)
        config = dataclasses.replace(config, env_steps=written.env_steps)  # it may be extended
        if config != written:
            files.log.warning(
                "%s was changed since the checkpoint; the run goes on with what it was", CONFIG_FILE
            )
        training = make(config)
        if training.learner.memory is not None:
            checkpoint.restore(training.learner.memory)
        training.restore(state)
        steps = training.learner.env_steps
        if steps != checkpoint.env_steps:
            raise ValueError(f"it is of step {steps}, not {checkpoint.env_steps}")
        return Resumed(training, folder, checkpoint, state["metrics"].tobytes())
    except UsageError:
        raise
    except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
        raise DamagedError(
            f"{checkpoint.state_part.name} does not hold a run ({type(error).__name__}: {error})"
        ) from None
