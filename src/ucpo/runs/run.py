"""A run: a training and the folder it leaves behind.

Example:
    run = UCP("Courier-v0", seed=0)
    run.learn()
    run.controller(budget=5).act(obs)
"""

from __future__ import annotations

import dataclasses
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ucpo.config.files import resolve
from ucpo.config.options import RunConfig
from ucpo.envs.interface import Episodes, VectorTask
from ucpo.envs.registry import Task, family_of, name_of
from ucpo.envs.shaping import unshaped
from ucpo.errors import NotFiniteError, UsageError
from ucpo.learners.interface import Learner, Timed
from ucpo.policies.controller import Controller
from ucpo.policies.policy import Policy
from ucpo.problem import BudgetGrid
from ucpo.runs.checkpoints import Checkpoint
from ucpo.runs.folder import RunFolder, logged
from ucpo.runs.guards import dump
from ucpo.runs.interruption import Stop, interruptible
from ucpo.runs.loop import train as collect_and_improve
from ucpo.runs.resume import Saver, resume
from ucpo.runs.sinks import (
    Callback,
    CsvSink,
    Display,
    Journal,
    Row,
    Sink,
    TensorBoardSink,
    WandbSink,
)
from ucpo.runs.training import Training
from ucpo.storage import files
from ucpo.storage.names import METRICS_FILE

if TYPE_CHECKING:
    import polars as pl

Track = Literal["wandb"]


class Run:
    """A method on a task, ready to learn; by default Utility-Constrained Policies.

    Args:
        task: Name of a task, id of a Gymnasium environment, a function that makes one, or a finite
            problem.
        seed: Seed of everything random.
        method: One of those `ucpo methods` lists, or the path of a TOML file.
        preset: ``auto``, the name of a preset, or the path of a TOML file.
        options: Fields of `ucpo.config.options.RunConfig`, e.g. ``budget_range="0:25"``; nested
            ones as dictionaries, ``critic={"rate": 1e-4}``.
    """

    def __init__(
        self,
        task: Task,
        *,
        seed: int = 0,
        method: str = "ucp",
        preset: str = "auto",
        **options: Any,
    ) -> None:
        how: Any = {"method": method, "preset": preset, "family": family_of(task), "seed": seed}
        config = resolve(name_of(task), **how, **options)
        self._set_up(Training.new(task, config))

    @classmethod
    def from_config(cls, config: RunConfig) -> Run:
        """The run a configuration describes."""
        made = cls.__new__(cls)
        made._set_up(Training.new(config.task, config))
        return made

    @classmethod
    def resume(
        cls, run: str | Path, *, task: Task | None = None, env_steps: int | None = None
    ) -> Run:
        """A run that was stopped or broke off; `learn` goes on with it in its folder.

        On our own tasks and one thread it goes on as if nothing had happened, bit for bit. Foreign
        environments cannot be saved in mid-episode; there new episodes begin.

        Args:
            run: The run's folder.
            task: For a run whose task was a function: that function.
            env_steps: A new total of environment steps, to extend a finished run.
        """

        def make(config: RunConfig) -> Training:
            if env_steps is not None:
                config = dataclasses.replace(config, env_steps=env_steps)
            return Training.new(config.task if task is None else task, config)

        found, made = resume(Path(run), make), cls.__new__(cls)
        made._set_up(found.training, found.folder, found.checkpoint, found.metrics)
        return made

    def _set_up(
        self,
        training: Training,
        folder: RunFolder | None = None,
        checkpoint: Checkpoint | None = None,
        metrics: bytes = b"",
    ) -> None:
        self.training, self.folder = training, folder
        self._checkpoint, self._metrics = checkpoint, metrics  # what it goes on from
        self._resumed = folder is not None  # and not gone on with yet
        self.interrupted: signal.Signals | None = None  # what ended the last training early

    @property
    def config(self) -> RunConfig:
        """Everything that was chosen about the run."""
        return self.training.config

    @property
    def learner(self) -> Learner:
        """What acts and learns."""
        return self.training.learner

    @property
    def task(self) -> VectorTask:
        """The batch of environments it learns on."""
        return self.training.task

    @property
    def grid(self) -> BudgetGrid:
        """The budgets it is trained for."""
        return self.training.grid

    def learn(
        self,
        env_steps: int | None = None,
        *,
        run: str | Path | None = None,
        show: bool = True,
        track: Track | None = None,
        sinks: Sequence[Sink] = (),
        on_log: Callable[[Row], None] | None = None,
        on_episode: Callable[[Episodes], None] | None = None,
        stop: Callable[[], bool] | None = None,
    ) -> Run:
        """Train; Ctrl-C or SIGTERM end it cleanly, keeping what was learned.

        Args:
            env_steps: Environment steps to make, over all environments; by default the
                configuration's, or what is left of them.
            run: Folder for configuration, metrics, TensorBoard events, checkpoints and policy; must
                be new. A run that was resumed goes on in its own.
            show: Show progress on the terminal.
            track: Also log to this service.
            sinks: Where else metrics go.
            on_log: Told every row of metrics.
            on_episode: Told of training episodes as they finish.
            stop: Asked after every iteration; True ends the training as Ctrl-C would.
        """
        training = self.training
        training.progress.goal = goal = self._goal(env_steps)
        with ExitStack() as stack:
            folder = self._take_folder(run)
            if folder is not None:
                stack.callback(folder.close)
                training.config = dataclasses.replace(self.config, env_steps=goal)
            stack.enter_context(logged(None if folder is None else folder.path, show))
            stack.callback(training.rest)
            interruption = stack.enter_context(interruptible())
            stack.callback(self._note, interruption)
            asked = interruption.asked
            if folder is not None:
                files.patiently(partial(folder.write_config, self.config), asked)
            made = partial(self._sinks, folder, show, track, on_log)
            with _unless_refused(folder if run is not None else None), ExitStack() as opened:
                journal = Journal([*files.patiently(made, asked), *sinks], asked)
                opened.callback(journal.close)
                source = training.source()
                stack.callback(opened.pop_all().close)
            heard = [training.schedule.observe, *([on_episode] if on_episode else [])]
            saver = None if folder is None else Saver(training, folder, self._checkpoint, asked)
            with _left_behind(training, folder, saver):
                collect_and_improve(
                    self.learner,
                    source,
                    training.progress,
                    journal,
                    stopped=lambda: asked() or (stop is not None and stop()),
                    save=saver or (lambda: None),
                    on_episodes=lambda episodes: [tell(episodes) for tell in heard],
                )
        return self

    def _note(self, interruption: Stop) -> None:
        self.interrupted = interruption.signal

    def policy(self) -> Policy:
        """The policy as it stands."""
        return self.learner.policy()

    def controller(self, budget: float | Sequence[float]) -> Controller:
        """Act under a budget with what has been learned so far."""
        return self.policy().controller(budget)

    def evaluate(
        self, budgets: Sequence[float | Sequence[float]], episodes: int = 100, seed: int = 0
    ) -> pl.DataFrame:
        """One row per episode; see `ucpo.evaluation.evaluate`. Ends the episodes under way."""
        from ucpo.evaluation import evaluate

        # Evaluation is of the task itself, whatever a method makes of it in training.
        return evaluate(self.policy(), unshaped(self.task), budgets, episodes, seed)

    def _goal(self, env_steps: int | None) -> int:
        """Environment steps in all when the training is done; the learner is told of later ends."""
        made, planned = self.learner.env_steps, self.config.env_steps
        resumed, self._resumed = self._resumed, False
        # One resumed at its goal was killed between its last checkpoint and its policy.
        goal = planned if made < planned or resumed else made + planned
        goal = goal if env_steps is None else made + env_steps
        if goal > planned and isinstance(self.learner, Timed):
            self.learner.last_until(goal)
        return goal

    def _take_folder(self, run: str | Path | None) -> RunFolder | None:
        """The folder to train in, ours from now on until it is closed."""
        folder, self.folder = self.folder, None
        if folder is not None and run is not None:
            folder.close()
            raise UsageError(f"a run that is resumed goes on in {folder.path}; leave out run={run}")
        return folder if run is None else RunFolder.new(Path(run))

    def _sinks(
        self,
        folder: RunFolder | None,
        show: bool,
        track: Track | None,
        on_log: Callable[[Row], None] | None,
    ) -> list[Sink]:
        sinks: list[Sink] = []
        path = Path() if folder is None else folder.path
        if track is not None:  # first: it may refuse, and then nothing else is open
            sinks.append(WandbSink(path, dataclasses.asdict(self.config)))
        if folder is not None:
            sinks.append(CsvSink(path / METRICS_FILE, self._metrics))
            sinks.append(TensorBoardSink(path, self.learner.env_steps or None))
        if on_log is not None:
            sinks.append(Callback(on_log))
        if show:
            sinks.append(Display(f"{self.config.method} on {self.task.spec.name}"))
        return sinks


@contextmanager
def _unless_refused(new: RunFolder | None) -> Iterator[None]:
    """A folder made for a training that then cannot begin is not left in the way of the next."""
    try:
        yield
    except Exception:
        if new is not None:
            new.discard()
        raise


@contextmanager
def _left_behind(
    training: Training, folder: RunFolder | None, saver: Saver | None
) -> Iterator[None]:
    """However a training ends, what can be kept of it is in its folder afterwards."""
    try:
        yield
    except NotFiniteError as error:  # neither policy nor checkpoint: the last ones are good
        if folder is not None:
            how = dump(folder.path, error, training.config, training.learner)
            raise NotFiniteError(f"{error}. {how}") from error
        raise
    except BaseException:
        if saver is not None:
            with suppress(OSError):  # what ended the training is what to tell
                saver.write_policy()
        raise
    if saver is not None:
        saver.write()


def train(
    task: Task,
    *,
    method: str = "ucp",
    seed: int = 0,
    preset: str = "auto",
    run: str | Path | None = None,
    show: bool = True,
    track: Track | None = None,
    sinks: Sequence[Sink] = (),
    on_log: Callable[[Row], None] | None = None,
    on_episode: Callable[[Episodes], None] | None = None,
    stop: Callable[[], bool] | None = None,
    **options: Any,
) -> Run:
    """Train a method on a task and return the run; arguments as in `Run` and `Run.learn`."""
    made = Run(task, method=method, seed=seed, preset=preset, **options)
    return made.learn(
        run=run,
        show=show,
        track=track,
        sinks=sinks,
        on_log=on_log,
        on_episode=on_episode,
        stop=stop,
    )
