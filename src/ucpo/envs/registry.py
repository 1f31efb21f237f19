"""Tasks by name: our own, and any Gymnasium environment."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from ucpo.envs.finite_problem import FiniteProblem
from ucpo.envs.interface import VectorTask
from ucpo.envs.navigation import names as navigation
from ucpo.envs.velocity import runners as velocity
from ucpo.errors import UsageError, nearest


@dataclass(frozen=True)
class Entry:
    """A task of our own: where its class is (imported on first use) and one line on what it is."""

    factory: str  # "module:callable", called with num_envs and the options
    summary: str
    family: str = "default"  # the preset that suits it
    options: Mapping[str, Any] = field(default_factory=dict)
    view: Literal["above", "side"] | None = None  # how its episodes are shown, where they can be
    threaded: bool = False  # whether it takes `threads`


TASKS: dict[str, Entry] = {
    "Courier-v0": Entry(
        "ucpo.envs.illustration:Courier",
        "drive through crowded streets; speeding pays and risks near misses",
        "courier",
    ),
    "Courier2-v0": Entry(
        "ucpo.envs.illustration:Courier",
        "the same with two costs: near misses in crowded streets, fines in watched ones",
        "courier",
        {"cost_names": ("near_misses", "fines")},
    ),
    "TwoActions-v0": Entry(
        "ucpo.envs.illustration:TwoActions",
        "stay for a reward and a cost of 1, or end (appendix B of the paper)",
        "courier",
    ),
    "TwoActionsTimed-v0": Entry(
        "ucpo.envs.finite:named",
        "the same, over after 10 steps and the time seen: with an exact solution",
        "finite",
        {"problem": "ucpo.exact.problems:timed_two_actions", "encoding": "bins"},
    ),
    "Streets-v0": Entry(
        "ucpo.envs.finite:named",
        "12 streets with five risks, fast or safe: a courier with an exact solution",
        "finite",
        {"problem": "ucpo.exact.problems:streets", "encoding": "bins"},
    ),
    "Machine-v0": Entry(
        "ucpo.envs.finite:named",
        "rest, run slowly or fast; a worn machine breaks down: with an exact solution",
        "finite",
        {"problem": "ucpo.exact.problems:machine", "encoding": "bins"},
    ),
    "Fords-v0": Entry(
        "ucpo.envs.finite:named",
        "three ways across a river, the shorter the costlier: with an exact solution",
        "finite",
        {"problem": "ucpo.exact.problems:fords"},
    ),
    "Crossing-v0": Entry(
        "ucpo.envs.finite:named",
        "the same, longer, with a bridge that seldom gives way and then costs 50",
        "finite",
        {"problem": "ucpo.exact.problems:crossing"},
    ),
    **{
        name: Entry(
            "ucpo.envs.navigation.env:NavigationTask",
            navigation.summary(name),
            "navigation",
            view="above",
            threaded=True,
        )
        for name in navigation.NAMES
    },
    **{
        name: Entry(
            "ucpo.envs.velocity.env:VelocityTask",
            velocity.summary(name),
            "velocity",
            view="side",
            threaded=True,
        )
        for name in velocity.NAMES
    },
}

Task = str | FiniteProblem | Callable[[], Any]


def make_task(
    task: Task,
    num_envs: int,
    costs: Sequence[str] | None = None,
    asynchronous: bool = False,
    workers: Mapping[str, Any] | None = None,
    **options: Any,
) -> VectorTask:
    """Build a batch of environments.

    Args:
        task: Name of a task listed by ``ucpo tasks``, the id of a registered Gymnasium environment
            (``module:id`` imports the module first; ``module:name`` may also name a class or a
            function in it), a class or function that makes one environment, or a finite problem.
        num_envs: Environments in the batch.
        costs: Names of the costs to constrain, in this order; all the task has by default.
        asynchronous: Step environments that are not our own in processes of their own; ours share
            threads instead.
        workers: What to do about such processes that break: ``worker_timeout`` and
            ``restart_workers`` of `ucpo.envs.adapters.GymnasiumTask`.
        options: Passed on to the task.
    """
    if isinstance(task, FiniteProblem):
        from ucpo.envs.finite import FiniteTask

        return FiniteTask(task, num_envs, cost_names=costs, **options)
    if hasattr(task, "step") and not isinstance(task, type):
        kind = type(getattr(task, "unwrapped", task)).__name__
        raise UsageError(
            f"the task is an environment that exists already (a {kind}), but {num_envs} of them "
            f"are needed; give the class {kind}, or a function that makes one: "
            f"lambda: {kind}(...)"
        )
    if callable(task):
        from ucpo.envs.adapters import GymnasiumTask

        return GymnasiumTask(
            task, num_envs, costs=costs, asynchronous=asynchronous, **(workers or {})
        )
    if not isinstance(task, str):
        raise UsageError(
            f"a task is a name, a class or function that makes an environment, or a finite "
            f"problem; got {type(task).__name__}"
        )
    entry = TASKS.get(task)
    if entry is None:
        return _gymnasium(task, num_envs, costs, asynchronous, workers or {}, options)
    if asynchronous:
        raise UsageError(f"{task} needs no processes; leave out asynchronous")
    module, _, name = entry.factory.partition(":")
    factory = getattr(importlib.import_module(module), name)
    chosen = {"cost_names": tuple(costs)} if costs else {}
    built: VectorTask = factory(
        num_envs=num_envs, name=task, **{**entry.options, **options, **chosen}
    )
    return built


def name_of(task: Task) -> str:
    """What a task is called in configurations."""
    if isinstance(task, str):
        return task
    if isinstance(task, FiniteProblem):
        return task.name
    return getattr(task, "__name__", "custom")


def family_of(task: Task) -> str:
    """Name of the preset that suits a task."""
    if isinstance(task, FiniteProblem):
        return "finite"
    entry = entry_of(task)
    return entry.family if entry else "default"


def entry_of(task: Task) -> Entry | None:
    """What is known of a task of our own; None for others."""
    return TASKS.get(task) if isinstance(task, str) else None


def import_home(task: Task) -> ModuleType | None:
    """Import the module that ``module:id`` names; None where a task names none.

    The current folder is looked in last: the `ucpo` command, unlike ``python -m ucpo``, would not
    look there at all, and what lies in it must not hide what is installed.
    """
    if not isinstance(task, str) or ":" not in task or task in TASKS:
        return None
    name = task.partition(":")[0]
    here = str(Path.cwd())
    if here not in sys.path and "" not in sys.path:
        sys.path.append(here)
        importlib.invalidate_caches()
    try:
        return importlib.import_module(name)
    except (ImportError, ValueError) as error:
        raise UsageError(
            f"cannot import {name!r}, which the task {task!r} names ({error}); run the command in "
            f"the folder that holds {name.partition('.')[0]}, or install it into this Python "
            f"({sys.executable}). `ucpo tasks` lists the tasks that need no module"
        ) from error


def _gymnasium(
    task: str,
    num_envs: int,
    costs: Sequence[str] | None,
    asynchronous: bool,
    workers: Mapping[str, Any],
    options: Mapping[str, Any],
) -> VectorTask:
    from ucpo.envs.adapters import GymnasiumTask

    return GymnasiumTask(
        _maker(task, options),
        num_envs,
        name=task,
        costs=costs,
        asynchronous=asynchronous,
        **workers,
    )


def _maker(task: str, options: Mapping[str, Any]) -> Callable[[], Any]:
    """What makes one environment of a registered id, or of a name in a module."""
    import gymnasium

    module = import_home(task)
    name = task.rpartition(":")[2]
    try:
        spec = gymnasium.spec(name)
    except gymnasium.error.Error as error:
        if module is None:
            raise UsageError(
                f"no task {task!r}; {nearest(task, list(TASKS), '`ucpo tasks` lists ours.')} A "
                "Gymnasium environment must be registered before use, or named with its module, "
                f"'my_package:MyEnv-v0' ({error})"
            ) from None
        found = getattr(module, name, None)
        if not callable(found):
            raise UsageError(
                f"{module.__name__} ({getattr(module, '__file__', 'built in')}) was imported, but "
                f"registered no environment {name!r} and has no class or function of that name; "
                f"it must call gymnasium.register(id={name!r}, entry_point=...) when imported "
                f"({error})"
            ) from None
        return partial(found, **options)
    return partial(gymnasium.make, spec, **options)  # other processes have not registered the id
