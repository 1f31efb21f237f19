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
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import mujoco
import numpy as np
from llvmlite import ir
from numba import carray, njit, types  # type: ignore[attr-defined]
from numba.extending import intrinsic
from numpy.typing import NDArray

from ucpo.envs.interface import Bools, Ints
from ucpo.problem import Floats

ROBOT, NOTHING = -1, -2
"""Whose a geom is, if not an object's."""
FUNCTIONS = ("mj_step", "mj_step2", "mj_forward", "mj_rnePostConstraint")
"""Those to be called; each takes a model and a state and returns nothing."""
Waiting = Ints
"""Rows of a batch that no thread has begun with, in a stretch for each of k threads, (4, k): the
NEXT of each, the one after its LAST, in the first place how many rows of all are DONE, and who is
HERE, that is, works on rows or looks for them, or was called."""
NEXT, LAST, DONE, HERE = 0, 1, 2, 3
LOOKS = 10_000
"""At whether rows are done, before a thread lets itself be woken; some 50 microseconds."""
STAYS = 60_000
"""Looks of a helper for rows of the next step before it goes to sleep; some 200 microseconds."""
# Open nothing that is not open yet; where there is no such mode, a second opening gives the first.
_ALREADY = getattr(os, "RTLD_NOLOAD", 0) | getattr(os, "RTLD_NOW", 0)


class Library(NamedTuple):
    """What compiled loops need to know of MuJoCo."""

    functions: dict[str, int]
    """Addresses by name."""
    time: int
    """Where in a state its time is, in bytes from the beginning."""
    contacts: int
    """Likewise, how many contacts there are."""


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


def _make_call(context, function, model, data):  # type: ignore[no-untyped-def]
    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        address = ir.IntType(64)
        kind = ir.FunctionType(ir.VoidType(), [address, address])
        builder.call(builder.inttoptr(arguments[0], kind.as_pointer()), arguments[1:])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


def _make_pointer(context, address):  # type: ignore[no-untyped-def]
    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())

    return types.voidptr(types.int64), generate


def _shared(change: str) -> Any:
    """A change of a number that threads share, by one of them at a time; what it was before."""

    def make(context, address, number):  # type: ignore[no-untyped-def]
        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            place = builder.inttoptr(arguments[0], ir.IntType(64).as_pointer())
            return builder.atomic_rmw(change, place, arguments[1], "seq_cst")

        return types.int64(types.int64, types.int64), generate

    return intrinsic(make)


# Addresses as arguments, not as constants of the compiled code: so it can be kept for later runs.
_invoke: Any = intrinsic(_make_call)  # a function on a model and a state
pointer: Any = intrinsic(_make_pointer)
_add, _swap = _shared("add"), _shared("xchg")


class Addresses(NamedTuple):
    """Where the states of n environments are, (n,), in bytes.

    MuJoCo allocates a state once; what is in it does not move.
    """

    data: Ints
    controls: Ints
    guides: Ints  # of the first mocap body that moves during a step
    time: Ints
    contact_counts: Ints
    contacts: Ints  # of the first contact's geoms
    contact_size: int  # bytes from one contact to the next
    transfers: Ints  # (n, k, 3) arrays of numbers to copy: target, source, count


def addresses(arrays: Iterable[Any]) -> Ints:
    """Where arrays are in memory."""
    return np.array([array.ctypes.data for array in arrays], np.int64)


def transfers(rows: Sequence[Sequence[tuple[Floats, Floats]]]) -> Ints:
    """Addresses of (target, source) by row, (n, k, 3). The arrays must stay alive and in place."""
    table = []
    for pairs in rows:
        for target, source in pairs:
            assert target.shape == source.shape and target.dtype == source.dtype == np.float64
            assert target.flags.c_contiguous and source.flags.c_contiguous
        table.append([(to.ctypes.data, of.ctypes.data, to.size) for to, of in pairs])
    return np.array(table, np.int64)


class RowWork(NamedTuple):
    """What a task does with a row once it is read: a compiled function of two whole numbers."""

    function: int  # its address; 0 if there is nothing to do
    given: int  # the first number, an address of what it works on; the second is the row


NO_WORK = RowWork(0, 0)


@njit(cache=True, nogil=True)
def _place(waiting: Waiting, what: int, stretch: int) -> int:
    return int(waiting.ctypes.data + what * waiting.strides[0] + stretch * waiting.strides[1])


@njit(cache=True, nogil=True)
def refill(waiting: Waiting, first: Ints) -> None:
    """Let all rows wait again, from the first of each stretch (k,) on. All must be done."""
    _swap(_place(waiting, DONE, 0), 0)
    for stretch in range(len(first)):
        _swap(_place(waiting, NEXT, stretch), first[stretch])


@njit(cache=True, nogil=True)
def must_be_woken(waiting: Waiting, thread: int) -> bool:
    """Whether a helper does not see by itself that rows are waiting; from now on it counts as here.

    Whoever refills asks this afterwards, and whoever leaves looks for rows afterwards: one of the
    two always sees what the other did.
    """
    return bool(_swap(_place(waiting, HERE, thread), 1) == 0)


@njit(cache=True, nogil=True)
def leave(waiting: Waiting, thread: int) -> bool:
    """Whether a helper may go to sleep; otherwise rows are waiting already, and it stays here."""
    _swap(_place(waiting, HERE, thread), 0)
    for stretch in range(waiting.shape[1]):
        if waiting[NEXT, stretch] < waiting[LAST, stretch]:
            _swap(_place(waiting, HERE, thread), 1)
            return False
    return True


@njit(cache=True, nogil=True)
def claim(waiting: Waiting, thread: int) -> int:
    """A row for a thread: of its own stretch, then of others'; -1 if there is none left.

    Rows nearly always stay with the thread in whose caches they are, and none waits while another
    has rows left: helpers begin late, and some rows take longer.
    """
    count = waiting.shape[1]
    for turn in range(count):
        stretch = (thread + turn) % count
        if waiting[NEXT, stretch] < waiting[LAST, stretch]:
            row = int(_add(_place(waiting, NEXT, stretch), 1))
            if row < waiting[LAST, stretch]:
                return row
    return -1


@njit(cache=True, nogil=True)
def claim_or_stay(waiting: Waiting, thread: int) -> int:
    """The same; but a helper that finds none looks for rows of the next step for a while.

    What happens between two steps takes about as long as to be woken.
    """
    row = claim(waiting, thread)
    looks = 0 if thread else STAYS
    while row < 0 and looks < STAYS:
        _add(_place(waiting, DONE, 0), 0)  # so that numbers are read anew
        row = claim(waiting, thread)
        looks += 1
    return row


@njit(cache=True, nogil=True)
def finish(waiting: Waiting) -> None:
    """Say that a row is done."""
    _add(_place(waiting, DONE, 0), 1)


@njit(cache=True, nogil=True)
def finished(waiting: Waiting) -> bool:
    """Whether all rows are done, now or as soon as others are through with their last.

    To be woken takes longer than that, so this looks again and again; but not for ever, for those
    others may have to wait for a processor.
    """
    looks = 1
    while _add(_place(waiting, DONE, 0), 0) < waiting[LAST, -1]:
        if looks == LOOKS:
            return False
        looks += 1
    return True


@njit(cache=True, nogil=True)
def step(waiting, thread, awake, controls, paths, calls, at, time, touching, owner, then):  # type: ignore[no-untyped-def]
    """Make a step in the rows a thread gets and read them; see `ucpo.envs.physics` for the rest.

    All compiled code that calls each other is in this file: what is kept of it between runs is made
    anew when the file changes, and only this one. What a task does afterwards comes as an address.
    """
    while True:
        row = claim_or_stay(waiting, thread)
        if row < 0:
            break
        if awake[row]:
            _step_row(row, controls, paths, calls, at)
            _read_row(row, at, time, touching, owner)
            _work_on(row, then)
        finish(waiting)


@njit(cache=True, nogil=True)
def _step_row(row, controls, paths, calls, at):  # type: ignore[no-untyped-def]
    _floats(at.controls[row], controls.shape[1])[:] = controls[row]
    guides = _floats(at.guides[row], 3 * paths.shape[2])
    for call in range(len(calls)):
        if call < paths.shape[1]:
            guides[:] = paths[row, call].ravel()
        for _ in range(calls[call, 2]):
            _invoke(calls[call, 0], calls[call, 1], at.data[row])


@njit(cache=True, nogil=True)
def read(which, at, time, touching, owner, then):  # type: ignore[no-untyped-def]
    """Copy from some states as they are."""
    for row in which:
        _read_row(row, at, time, touching, owner)
        _work_on(row, then)


@njit(cache=True, nogil=True)
def work_on(which: Ints, then: RowWork) -> None:
    """What a task does with rows that are read, for some of them."""
    for row in which:
        _work_on(row, then)


@njit(cache=True, nogil=True)
def _work_on(row: int, then: RowWork) -> None:
    if then.function:
        _invoke(then.function, then.given, row)


@njit(cache=True, nogil=True)
def mark_contacts(geoms: NDArray[np.int32], owner: Ints, touching: Bools) -> None:
    """Which objects the robot touches, given the two geoms of each contact, (contacts, 2)."""
    touching[:] = False
    for i in range(len(geoms)):
        one, other = owner[geoms[i, 0]], owner[geoms[i, 1]]
        if one == ROBOT and other >= 0:
            touching[other] = True
        elif other == ROBOT and one >= 0:
            touching[one] = True


@njit(cache=True, nogil=True)
def _read_row(row, at, time, touching, owner):  # type: ignore[no-untyped-def]
    for i in range(at.transfers.shape[1]):
        target, source, count = at.transfers[row, i]
        _floats(target, count)[:] = _floats(source, count)
    time[row] = _floats(at.time[row], 1)[0]
    count = carray(pointer(at.contact_counts[row]), (1,), np.int32)[0]
    shape = (count, at.contact_size // 4)
    contacts = carray(pointer(at.contacts[row]), shape, np.int32)
    mark_contacts(contacts[:, :2], owner, touching[row])


@njit(cache=True, nogil=True)
def _floats(address: int, count: int) -> Floats:
    """Numbers that MuJoCo keeps, as an array."""
    numbers: Floats = carray(pointer(address), (count,), np.float64)
    return numbers
