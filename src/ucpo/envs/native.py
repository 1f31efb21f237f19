"""MuJoCo's own functions called from compiled loops, with no Python between one row and the next.

The library inside MuJoCo's wheel is loaded anyway. Addresses of its functions, of models and of
states are numbers, with which compiled code can call and read; it holds no interpreter lock, so
that threads share a batch without handing the lock around. Where anything about the library is not
as expected there is no `Library`, and worlds call MuJoCo through its Python functions instead.

A trap: called like this, an error that MuJoCo takes to be fatal ends the process; its Python
functions would raise. Such errors say that a model is wrong or memory ran out. States that blow up
are only warned of, in either way.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import mujoco
import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import carray, njit, types  # type: ignore[attr-defined]
from numba.extending import intrinsic

from ucpo.envs.interface import Ints
from ucpo.problem import Floats


class Library(NamedTuple):
    """What compiled loops need to know of MuJoCo."""

    functions: dict[str, int]
    """Addresses by name."""
    time: int
    """Where in a state its time is, in bytes from the beginning."""
    contacts: int
    """Likewise, how many contacts there are."""


# Open nothing that is not open yet; where there is no such mode, a second opening gives the first.
_ALREADY = getattr(os, "RTLD_NOLOAD", 0) | getattr(os, "RTLD_NOW", 0)
FUNCTIONS = ("mj_step", "mj_step2", "mj_forward", "mj_rnePostConstraint")
"""Those that take a model and a state and return nothing."""


@cache
def library() -> Library | None:
    """What compiled loops call, or None where it is not found."""
    loaded = _loaded()
    if loaded is None or any(not hasattr(loaded, name) for name in FUNCTIONS):
        return None
    time, contacts = _offset_of("time", np.float64), _offset_of("ncon", np.int32)
    if time is None or contacts is None:
        return None
    return Library({name: _address(getattr(loaded, name)) for name in FUNCTIONS}, time, contacts)


def _address(function: Any) -> int:
    return int(ctypes.cast(function, ctypes.c_void_p).value or 0)


def _loaded() -> ctypes.CDLL | None:
    """The library the Python package uses; another copy of it would not share its settings."""
    folder = Path(mujoco.__file__).parent
    for pattern in ("libmujoco*.so*", "libmujoco*.dylib", "mujoco.dll"):
        for path in folder.glob(pattern):
            try:
                found = ctypes.CDLL(str(path), mode=_ALREADY)
            except OSError:
                continue
            if hasattr(found, "mj_version") and found.mj_version() == mujoco.mj_version():
                return found
    return None


def _offset_of(name: str, kind: type[np.generic]) -> int | None:
    """Where in a state a number is, found by watching it change; versions order states otherwise.

    None unless exactly one place changes as the number does.
    """
    balls = "".join(f'<geom size="0.1" pos="0 0 {0.2 * place}"/>' for place in range(7))
    model = mujoco.MjModel.from_xml_string(
        '<mujoco><worldbody><geom type="plane" size="9 9 1"/>'
        f"<body><freejoint/>{balls}</body></worldbody></mujoco>"
    )
    data = mujoco.MjData(model)
    # The head of a state, up to an array that is part of it; what follows is allocated.
    size = data.energy.ctypes.data - data._address
    if not 0 < size < 2**24:
        return None
    head = np.frombuffer((ctypes.c_char * size).from_address(data._address), np.uint8)
    fits = np.ones(size // np.dtype(kind).itemsize, np.bool_)
    numbers = head[: len(fits) * np.dtype(kind).itemsize].view(kind)
    for sunk in (7, 3, 5):  # balls in the floor, at first the most there will be
        data.time = 0.3 * sunk
        data.qpos[2] = 0.25 - 0.2 * sunk
        mujoco.mj_forward(model, data)
        fits &= numbers == getattr(data, name)
    return int(np.flatnonzero(fits)[0]) * numbers.itemsize if fits.sum() == 1 else None


def _invoke(context, function, model, data):  # type: ignore[no-untyped-def]
    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        address = ir.IntType(64)
        kind = ir.FunctionType(ir.VoidType(), [address, address])
        builder.call(builder.inttoptr(arguments[0], kind.as_pointer()), arguments[1:])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


def _point_at(context, address):  # type: ignore[no-untyped-def]
    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())

    return types.voidptr(types.int64), generate


# Addresses as arguments, not as constants of the compiled code: so it can be kept for later runs.
invoke: Any = intrinsic(_invoke)
"""Call one of the functions on a model and a state; all three are addresses."""
_pointer: Any = intrinsic(_point_at)


@njit(cache=True, nogil=True)
def floats_at(address: int, count: int) -> Floats:
    """Numbers that MuJoCo keeps, as an array."""
    numbers: Floats = carray(_pointer(address), (count,), np.float64)
    return numbers


@njit(cache=True, nogil=True)
def contacts_at(address: int, count: int, width: int) -> Any:
    """The two geoms of each contact, (count, 2).

    Args:
        address: Of the first contact's geoms.
        count: Of contacts.
        width: Bytes from one contact to the next.
    """
    return carray(_pointer(address), (count, width // 4), np.int32)[:, :2]


@njit(cache=True, nogil=True)
def int_at(address: int) -> int:
    """A whole number that MuJoCo keeps."""
    number: int = carray(_pointer(address), (1,), np.int32)[0]
    return number


@njit(cache=True, nogil=True)
def copy(transfers: Ints) -> None:
    """Copy arrays of numbers: target, source and count of each, (k, 3)."""
    for i in range(len(transfers)):
        count = transfers[i, 2]
        target, source = floats_at(transfers[i, 0], count), floats_at(transfers[i, 1], count)
        for j in range(count):
            target[j] = source[j]


def transfers(rows: Sequence[Sequence[tuple[Floats, Floats]]]) -> Ints:
    """What `copy` takes, for rows of (target, source); (n, k, 3). The arrays must stay alive."""
    table = []
    for pairs in rows:
        for target, source in pairs:
            assert target.shape == source.shape and target.dtype == source.dtype == np.float64
            assert target.flags.c_contiguous and source.flags.c_contiguous
        table.append([(addressof(to), addressof(of), to.size) for to, of in pairs])
    return np.array(table, np.int64)


def addressof(array: Any) -> int:
    """Where an array is in memory."""
    return int(array.ctypes.data)
