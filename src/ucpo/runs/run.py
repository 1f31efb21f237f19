"""A run: a task, an agent and the folder their training leaves behind.

Example:
    agent = UCP("Courier-v0", seed=0)
    agent.learn()
    agent.controller(budget=5).act(obs)
"""

from __future__ import annotations

import dataclasses
import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch

from ucpo.storage import files
from ucpo.policies.controller import Controller
from ucpo.policies.policy import Policy, PolicyInfo
from ucpo.config.options import RunConfig
from ucpo.config.files import resolve
from ucpo.envs.registry import Task, family_of, make_task, name_of
from ucpo.errors import NotFiniteError
from ucpo.runs.folder import METRICS_FILE, RunFolder, logged
from ucpo.runs.guards import dump
from ucpo.runs.sinks import CsvSink, Display, Journal, Sink, TensorBoardSink, WandbSink
from ucpo.config.assembly import make_agent, make_grid
from ucpo.runs.resume import Resumed, Saver, resume
from ucpo.stock import Start, random_starts
from ucpo.runs.interruption import interruptible
from ucpo.runs.loop import train
from ucpo.runs.progress import Progress

if TYPE_CHECKING:
    import polars as pl

Track = Literal["wandb"]


class UCP:
    """Utility-Constrained Policies on a task, ready to learn.

    Args:
        task: Name of a task, id of a Gymnasium environment, a function that makes one, or a finite
            problem.
        seed: Seed of everything random.
        variant: ``ucp``, ``ucp-ds``, ``ucp-nr``, ``ucp-mean``, ``ucp-nr-mean`` or ``ucp-na``.
        preset: ``auto``, the name of a preset, or the path of a TOML file.
        options: Fields of `ucpo.config.options.RunConfig`, e.g. ``budget_range="0:25"``; nested ones as
            dictionaries, ``critic={"rate": 1e-4}``.
    """

    def __init__(
        self,
        task: Task,
        *,
        seed: int = 0,
        variant: str = "ucp",
        preset: str = "auto",
        **options: Any,
    ) -> None:
        config = resolve(
            name_of(task),
            variant=variant,
            preset=preset,
            family=family_of(task),
            seed=seed,
            **options,
        )
        self._set_up(task, config)

    @classmethod
    def from_config(cls, config: RunConfig) -> UCP:
        """The agent a configuration describes."""
        made = cls.__new__(cls)
        made._set_up(config.task, config)
        return made

    def _set_up(self, task: Task, config: RunConfig) -> None:
        self.config = config
        torch.set_num_threads(config.threads)
        torch.set_float32_matmul_precision("medium" if config.precision == "bf16" else "highest")
        self.task = make_task(
            task,
            config.num_envs,
            config.costs or None,
            asynchronous=config.asynchronous,
            workers={
                "worker_timeout": config.worker_timeout,
                "restart_workers": config.restart_workers,
            },
        )
        self.grid = make_grid(config, self.task.spec)
        self.agent = make_agent(config, self.task.spec, self.grid)
        self.generator = np.random.default_rng([config.seed, 1])
        self._resumed: Resumed | None = None
        self.interrupted: signal.Signals | None = None  # what ended the last training early

    @classmethod
    def resume(
        cls, run: str | Path, *, task: Task | None = None, env_steps: int | None = None
    ) -> UCP:
        """The agent of a run that was stopped or broke off; `learn` goes on with it in its folder.

        On our own tasks and one thread it goes on as if nothing had happened, bit for bit. Foreign
        environments cannot be saved in mid-episode; there new episodes begin.

        Args:
            run: The run's folder.
            task: For a run whose task was a function: that function.
            env_steps: A new total of environment steps, to extend a finished run.
        """

        def make(config: RunConfig) -> UCP:
            made = cls.__new__(cls)
            if env_steps is not None:
                config = dataclasses.replace(config, env_steps=env_steps)
            made._set_up(config.task if task is None else task, config)
            return made

        made, resumed = resume(Path(run), make)
        made._resumed = resumed
        return made

    def learn(
        self,
        env_steps: int | None = None,
        *,
        run: str | Path | None = None,
        show: bool = True,
        track: Track | None = None,
    ) -> UCP:
        """Train; Ctrl-C or SIGTERM end it cleanly, keeping what was learned.

        Args:
            env_steps: Environment steps to make, over all environments; by default the
                configuration's, or what is left of them in a run that was resumed.
            run: Folder for configuration, metrics, TensorBoard events, checkpoints and policy; must
                be new. A run that was resumed goes on in its own.
            show: Show progress on the terminal.
            track: Also log to this service.
        """
        resumed, self._resumed = self._resumed, None
        made = self.agent.env_steps
        steps = self.config.env_steps - (made if resumed else 0) if env_steps is None else env_steps
        if resumed or run is not None:
            self.config = dataclasses.replace(self.config, env_steps=made + steps)
        progress = resumed.progress if resumed else self.progress()
        progress.goal = made + steps
        with ExitStack() as stack:
            folder = resumed.folder if resumed else None
            if folder is None and run is not None:
                folder = RunFolder.new(Path(run))
            if folder is not None:
                stack.callback(folder.close)
            stack.enter_context(logged(None if folder is None else folder.path, show))
            stop = stack.enter_context(interruptible())
            if folder is not None:
                files.patiently(partial(folder.write_config, self.config), stop.asked)
            sinks = partial(self._sinks, folder, resumed, show, track)
            journal = Journal(files.patiently(sinks, stop.asked), stop.asked)
            stack.callback(journal.close)
            begun = resumed.begun if resumed else None
            saver: Saver | None = None
            if folder is not None:
                last = resumed.checkpoint if resumed else None
                saver = Saver(self, progress, folder, last, stop.asked)
            try:
                train(
                    self.agent,
                    self.task,
                    begun or self.task.reset(self.starts(), self.config.stock_discount),
                    progress,
                    journal,
                    random_steps=self.config.random_steps,
                    updates=self.config.updates,
                    hold=self.config.holding,
                    generator=self.generator,
                    stopped=stop.asked,
                    save=saver or (lambda: None),
                )
            except NotFiniteError as error:  # neither policy nor checkpoint: the last ones are good
                if folder is not None:
                    how = dump(folder.path, error, self.config, self.agent)
                    raise NotFiniteError(f"{error}. {how}") from error
                raise
            except BaseException:
                if saver is not None:
                    with suppress(OSError):  # what ended the training is what to tell
                        saver.write_policy()
                raise
            if saver is not None:
                saver.write()
            self.interrupted = stop.signal
        return self

    def starts(self) -> Iterator[Start]:
        """Of the episodes to come."""
        return random_starts(self.grid, self.generator)

    def progress(self) -> Progress:
        """Of a training that begins now."""
        names, config = self.task.spec.cost_names, self.config
        return Progress(self.agent, self.grid, names, config.env_steps, config.log_every)

    def policy(self) -> Policy:
        """The policy as it stands."""
        config, spec, body = self.config, self.task.spec, self.agent.actor.body
        info = PolicyInfo(
            task=spec.name,
            method=config.variant,
            training_seed=config.seed,
            env_steps=self.agent.env_steps,
            updates=self.agent.updates,
            observation_size=spec.observation_size,
            action_low=spec.action_low,
            action_high=spec.action_high,
            cost_names=spec.cost_names,
            budget_low=self.grid.low,
            budget_high=self.grid.high,
            stock_discount=self.config.stock_discount,
            hidden=config.networks.hidden,
            stock_size=body.stock_size,
            stock_scale=body.stock_scale,
            stock_features=config.networks.stock_features,
            gamma=config.gamma,
            cost_gamma=config.cost_gamma,
            hold=config.hold if config.hold > 1 else None,
        )
        actor = self.agent.normaliser.plain(self.agent.actor)
        return Policy(actor if config.device == "cpu" else deepcopy(actor).cpu(), info)

    def controller(self, budget: float | Sequence[float]) -> Controller:
        """Act under a budget with what has been learned so far."""
        return self.policy().controller(budget)

    def evaluate(
        self, budgets: Sequence[float | Sequence[float]], episodes: int = 100, seed: int = 0
    ) -> pl.DataFrame:
        """One row per episode; see `ucpo.evaluation.evaluate`. Ends the episodes under way."""
        from ucpo.evaluation import evaluate

        return evaluate(self.policy(), self.task, budgets, episodes, seed)

    def _sinks(
        self, folder: RunFolder | None, resumed: Resumed | None, show: bool, track: Track | None
    ) -> list[Sink]:
        sinks: list[Sink] = []
        path = Path() if folder is None else folder.path
        if folder is not None:
            sinks.append(CsvSink(path / METRICS_FILE, resumed.metrics if resumed else b""))
            sinks.append(TensorBoardSink(path, self.agent.env_steps if resumed else None))
        if track is not None:
            sinks.append(WandbSink(path, dataclasses.asdict(self.config)))
        if show:
            sinks.append(Display(f"{self.config.variant} on {self.task.spec.name}"))
        return sinks
