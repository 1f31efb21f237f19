"""What a page may ask for. Whatever else arrives is refused, and said why."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

from ucpo.errors import UsageError, nearest

LARGEST = 4096
"""Bytes of a message."""
_MOST_COSTS = 16

Check = Callable[[Any], bool]


def _number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) < 1e12 and math.isfinite(value)


def _count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**31


def _flag(value: Any) -> bool:
    return type(value) is bool


def _numbers(value: Any) -> bool:
    return type(value) is list and 1 <= len(value) <= _MOST_COSTS and all(map(_number, value))


WISHES: Mapping[str, Mapping[str, Check]] = {
    "pause": {"on": _flag},
    "step": {},
    "speed": {"value": _number},
    "restart": {},
    "seed": {"value": _count},
    "keep": {"on": _flag},
    "budget": {"lane": _count, "values": _numbers},
    "spend": {"lane": _count, "extra": _numbers},
    "add": {"source": _count, "values": _numbers},
    "remove": {"lane": _count},
}
"""What can be asked for, and what each must say."""


def read(text: str | bytes) -> tuple[str, dict[str, Any]]:
    """What a message asks for, and with which values."""
    if len(text) > LARGEST:
        raise UsageError(f"a message has at most {LARGEST} bytes")
    try:
        wish = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise UsageError("a message is JSON") from None
    if not isinstance(wish, dict) or not isinstance(wish.get("do"), str):
        raise UsageError('a message is an object that says what to "do"')
    name = wish.pop("do")
    if name not in WISHES:
        raise UsageError(f"nothing is called {name[:40]!r}; {nearest(name[:40], list(WISHES))}")
    fields = WISHES[name]
    if set(wish) != set(fields):
        raise UsageError(f"{name!r} needs {', '.join(fields) or 'nothing else'}")
    for field, fits in fields.items():
        if not fits(wish[field]):
            raise UsageError(f"{name!r}: {field} is not what it should be")
    return name, wish


def _refuse(constant: str) -> None:
    raise ValueError(constant)
