"""What fields of a policy file may hold; files may be untrusted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def _text(value: Any, name: str) -> None:
    if not (isinstance(value, str) and 1 <= len(value) <= 200 and value.isprintable()):
        raise ValueError(f"{name} is not a name")


def _count(value: Any, name: str) -> None:
    if type(value) is not int or not 0 <= value < 2**53:
        raise ValueError(f"{name} is not a count")


def _number(value: Any, name: str) -> None:
    if type(value) not in (int, float) or not abs(value) < 1e300:
        raise ValueError(f"{name} is not a number")


def _several(one: Callable[[Any, str], None]) -> Callable[[Any, str], None]:
    def check(value: Any, name: str) -> None:
        if not isinstance(value, tuple) or len(value) > _LONGEST:
            raise ValueError(f"{name} is not a list, or too long")
        for item in value:
            one(item, name)

    return check


_LONGEST = 10_000  # of the lists in a policy
FITS: dict[str, Callable[[Any, str], None]] = {  # by the type of a field of PolicyInfo
    "str": _text,
    "str | None": lambda value, name: None if value is None else _text(value, name),
    "int": _count,
    "int | None": lambda value, name: None if value is None else _count(value, name),
    "float": _number,
    "float | None": lambda value, name: None if value is None else _number(value, name),
    "StockScale": lambda value, name: _several(_number)(
        value if isinstance(value, tuple) else (value,), name
    ),
    "tuple[str, ...]": _several(_text),
    "tuple[int, ...]": _several(_count),
    "tuple[float, ...]": _several(_number),
}
