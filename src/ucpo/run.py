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
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch

from ucpo.agents.controller import POLICY_FILE, Controller, Policy, PolicyInfo, make_actor
from ucpo.agents.critic_files import CRITICS_FILE, save_critics
from ucpo.agents.multipliers import Multipliers
from ucpo.agents.networks import Body, Critics
from ucpo.agents.replay import Replay
from ucpo.agents.ucp import Entropy, Rates, UCPAgent
from ucpo.config import RunConfig, resolve, to_toml
from ucpo.envs.interface import TaskSpec
from ucpo.envs.registry import Task, family_of, make_task
from ucpo.errors import UsageError
from ucpo.journal import CsvSink, Display, Journal, Sink, TensorBoardSink, WandbSink
from ucpo.problem import BudgetGrid, Constraint, Problem, parse_budgets, utility
from ucpo.stock import random_starts
from ucpo.training import train

if TYPE_CHECKING:
    import polars as pl

Track = Literal["wandb"]


class UCP:
    """Utility-Constrained Policies on a task, ready to learn.

    Args:
        task: Name of a task, id of a Gymnasium environment, or a function that makes one.
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
        name = task if isinstance(task, str) else getattr(task, "__name__", "custom")
        config = resolve(
            name, variant=variant, preset=preset, family=family_of(task), seed=seed, **options
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
        self.task = make_task(
            task, config.num_envs, config.costs or None, asynchronous=config.asynchronous
        )
        self.grid = make_grid(config, self.task.spec)
        self.agent = make_agent(config, self.task.spec, self.grid)
        self._generator = np.random.default_rng([config.seed, 1])
        self._starts = random_starts(self.grid, self._generator)
        self._stock_discount = config.gamma if config.stock_discounted else 1.0
        self.interrupted = False  # whether the last training was ended by Ctrl-C

    def learn(
        self,
        env_steps: int | None = None,
        *,
        run: str | Path | None = None,
        show: bool = True,
        track: Track | None = None,
    ) -> UCP:
        """Train; Ctrl-C ends it cleanly, keeping what was learned.

        Args:
            env_steps: Environment steps to make, over all environments; by default the
                configuration's.
            run: Folder for configuration, metrics, TensorBoard events and policy; must be new.
            show: Show progress on the terminal.
            track: Also log to this service.
        """
        steps = self.config.env_steps if env_steps is None else env_steps
        folder = None if run is None else self._new_folder(Path(run))
        journal = Journal(self._sinks(folder, show, track))
        try:
            with _interruptible() as stopped:
                train(
                    self.agent,
                    self.task,
                    self._starts,
                    self.grid,
                    journal,
                    env_steps=steps,
                    random_steps=self.config.random_steps,
                    updates=self.config.updates,
                    log_every=self.config.log_every,
                    stock_discount=self._stock_discount,
                    generator=self._generator,
                    stopped=stopped.is_set,
                )
                self.interrupted = stopped.is_set()
        finally:
            if folder is not None:
                policy = self.policy()
                policy.save(folder / POLICY_FILE)
                save_critics(self.agent.critics, policy.info, folder / CRITICS_FILE)
            journal.close()
        return self

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
        return Policy(self.agent.actor, info)

    def controller(self, budget: float | Sequence[float]) -> Controller:
        """Act under a budget with what has been learned so far."""
        return self.policy().controller(budget)

    def evaluate(
        self, budgets: Sequence[float | Sequence[float]], episodes: int = 100, seed: int = 0
    ) -> pl.DataFrame:
        """One row per episode; see `ucpo.evaluation.evaluate`. Ends the episodes under way."""
        from ucpo.evaluation import evaluate

        return evaluate(self.policy(), self.task, budgets, episodes, seed)

    def _new_folder(self, folder: Path) -> Path:
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            raise UsageError(
                f"{folder} exists already; nothing was changed. Choose another folder "
                "(--run NAME), or remove this one if it is not needed"
            ) from None
        (folder / "config.toml").write_text(to_toml(self.config), encoding="utf-8")
        return folder

    def _sinks(self, folder: Path | None, show: bool, track: Track | None) -> list[Sink]:
        sinks: list[Sink] = []
        if folder is not None:
            sinks += [CsvSink(folder / "metrics.csv"), TensorBoardSink(folder)]
        if track is not None:
            settings = dataclasses.asdict(self.config)
            sinks.append(WandbSink(folder or Path(), settings))
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


def make_agent(config: RunConfig, spec: TaskSpec, grid: BudgetGrid) -> UCPAgent:
    """Networks, replay and multipliers as configured."""
    C = len(spec.cost_names)
    problem = make_problem(config, spec.cost_names)
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
        )
    )
    shape = (networks.hidden, stock_size, scale, networks.stock_features)
    target = config.entropy.target
    return UCPAgent(
        problem=problem,
        actor=make_actor(spec, *shape, generator),
        critics=critics,
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
        entropy=Entropy(
            config.entropy.weight,
            rate=config.entropy.rate,
            target=-float(spec.action_size) if target is None else target,
        ),
        rates=Rates(
            batch=config.replay.batch,
            critic=config.critic.rate,
            actor=config.actor.rate,
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


@contextmanager
def _interruptible() -> Iterator[threading.Event]:
    """Turn the first Ctrl-C into a request to stop; a second one interrupts at once."""
    stopped = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stopped
        return
    before = signal.getsignal(signal.SIGINT)

    def stop(number: int, frame: FrameType | None) -> None:
        stopped.set()
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, stop)
    try:
        yield stopped
    finally:
        signal.signal(signal.SIGINT, before)
