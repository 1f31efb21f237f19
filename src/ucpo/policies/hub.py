"""Policies on the Hugging Face hub: ``hf:user/name``, or ``hf:user/name@revision``.

What is fetched is a policy file, which is read and never executed, and what describes it. Logging
in is the hub's own business (``hf auth login``).
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

from ucpo.errors import UsageError
from ucpo.storage.names import (
    CONFIG_FILE,
    CRITICS_FILE,
    EVALUATION_FILE,
    METRICS_FILE,
    POLICY_FILE,
)

PREFIX = "hf:"
CARD_FILE = "README.md"
SHARED = (POLICY_FILE, CRITICS_FILE, CONFIG_FILE, METRICS_FILE, EVALUATION_FILE)
"""What is shared of a run, where it is there; checkpoints are not."""
_NAME = re.compile(r"([\w.-]+/[\w.-]+)(?:@([\w./-]+))?")


def is_remote(path: str | Path) -> bool:
    """Whether a path means a repository on the hub."""
    return str(path).startswith(PREFIX)


def fetch(path: str | Path) -> Path:
    """A local copy of what ``hf:user/name`` holds; asks the hub for what is new."""
    name, revision = _parse(str(path))
    hub = _library()
    try:
        folder = hub.snapshot_download(name, revision=revision, allow_patterns=list(SHARED))
    except Exception as error:  # of whatever kind: the library has dozens
        raise _failed(f"{PREFIX}{name} cannot be fetched", error) from error
    return Path(str(folder))


def own_file(path: str | Path, file: str) -> Path:
    """Where what is found out about a fetched policy goes: its copy stays as it came."""
    return Path("runs", "hub", _parse(str(path))[0], file)


def push(run: Path, name: str, *, private: bool = False) -> str:
    """Share a run as a repository ``user/name``, with a card made from what it holds.

    Args:
        run: A run folder with a policy.
        name: Of the repository; made if it does not exist.
        private: Make it for yourself alone. An existing one stays as it is.

    Returns:
        The address of the repository.
    """
    name, revision = _parse(name if is_remote(name) else PREFIX + name)
    if revision:
        raise UsageError(f"a policy is pushed to a name without revision, got {name}@{revision}")
    text = card(run, name)  # refuses a folder without a policy
    hub = _library()
    with tempfile.TemporaryDirectory() as place:
        for file in SHARED:
            if (run / file).is_file():
                shutil.copy(run / file, Path(place, file))
        Path(place, CARD_FILE).write_text(text, encoding="utf-8")
        try:
            api = hub.HfApi(library_name="ucpo")
            address = api.create_repo(name, private=private, exist_ok=True)
            api.upload_folder(repo_id=name, folder_path=place, commit_message="Policy by ucpo")
        except Exception as error:  # as above
            raise _failed(f"{run} cannot be pushed to {PREFIX}{name}", error) from error
    return str(address)


def card(run: Path, name: str) -> str:
    """The page of a repository: what the policy does, how it was trained, how to use it."""
    from ucpo.policies.policy import load

    info = load(run).info
    budgets = ", ".join(
        f"{cost} {low:g} to {high:g}"
        for cost, low, high in zip(info.cost_names, info.budget_low, info.budget_high, strict=True)
    )
    head = ["library_name: ucpo", "pipeline_tag: reinforcement-learning"]
    tags = ["reinforcement-learning", "safe-rl", "ucpo", info.task, info.method]
    head += ["tags:", *(f"- {json.dumps(tag)}" for tag in tags)]
    trained = f"Trained with `{info.method}`, seed {info.training_seed}, for {info.env_steps:,} "
    trained += f"environment steps ({info.updates:,} updates)."
    if (run / CONFIG_FILE).is_file():
        trained += f" `{CONFIG_FILE}` has every option."
    example = float(info.usual_budgets()[-1][0])
    parts = [
        "---\n" + "\n".join(head) + "\n---",
        f"# {info.task} under a budget",
        "A policy that is told its budget after training, by "
        f"[ucpo](https://pypi.org/project/ucpo). Budgets trained for: {budgets}.",
        trained,
        *_evaluated(run),
        "```python\n"
        "from ucpo import load\n\n"
        f'controller = load("{PREFIX}{name}").controller(budget={example:g})\n'
        "action = controller.act(observation)  # then controller.record(cost) after every step\n"
        "```",
        f"    ucpo evaluate {PREFIX}{name} --budgets {example:g}",
    ]
    return "\n\n".join(parts) + "\n"


def _evaluated(run: Path) -> list[str]:
    """A table of the run's evaluation, if it has one."""
    file = run / EVALUATION_FILE
    if not file.is_file():
        return []
    from ucpo.stats import per_seed
    from ucpo.storage import parquet

    lines = [
        "| task | budget | cost | return | cost paid | P(cost > budget) | episodes |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in per_seed(parquet.read(file)).iter_rows(named=True):
        shown: list[Any] = [row["task"], row["setting"], row["cost_name"]]
        shown += [f"{row['return']:.2f}", f"{row['cost']:.2f}", f"{row['exceeded']:.1%}"]
        lines.append("| " + " | ".join(map(str, [*shown, f"{row['episodes']:,}"])) + " |")
    return ["\n".join(lines)]


def _parse(path: str) -> tuple[str, str | None]:
    found = _NAME.fullmatch(path.removeprefix(PREFIX))
    if found is None:
        raise UsageError(
            f"a repository on the hub is called {PREFIX}user/name, or {PREFIX}user/name@revision; "
            f"got {path!r}"
        )
    return found[1], found[2]


def _library() -> Any:
    try:
        import huggingface_hub
    except ImportError as error:
        raise UsageError(
            f"the hub needs huggingface_hub, which is not installed ({error}): "
            "pip install 'ucpo[hub]'"
        ) from None
    library: ModuleType = huggingface_hub
    return library


def _failed(what: str, error: Exception) -> UsageError:
    reason = " ".join(str(error).split())[:200] or type(error).__name__
    return UsageError(
        f"{what} ({type(error).__name__}: {reason}); check the name and the connection, and log in "
        "with `hf auth login` if the repository is yours or private"
    )
