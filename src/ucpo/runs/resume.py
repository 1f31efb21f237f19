"""From a training to its checkpoints and back."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np

from ucpo.storage import files, states
from ucpo.policies.policy import POLICY_FILE, Policy
from ucpo.policies.critics import CRITICS_FILE, save_critics
from ucpo.learners.ucp import UCPAgent
from ucpo.runs.checkpoints import Checkpoint, Checkpoints, DamagedError, any_written, checkpoints
from ucpo.config.options import RunConfig
from ucpo.config.files import parse_config, read_config, to_toml
from ucpo.envs.interface import Arrays, VectorTask
from ucpo.errors import UsageError
from ucpo.runs.folder import CONFIG_FILE, RunFolder, logged
from ucpo.problem import Floats
from ucpo.stock import Start
from ucpo.runs.progress import Progress


class Run(Protocol):
    """What a training consists of, and so what a checkpoint holds."""

    config: RunConfig
    agent: UCPAgent
    task: VectorTask
    generator: np.random.Generator  # of the starts of episodes and of random actions

    def starts(self) -> Iterator[Start]:
        """Of the episodes to come, from the generator."""

    def progress(self) -> Progress:
        """At the beginning."""

    def policy(self) -> Policy:
        """The policy as it stands."""


@dataclass(frozen=True, slots=True)
class Resumed:
    """Where a training goes on."""

    folder: RunFolder
    progress: Progress
    begun: tuple[Floats, Floats] | None = None  # what to act on; None: new episodes begin
    checkpoint: Checkpoint | None = None  # None: it broke off before the first one
    metrics: bytes = b""  # what metrics.csv held


class Saver:
    """Writes checkpoints of a training, and the policy with them; called after every iteration."""

    def __init__(
        self,
        run: Run,
        progress: Progress,
        folder: RunFolder,
        last: Checkpoint | None,
        stopped: Callable[[], bool],
    ) -> None:
        config = run.config
        self._run, self._progress, self._folder, self._stopped = run, progress, folder, stopped
        self._checkpoints = Checkpoints(
            folder.path,
            run.agent.replay,
            minutes=config.checkpoint_every,
            env_steps=config.checkpoint_steps,
            last=last,
        )

    def __call__(self) -> None:
        """Keep up with the replay; write a checkpoint if it is time for one."""
        files.patiently(self._checkpoints.keep_up, self._stopped)
        if self._checkpoints.due(self._run.agent.env_steps):
            self.write()

    def write(self) -> None:
        """Write a checkpoint, unless nothing happened since the last one, and the policy."""
        if not self._checkpoints.holds(self._run.agent.env_steps):
            files.patiently(self._write, self._stopped)
        files.patiently(self.write_policy, self._stopped)

    def write_policy(self) -> None:
        """Write the policy as it stands, and its critics."""
        policy, path = self._run.policy(), self._folder.path
        policy.save(path / POLICY_FILE)
        agent = self._run.agent
        save_critics(agent.normaliser.plain(agent.critics), policy.info, path / CRITICS_FILE)

    def _write(self) -> None:
        run = self._run
        state = {
            "config": np.frombuffer(to_toml(run.config).encode(), np.uint8),
            "metrics": np.frombuffer(self._folder.metrics(), np.uint8),
            **states.within("agent", run.agent.state()),
            **states.within("generator", states.of_generator(run.generator)),
            **states.within("progress", self._progress.state()),
            **states.within("task", run.task.get_state() if run.task.can_be_saved else {}),
        }
        self._checkpoints.write(state, run.agent.env_steps)


AnyRun = TypeVar("AnyRun", bound=Run)


def resume(path: Path, make: Callable[[RunConfig], AnyRun]) -> tuple[AnyRun, Resumed]:
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


def _newest(folder: RunFolder, make: Callable[[RunConfig], AnyRun]) -> tuple[AnyRun, Resumed]:
    path = folder.path
    if not any_written(path):
        files.log.info("%s has no checkpoint yet: it begins anew", path)
        run = make(read_config(path / CONFIG_FILE))
        return run, Resumed(folder, run.progress())
    for checkpoint in checkpoints(path):
        try:
            run, resumed = _restored(folder, checkpoint, make)
        except DamagedError as error:
            files.log.warning("%s; trying the checkpoint before it", error)
            continue
        steps, goal = run.agent.env_steps, run.config.env_steps
        if steps >= goal:
            raise UsageError(
                f"the run in {path} is finished: it has made {steps:,} of {goal:,} environment "
                f"steps. To extend it, name a larger total: ucpo resume {path} --env-steps "
                f"{2 * steps}"
            )
        files.log.info("%s goes on at %s of %s environment steps", path, f"{steps:,}", f"{goal:,}")
        return run, resumed
    raise UsageError(
        f"no checkpoint in {path} is whole, so the run cannot go on; its policy may still be of "
        "use. Train anew with another --run"
    )


def _restored(
    folder: RunFolder, checkpoint: Checkpoint, make: Callable[[RunConfig], AnyRun]
) -> tuple[AnyRun, Resumed]:
    state = checkpoint.state()
    try:
        config = parse_config(state["config"].tobytes().decode(), "configuration in the checkpoint")
        written = read_config(folder.path / CONFIG_FILE)
        config = dataclasses.replace(config, env_steps=written.env_steps)  # it may be extended
        if config != written:
            files.log.warning(
                "%s was changed since the checkpoint; the run goes on with what it was", CONFIG_FILE
            )
        run = make(config)
        run.agent.restore(states.part(state, "agent"))
        if run.agent.env_steps != checkpoint.env_steps:
            raise ValueError(f"it is of step {run.agent.env_steps}, not {checkpoint.env_steps}")
        checkpoint.restore(run.agent.replay)
        states.set_generator(run.generator, states.part(state, "generator"), "starts")
        progress = run.progress()
        progress.restore(states.part(state, "progress"))
        begun = _restore_task(run, states.part(state, "task"))
        return run, Resumed(folder, progress, begun, checkpoint, state["metrics"].tobytes())
    except UsageError:
        raise
    except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
        raise DamagedError(
            f"{checkpoint.state_part.name} does not hold a run ({type(error).__name__}: {error})"
        ) from None


def _restore_task(run: Run, state: Arrays) -> tuple[Floats, Floats] | None:
    if not state:
        files.log.info(
            "%s cannot be saved in mid-episode: new episodes begin, so the run is not the same as "
            "if it had never stopped",
            run.task.spec.name,
        )
        run.agent.replay.cut()
        return None
    # Something to compare shapes with, before anything is handed to the physics.
    run.task.reset(repeat(Start(0, np.zeros(len(run.task.spec.cost_names), np.float32))))
    states.fit(state, run.task.get_state(), "task", lengths=False)
    return run.task.set_state(state, run.starts())
