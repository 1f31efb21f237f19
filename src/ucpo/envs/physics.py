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
from ucpo.envs.native import Waiting
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
    def step(
        self, waiting: Waiting, thread: int, awake: Bools, controls: Floats, paths: Floats
    ) -> None:
        """Make a step in the rows a thread gets and read them.

        Those that are not `awake` (n,) stay as they are.

        Args:
            waiting: Rows that nobody has begun with.
            thread: Which of those that share them.
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

    def step(
        self, waiting: Waiting, thread: int, awake: Bools, controls: Floats, paths: Floats
    ) -> None:
        """See `Physics`."""
        moves = paths.shape[1]
        while (row := native.claim(waiting, thread)) >= 0:
            if awake[row]:
                self._controls[row][:] = controls[row]
                for index, call in enumerate(self.calls):
                    if index < moves:
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
            guides=native.addresses(data.mocap_pos[rows.guides :] for data in states),
            time=where + library.time,
            contact_counts=where + library.contacts,
            # Contacts lie at the beginning of a state's arena, as many as there are.
            contacts=native.addresses(geoms),
            contact_size=geoms[0].strides[0],
            transfers=native.transfers(rows.copies),
        )
        self._written = rows.time, rows.touching, rows.owner

    def step(
        self, waiting: Waiting, thread: int, awake: Bools, controls: Floats, paths: Floats
    ) -> None:
        """See `Physics`."""
        size = len(self.rows.data), self.rows.data[0].ctrl.size
        if controls.shape != size:  # compiled code would read beyond the end
            raise ValueError(f"controls must be of shape {size}, got {controls.shape}")
        given = (waiting, thread, awake, controls, paths)
        native.step(*given, self._calls, self._at, *self._written)

    def read(self, which: Ints) -> None:
        """See `Physics`."""
        native.read(which, self._at, *self._written)
