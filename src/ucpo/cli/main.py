"""The command line. Heavy imports stay inside the command that needs them."""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import tyro
from tyro.conf import subcommand

from ucpo import __version__
from ucpo.cli.catalogue import Methods, Tasks, Zoo
from ucpo.cli.check import Check
from ucpo.cli.completion import Completion
from ucpo.cli.evaluation import Evaluate, Report
from ucpo.cli.exact import Demo, MeasureGap
from ucpo.cli.export import Export, Push
from ucpo.cli.live import Live
from ucpo.cli.messages import say
from ucpo.cli.pictures import Illustrate, Watch
from ucpo.cli.runs import Resume, Train
from ucpo.cli.sweep import Runs, Sweep
from ucpo.config.files import resolve
from ucpo.config.options import RunConfig
from ucpo.envs.registry import family_of, import_home
from ucpo.errors import LostError, UsageError

DESCRIPTION = """Reinforcement learning under budgets that are chosen after training.

Any command also takes --debug, which shows the whole traceback of an error. ucpo --version says
which version this is."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; user errors end with one paragraph and exit code 2."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given == ["--version"]:
        sys.stdout.write(f"ucpo {__version__}\n")
        return
    debug = "--debug" in given
    given = [text for text in given if text != "--debug"]
    try:
        commands: Any = (
            Annotated[Train, subcommand("train", default=_train_defaults(given))]
            | Annotated[Resume, subcommand("resume")]
            | Annotated[Evaluate, subcommand("evaluate")]
            | Annotated[Report, subcommand("report")]
            | Annotated[Sweep, subcommand("sweep")]
            | Annotated[Runs, subcommand("runs")]
            | Annotated[Live, subcommand("live")]
            | Annotated[Check, subcommand("check")]
            | Annotated[Export, subcommand("export")]
            | Annotated[Push, subcommand("push")]
            | Annotated[Tasks, subcommand("tasks")]
            | Annotated[Methods, subcommand("methods")]
            | Annotated[Zoo, subcommand("zoo")]
            | Annotated[Watch, subcommand("watch")]
            | Annotated[Illustrate, subcommand("illustrate")]
            | Annotated[MeasureGap, subcommand("measure-gap")]
            | Annotated[Demo, subcommand("demo")]
            | Annotated[Completion, subcommand("completion")]
        )
        tyro.cli(commands, args=given, prog="ucpo", description=DESCRIPTION)()
    except (UsageError, LostError, OSError) as error:
        if isinstance(error, BrokenPipeError) and _nobody_reads():
            sys.exit(1)
        if debug:
            raise
        say(f"ucpo: {error}")
        sys.exit(2)
    except KeyboardInterrupt:
        say("ucpo: interrupted")
        sys.exit(130)


def _nobody_reads() -> bool:
    """Whether whoever read our output has gone, as `head` does; what is left goes nowhere then."""
    try:
        sys.stdout.write("\n")
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return True
    return False


def _train_defaults(given: list[str]) -> Train:
    """Task, preset and method decide the defaults of other options, so they are read first."""
    if given[:1] != ["train"]:
        return Train(RunConfig())
    peek = argparse.ArgumentParser(prog="ucpo train", add_help=False, allow_abbrev=False)
    peek.add_argument("--preset", default="auto")
    peek.add_argument("--method", default="ucp")
    peek.add_argument("--budget", nargs="+", default=[])
    known, rest = peek.parse_known_args(given[1:])
    if any(word.partition("=")[0] == "--variant" for word in rest):
        raise UsageError("--variant is called --method now; `ucpo methods` lists them")
    named = _task(rest)
    if named is None and not {"-h", "--help"} & set(rest):
        raise UsageError("which task? `ucpo tasks` lists them; e.g. ucpo train Courier-v0")
    task = named or RunConfig().task
    import_home(task)  # a module may register utilities too, which options then name
    config = resolve(
        task,
        method=known.method,
        preset=known.preset,
        family=family_of(task),
        budget=known.budget,
    )
    return Train(config if named else dataclasses.replace(config, task=tyro.MISSING))


def _task(words: Sequence[str]) -> str | None:
    """The first word that is neither an option nor what an option is set to."""
    before = ""
    for word in words:
        named = _is_option(before) and "=" not in before and before not in _flags()
        if not _is_option(word) and not named and not _is_number(word):
            return word
        before = word
    return None


def _is_option(word: str) -> bool:
    """Whether a word names an option; a negative number does not."""
    return word.startswith("-") and not word[1:2].isdigit() and not word.startswith("-.")


def _is_number(word: str) -> bool:
    """Whether a word can only be one of several numbers that an option is set to."""
    return word.lstrip("-").replace(".", "", 1).isdigit()


def _flags() -> set[str]:
    """Options that are set by being named."""
    names: set[str] = set()
    for option in dataclasses.fields(RunConfig):
        inner = option.default_factory() if callable(option.default_factory) else None
        parts = dataclasses.fields(inner) if dataclasses.is_dataclass(inner) else (option,)
        group = f"{option.name}." if inner is not None else ""
        for part in parts:
            if isinstance(part.default, bool):
                name = part.name.replace("_", "-")
                names |= {f"--{group}{name}", f"--{group}no-{name}"}
    return names
