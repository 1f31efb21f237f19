"""Things of the user's own that a configuration names: ``my_module:my_network``.

A configuration is text, so that a run can be resumed in another process. In Python a class or
function may be given itself; what is kept of it is its name, by which it is then found.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from ucpo.envs.registry import import_home
from ucpo.errors import UsageError, nearest

_GIVEN: dict[str, Callable[..., Any]] = {}


def name_of(thing: Any) -> Any:
    """What a class or function is called in configurations; anything else as it is."""
    if not callable(thing):
        return thing
    name = f"{thing.__module__}:{getattr(thing, '__qualname__', type(thing).__name__)}"
    _GIVEN[name] = thing
    return name


def find(name: str, what: str) -> Callable[..., Any]:
    """What a name stands for: given in this process, or in a module that is imported for it.

    Args:
        name: ``my_module:my_name``.
        what: It is meant to be, for messages.
    """
    if name in _GIVEN:
        return _GIVEN[name]
    home, colon, inner = name.partition(":")
    if not (home and colon and inner):
        raise UsageError(f"{what} of your own is named my_module:my_name, got {name!r}")
    module = import_home(name)
    found: Any = module
    for part in inner.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        known = [key for key, value in vars(module).items() if callable(value)]
        raise UsageError(
            f"{home} has no {inner!r} to make {what} of; {nearest(inner, known)} In a script or "
            "notebook, give the class or function itself"
        )
    thing: Callable[..., Any] = found
    return thing


def make(name: str, questions: type[Any], *arguments: Any) -> Any:
    """An object of a class of the user's own, which answers the questions of a protocol."""
    what = f"a {questions.__name__.lower()}"
    thing = find(name, what)
    with suppress(ValueError):  # built in: it does not say what it takes
        try:
            inspect.signature(thing).bind(*arguments)
        except TypeError as error:
            given = ", ".join(type(each).__name__ for each in arguments)
            raise UsageError(f"{name} is called with ({given}) to make {what}: {error}") from None
    made = thing(*arguments)
    asked = [key for key, value in vars(questions).items() if callable(value) and key[0] != "_"]
    missing = [key for key in asked if not callable(getattr(made, key, None))]
    if missing:
        raise UsageError(
            f"{name} does not answer {', '.join(missing)}; {questions.__module__}."
            f"{questions.__name__} says what each is asked"
        )
    return made
