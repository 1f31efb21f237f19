"""Many MuJoCo states stepped alike and read into arrays: by a compiled loop, or by one in Python.

Both give the same bits. The compiled one holds no interpreter lock, so that threads can share the
rows; it is used wherever MuJoCo's library is found (see `ucpo.envs.native`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import mujoco
import numpy as np

from ucpo.envs import native
from ucpo.envs.interface import Bools, Ints
from ucpo.envs.native import NO_WORK, RowWork, Waiting
from ucpo.problem import Floats


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
    owner: Ints  # (geoms,) the object a geom belongs to, or `native.ROBOT` or `NOTHING`
    paths: Floats
    """Where mocap bodies, the last ones, are during each of the calls a step is made of, (n, calls,
    bodies, 3); read when it is made. None if it has no calls."""
    then: RowWork = NO_WORK
    """What is done with each row once it is read."""


class Physics(ABC):
    """Makes steps in some rows, and reads them."""

    def __init__(self, rows: Rows, calls: Sequence[Call]) -> None:
        self.rows = rows
        self.calls = tuple(calls)
        """What a step is made of."""
        n, size = len(rows.data), rows.data[0].ctrl.size
        # Helpers that stay from one step to the next go on reading from where they have read.
        self._awake: Bools = np.zeros(n, np.bool_)
        self._controls: Floats = np.zeros((n, size))

    def prepare(self, awake: Bools, controls: Floats) -> None:
        """Say what the next step is to be.

        Args:
            awake: Which rows are stepped, (n,); the others stay as they are.
            controls: Of all rows, (n, controls).
        """
        if controls.shape != self._controls.shape:
            size = self._controls.shape
            raise ValueError(f"controls must be of shape {size}, got {controls.shape}")
        self._awake[:] = awake
        self._controls[:] = controls

    @abstractmethod
    def step(self, waiting: Waiting, thread: int) -> None:
        """Make the step that was prepared in the rows a thread gets, and read them.

        Args:
            waiting: Rows that nobody has begun with.
            thread: Which of those that share them.
        """

    @abstractmethod
    def read(self, which: Ints) -> None:
        """Copy from some states as they are."""


def physics(rows: Rows, calls: Sequence[Call]) -> Physics:
    """The faster way to step these rows that there is here."""
    library = native.library()
    return Interpreted(rows, calls) if library is None else Compiled(rows, calls, library)


def guides_of(rows: Rows) -> slice:
    """The mocap bodies that move during a step."""
    count = rows.data[0].mocap_pos.shape[0]
    return slice(count - rows.paths.shape[2], count)


class Interpreted(Physics):
    """Through MuJoCo's Python functions."""

    def __init__(self, rows: Rows, calls: Sequence[Call]) -> None:
        super().__init__(rows, calls)
        # Looking these up anew costs more than copying.
        self._functions = [getattr(mujoco, call.function) for call in self.calls]
        self._repeats = [(call.times,) if call.times > 1 else () for call in self.calls]
        self._inputs = [data.ctrl for data in rows.data]
        self._guides = [data.mocap_pos[guides_of(rows)] for data in rows.data]

    def step(self, waiting: Waiting, thread: int) -> None:
        """See `Physics`."""
        paths = self.rows.paths
        while (row := native.claim(waiting, thread)) >= 0:
            if self._awake[row]:
                self._inputs[row][:] = self._controls[row]
                for index, call in enumerate(self.calls):
                    if index < paths.shape[1]:
                        self._guides[row][:] = paths[row, index]
                    self._functions[index](call.model, self.rows.data[row], *self._repeats[index])
                self._read(row)
            native.finish(waiting)

    def read(self, which: Ints) -> None:
        """See `Physics`."""
        for row in which.tolist():
            self._read(row)

    def _read(self, row: int) -> None:
        rows, data = self.rows, self.rows.data[row]
        for target, source in rows.copies[row]:
            target[:] = source
        rows.time[row] = data.time
        native.mark_contacts(data.contact.geom, rows.owner, rows.touching[row])
        native.work_on(np.array([row]), rows.then)


class Compiled(Physics):
    """Through the addresses of MuJoCo's functions and states."""

    def __init__(self, rows: Rows, calls: Sequence[Call], library: native.Library) -> None:
        super().__init__(rows, calls)
        self._calls = np.array(
            [
                (library.functions[call.function], call.model._address, call.times)
                for call in self.calls
            ],
            np.int64,
        )
        states = rows.data
        geoms = [data.contact.geom for data in states]
        where = np.array([data._address for data in states], np.int64)
        self._at = native.Addresses(
            data=where,
            controls=native.addresses(data.ctrl for data in states),
            guides=native.addresses(data.mocap_pos[guides_of(rows)] for data in states),
            time=where + library.time,
            contact_counts=where + library.contacts,
            # Contacts lie at the beginning of a state's arena, as many as there are.
            contacts=native.addresses(geoms),
            contact_size=geoms[0].strides[0],
            transfers=native.transfers(rows.copies),
        )
        self._written = rows.time, rows.touching, rows.owner, rows.then
        self._given = self._awake, self._controls, rows.paths, self._calls, self._at

    def step(self, waiting: Waiting, thread: int) -> None:
        """See `Physics`."""
        native.step(waiting, thread, *self._given, *self._written)

    def read(self, which: Ints) -> None:
        """See `Physics`."""
        native.read(which, self._at, *self._written)
