"""Many MuJoCo states stepped alike and read into arrays: by a compiled loop, or by one in Python.

Both give the same bits. The compiled one holds no interpreter lock, so that threads can share the
rows; it is used wherever MuJoCo's library is found (see `ucpo.envs.native`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import mujoco
import numpy as np
from numba import njit

from ucpo.envs import native
from ucpo.envs.interface import Bools, Ints
from ucpo.problem import Floats

ROBOT, NOTHING = -1, -2
"""Whose a geom is, if not an object's."""


class Call(NamedTuple):
    """A function of MuJoCo and the model it is called with, some times in a row."""

    function: str
    model: mujoco.MjModel
    times: int = 1


@dataclass(frozen=True)
class Rows:
    """The states of a batch of n environments, and where what is read of them goes."""

    data: Sequence[mujoco.MjData]
    copies: Sequence[Sequence[tuple[Floats, Floats]]]
    """Per environment, what is written and where it is read, whole arrays of MuJoCo's."""
    time: Floats  # (n,) written
    touching: Bools  # (n, objects) written: whether the robot touches an object
    owner: Ints  # (geoms,) the object a geom belongs to, or `ROBOT`, or `NOTHING`
    guides: int = 0
    """The first mocap body that moves during a step."""


class Physics(ABC):
    """Makes steps in some rows, and reads them."""

    def __init__(self, rows: Rows, calls: Sequence[Call]) -> None:
        self.rows = rows
        self.calls = tuple(calls)
        """What a step is made of."""
        self.still: Floats = np.zeros((len(rows.data), 0, 0, 3))
        """Paths of no guides."""

    @abstractmethod
    def step(self, which: Ints, awake: Bools, controls: Floats, paths: Floats) -> None:
        """Make a step in the rows `which` and read them; those not `awake` (n,) stay as they are.

        Args:
            which: Rows.
            awake: Of all rows, which are to be stepped, (n,).
            controls: Of all rows, float64 of shape (n, controls).
            paths: Where guides are during each of the calls, (n, calls, guides, 3); `still` if
                there are none.
        """

    @abstractmethod
    def read(self, which: Ints) -> None:
        """Copy from some states as they are."""


def physics(rows: Rows, calls: Sequence[Call]) -> Physics:
    """The faster way to step these rows that there is here."""
    library = native.library()
    return Interpreted(rows, calls) if library is None else Compiled(rows, calls, library)


class Interpreted(Physics):
    """Through MuJoCo's Python functions."""

    def __init__(self, rows: Rows, calls: Sequence[Call]) -> None:
        super().__init__(rows, calls)
        # Looking these up anew costs more than copying.
        self._functions = [getattr(mujoco, call.function) for call in self.calls]
        self._repeats = [(call.times,) if call.times > 1 else () for call in self.calls]
        self._controls = [data.ctrl for data in rows.data]
        self._guides = [data.mocap_pos[rows.guides :] for data in rows.data]

    def step(self, which: Ints, awake: Bools, controls: Floats, paths: Floats) -> None:
        """See `Physics`."""
        moves = paths.shape[1]
        for row in which[awake[which]].tolist():
            data = self.rows.data[row]
            self._controls[row][:] = controls[row]
            for index, call in enumerate(self.calls):
                if index < moves:
                    self._guides[row][:] = paths[row, index]
                self._functions[index](call.model, data, *self._repeats[index])
            self._read(row)

    def read(self, which: Ints) -> None:
        """See `Physics`."""
        for row in which.tolist():
            self._read(row)

    def _read(self, row: int) -> None:
        rows, data = self.rows, self.rows.data[row]
        for target, source in rows.copies[row]:
            target[:] = source
        rows.time[row] = data.time
        _mark_contacts(data.contact.geom, rows.owner, rows.touching[row])


class Compiled(Physics):
    """Through the addresses of MuJoCo's functions and states."""

    def __init__(self, rows: Rows, calls: Sequence[Call], library: native.Library) -> None:
        super().__init__(rows, calls)
        where = library.functions
        self._calls = np.array(
            [(where[call.function], call.model._address, call.times) for call in self.calls]
        )
        self._addresses = _Addresses.of(rows, library)
        self._written = rows.time, rows.touching, rows.owner

    def step(self, which: Ints, awake: Bools, controls: Floats, paths: Floats) -> None:
        """See `Physics`."""
        size = len(self.rows.data), self.rows.data[0].ctrl.size
        if controls.shape != size:  # compiled code would read beyond the end
            raise ValueError(f"controls must be of shape {size}, got {controls.shape}")
        _step(which, awake, controls, paths, self._calls, self._addresses, *self._written)

    def read(self, which: Ints) -> None:
        """See `Physics`."""
        _read(which, self._addresses, *self._written)


class _Addresses(NamedTuple):
    """Of each state (n,), in bytes. MuJoCo allocates a state once; what is in it does not move."""

    data: Ints
    controls: Ints
    guides: Ints
    time: Ints
    contact_counts: Ints
    contacts: Ints
    contact_size: int
    transfers: Ints  # (n, k, 3)

    @classmethod
    def of(cls, rows: Rows, library: native.Library) -> _Addresses:
        def each(values: Any) -> Ints:
            return np.array(list(values), np.int64)

        data = each(state._address for state in rows.data)
        geoms = [state.contact.geom for state in rows.data]
        return cls(
            data=data,
            controls=each(native.addressof(state.ctrl) for state in rows.data),
            guides=each(native.addressof(state.mocap_pos[rows.guides :]) for state in rows.data),
            time=data + library.time,
            contact_counts=data + library.contacts,
            # Contacts lie at the beginning of a state's arena, as many as there are.
            contacts=each(native.addressof(pair) for pair in geoms),
            contact_size=geoms[0].strides[0],
            transfers=native.transfers(rows.copies),
        )


@njit(cache=True, nogil=True)
def _step(which, awake, controls, paths, calls, at, time, touching, owner):  # type: ignore[no-untyped-def]
    for row in which:
        if not awake[row]:
            continue
        native.floats_at(at.controls[row], controls.shape[1])[:] = controls[row]
        guides = native.floats_at(at.guides[row], 3 * paths.shape[2])
        for call in range(len(calls)):
            if call < paths.shape[1]:
                guides[:] = paths[row, call].ravel()
            for _ in range(calls[call, 2]):
                native.invoke(calls[call, 0], calls[call, 1], at.data[row])
        _read_row(row, at, time, touching, owner)


@njit(cache=True, nogil=True)
def _read(which, at, time, touching, owner):  # type: ignore[no-untyped-def]
    for row in which:
        _read_row(row, at, time, touching, owner)


@njit(cache=True, nogil=True)
def _read_row(row, at, time, touching, owner):  # type: ignore[no-untyped-def]
    native.copy(at.transfers[row])
    time[row] = native.floats_at(at.time[row], 1)[0]
    count = native.int_at(at.contact_counts[row])
    contacts = native.contacts_at(at.contacts[row], count, at.contact_size)
    _mark_contacts(contacts, owner, touching[row])


@njit(cache=True, nogil=True)
def _mark_contacts(geoms: Ints, owner: Ints, touching: Bools) -> None:
    """Which objects the robot touches, given the two geoms of each contact."""
    touching[:] = False
    for i in range(len(geoms)):
        one, other = owner[geoms[i, 0]], owner[geoms[i, 1]]
        if one == ROBOT and other >= 0:
            touching[other] = True
        elif other == ROBOT and one >= 0:
            touching[one] = True
