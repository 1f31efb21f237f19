"""A run: a task, an agent and the folder their training leaves behind.

Example:
    agent = UCP("Courier-v0", seed=0)
    agent.learn()
    agent.controller(budget=5).act(obs)
"""

from __future__ import annotations

import dataclasses
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from copy import deepcopy
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch

from ucpo import files
from ucpo.agents.controller import Controller, Policy, PolicyInfo, make_actor
from ucpo.agents.multipliers import Multipliers
from ucpo.agents.networks import Body, Critics
from ucpo.agents.normaliser import Normaliser
from ucpo.agents.replay import Replay
from ucpo.agents.ucp import Decay, Entropy, Rates, UCPAgent
from ucpo.config import ActorConfig, CriticConfig, RunConfig, resolve
from ucpo.envs.interface import TaskSpec
from ucpo.envs.registry import Task, family_of, make_task, name_of
from ucpo.errors import NotFiniteError, UsageError
from ucpo.folders import METRICS_FILE, RunFolder, logged
from ucpo.guards import dump
from ucpo.journal import CsvSink, Display, Journal, Sink, TensorBoardSink, WandbSink
from ucpo.problem import BudgetGrid, Constraint, Problem, parse_budgets, utility
from ucpo.resuming import Resumed, Saver, resume
from ucpo.stock import Start, random_starts
from ucpo.training import Progress, train

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
        options: Fields of `ucpo.config.RunConfig`, e.g. ``budget_range="0:25"``; nested ones as
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
        self._stock_discount = config.gamma if config.stock_discounted else 1.0
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
            stop = stack.enter_context(_interruptible())
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
                    begun or self.task.reset(self.starts(), self._stock_discount),
                    progress,
                    journal,
                    random_steps=self.config.random_steps,
                    updates=self.config.updates,
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
            stock_discount=self._stock_discount,
            hidden=config.networks.hidden,
            stock_size=body.stock_size,
            stock_scale=body.stock_scale,
            stock_features=config.networks.stock_features,
            gamma=config.gamma,
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


def make_problem(config: RunConfig, costs: Sequence[str]) -> Problem:
    """The constraints a configuration asks for, one per cost."""
    chosen = utility(config.utility)
    exempt = chosen.name == "mean" and not config.tolerate_mean
    tolerance = 0.0 if exempt else config.tolerance
    return Problem(tuple(Constraint(cost, chosen, tolerance) for cost in costs))


def make_grid(config: RunConfig, spec: TaskSpec) -> BudgetGrid:
    """The budgets a configuration asks for."""
    if config.budget:
        pairs = parse_budgets(config.budget, spec.cost_names)
        for low, high in pairs:
            if low != high:
                raise UsageError(
                    f"--budget is one number, got {low:g}:{high:g}; see --budget-range"
                )
        return BudgetGrid.fixed([low for low, _ in pairs])
    pairs = parse_budgets(config.budget_range, spec.cost_names)
    return BudgetGrid(
        low=tuple(low for low, _ in pairs),
        high=tuple(high for _, high in pairs),
        levels=tuple(config.budget_levels if low < high else 1 for low, high in pairs),
    )


def make_device(name: str) -> torch.device:
    """The device of a name, if this machine has it."""
    try:
        device = torch.device(name)
    except RuntimeError:
        raise UsageError(f"no device {name!r}; give cpu, cuda, or cuda:1 and so on") from None
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise UsageError(
            f"there is no device {name} on this machine, or this PyTorch cannot use it "
            f"({torch.cuda.device_count()} CUDA devices found); --device cpu works everywhere"
        )
    return device


def make_agent(config: RunConfig, spec: TaskSpec, grid: BudgetGrid) -> UCPAgent:
    """Networks, replay and multipliers as configured."""
    C = len(spec.cost_names)
    problem, device = make_problem(config, spec.cost_names), make_device(config.device)
    networks, generator = config.networks, torch.Generator().manual_seed(config.seed)
    scale = networks.stock_scale or max(*grid.high, 3.0) / 3.0
    stock_size = C if config.stock_observed else 0
    critics = Critics(
        Body(
            members=Critics.REWARD + C,
            inputs=spec.observation_size + spec.action_size,
            stock_size=stock_size,
            hidden=networks.hidden,
            outputs=networks.quantiles,
            stock_scale=scale,
            stock_features=networks.stock_features,
            generator=generator,
        ),
        units=[config.critic.reward_unit] * Critics.REWARD + [config.critic.cost_unit] * C,
    )
    shape = (networks.hidden, stock_size, scale, networks.stock_features)
    target = config.entropy.target
    return UCPAgent(
        problem=problem,
        actor=make_actor(spec, *shape, generator).to(device),
        critics=critics.to(device),
        multipliers=Multipliers(
            problem,
            grid,
            initial=config.multiplier.initial,
            rate=config.multiplier.rate,
            ascent=config.multiplier.ascent,
            minimum=config.multiplier.minimum,
            maximum=config.multiplier.maximum,
            window=config.multiplier.window,
        ),
        replay=Replay(
            config.replay.capacity,
            config.num_envs,
            spec.observation_size,
            spec.action_size,
            C,
            config.replay.n_step,
            config.gamma,
        ),
        normaliser=Normaliser(spec.observation_size, config.networks.normalise, device),
        entropy=Entropy(
            config.entropy.weight,
            rate=config.entropy.rate,
            target=-float(spec.action_size) if target is None else target,
        ),
        rates=Rates(
            batch=config.replay.batch,
            critic=_decay(config.critic, config.decay_steps),
            actor=_decay(config.actor, config.decay_steps),
            critic_clip=config.critic.clip,
            actor_clip=config.actor.clip,
            critic_polyak=config.critic.polyak,
            actor_polyak=config.actor.polyak,
            regulariser=config.actor.regulariser,
            actor_every=config.actor.every,
            next_action=config.critic.next_action,
            multiplier_start=config.multiplier.start,
        ),
        seed=config.seed,
    )


def _decay(chosen: CriticConfig | ActorConfig, env_steps: int) -> Decay:
    last = chosen.rate if chosen.final_rate is None else chosen.final_rate
    return Decay(chosen.rate, last, env_steps)


class Stop:
    """A request to end the training after the iteration under way."""

    signal: signal.Signals | None = None

    def asked(self) -> bool:
        """Whether there is one."""
        return self.signal is not None


@contextmanager
def _interruptible() -> Iterator[Stop]:
    """Turn the first Ctrl-C or SIGTERM into a request to stop; a second one ends at once."""
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def request(number: int, frame: FrameType | None) -> None:
        stop.signal = signal.Signals(number)
        signal.signal(number, before[signal.Signals(number)])

    for number in before:
        signal.signal(number, request)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
