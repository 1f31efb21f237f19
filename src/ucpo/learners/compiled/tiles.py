"""Matrix products of small networks, compiled, for `ucpo.learners.compiled.passes`.

Libraries of matrix products are made for large ones and for processors of their maker. Here a
product is cut into tiles of a few rows and columns whose sums stay in registers; what a layer adds
and applies happens while its tile is still in the nearest cache.

Each number is summed in the order of the layer's inputs, whatever the batch and however wide the
registers are: a row is the same alone and in a batch, to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from ucpo.learners.compiled.registers import PAIRED, ROWS, WIDTH, PairWriter, Writer

Floats = Any  # arrays of float32, as numba sees them
Ints = Any


COLUMNS = 2 * WIDTH
NEAR = 6144  # numbers of a matrix that leaves room for others in the nearest cache


Seen = Callable[[], Any]  # writes the loading of what a layer said


def _write_nothing(_write: Writer, value: Any, _seen: Seen) -> Any:
    return value


def _write_relu(write: Writer, value: Any, _seen: Seen) -> Any:
    """What is not a number shows."""
    low = write.build.fcmp_ordered("<", value, write.constant(0.0))
    return write.build.select(low, write.constant(0.0), value)


# x times a quotient of polynomials in its square, fitted up to 8: to 3e-7 of tanh.
_ABOVE = (1.0, 1.3726183e-01, 3.9266016e-03, 2.9204386e-05, 3.3570457e-08, -1.4546557e-11)
_BELOW = (1.0, 4.7059516e-01, 2.7458329e-02, 4.0420807e-04, 1.3723200e-06)


def _write_tanh(write: Writer, value: Any, _seen: Seen) -> Any:
    build, constant = write.build, write.constant

    def within(x: Any, limit: float) -> Any:
        x = build.select(build.fcmp_ordered(">", x, constant(limit)), constant(limit), x)
        return build.select(build.fcmp_ordered("<", x, constant(-limit)), constant(-limit), x)

    def polynomial(factors: tuple[float, ...]) -> Any:
        total = constant(factors[-1])
        for factor in reversed(factors[:-1]):
            total = write.multiply_add(total, square, constant(factor))
        return total

    near = within(value, 8.0)
    square = build.fmul(near, near)
    quotient = build.fdiv(polynomial(_ABOVE), polynomial(_BELOW))
    return within(build.fmul(near, quotient), 1.0)


def _write_relu_slope(write: Writer, slope: Any, seen: Seen) -> Any:
    """The slope where the layer said more than 0."""
    build, nothing = write.build, write.constant(0.0)
    return build.select(build.fcmp_ordered(">", seen(), nothing), slope, nothing)


def _write_tanh_slope(write: Writer, slope: Any, seen: Seen) -> Any:
    """``slope (1 - said^2)``."""
    build, said = write.build, seen()
    return build.fmul(slope, build.fsub(write.constant(1.0), build.fmul(said, said)))


NOTHING, RELU_ITSELF, TANH_ITSELF, RELU_SLOPE, TANH_SLOPE = range(5)
_FINISHES = (_write_nothing, _write_relu, _write_tanh, _write_relu_slope, _write_tanh_slope)


def _tile(registers: int, writer: type[Writer] = Writer) -> Any:
    """A compiled function that sums products for a tile of so many registers of columns."""

    def tile(
        typing: Any,
        left: Any,
        row: Any,
        step: Any,
        panel: Any,
        panel_row: Any,
        depth: Any,
        bias: Any,
        follows: Any,
        seen: Any,
        out: Any,
        out_row: Any,
        rows: Any,
    ) -> Any:
        """Sums for `rows` rows, and what follows them; all lengths in bytes.

        Args:
            typing: Of numba.
            left: Address of the first row of the left factor.
            row: From one of its rows to the next.
            step: From one of its columns to the next.
            panel: Address of the columns of the right factor.
            panel_row: From one of its rows to the next.
            depth: Numbers to be summed, at least 1.
            bias: Address of what is added to the sums, a number for each column.
            follows: What becomes of sums, a place in _FINISHES.
            seen: Address of what the layer said whose slope follows.
            out: Address of the result's first row.
            out_row: From one of its rows to the next, and from one of `seen`.
            rows: How many are wanted, 1 to ROWS.
        """
        return types.void(*[types.intp] * 12), partial(_write_tile, range(registers), writer)

    return intrinsic(tile)


def _write_tile(
    places: range,
    writer: type[Writer],
    context: Any,
    build: Any,
    _signature: Any,
    arguments: Any,
) -> Any:
    left, row, step, panel, panel_row, depth, bias, follows, seen, out, out_row, rows = arguments
    write = writer(build)

    # Rows that are not wanted repeat the last one that is, so that nothing beyond it is read.
    last = build.sub(rows, write.integer(1))
    begins = []
    for i in map(write.integer, range(ROWS)):
        index = build.select(build.icmp_signed("<", i, rows), i, last)
        begins.append(build.add(left, build.mul(index, row)))

    def turn(offset: Any, at: Any, *sums: Any) -> list[Any]:
        right, added = [write.load(at, j) for j in places], []
        for i in range(ROWS):
            factor = write.everywhere(write.load_one(build.add(begins[i], offset)))
            for j in places:
                before = sums[len(places) * i + j]
                added.append(write.add_product(factor, right[j], before))
        return [build.add(offset, step), build.add(at, panel_row), *added]

    nothing = [write.constant(0.0)] * (ROWS * len(places))
    _, _, *sums = write.loop(depth, [write.integer(0), panel, *nothing], turn)

    # Last, because a large bias would take digits from each of the products it came before.
    biases = [write.load(bias, j) for j in places]
    for kind, finish in enumerate(_FINISHES):
        with build.if_then(build.icmp_signed("==", follows, write.integer(kind))):
            for i in range(ROWS):
                with build.if_then(build.icmp_signed("<", write.integer(i), rows)):
                    further = build.mul(write.integer(i), out_row)
                    line, beside = build.add(out, further), build.add(seen, further)
                    for j in places:
                        total = build.fadd(sums[len(places) * i + j], biases[j])
                        write.store(finish(write, total, partial(write.load, beside, j)), line, j)
    return context.get_dummy_value()


_wide_tile, _slim_tile = _tile(COLUMNS // WIDTH), _tile(1)
_pair_tile = _tile(COLUMNS // WIDTH, PairWriter if PAIRED else Writer)


@intrinsic
def _turn(typing: Any, begin: Any, row: Any, to: Any, to_row: Any) -> Any:
    """Copy WIDTH rows of WIDTH numbers as columns; lengths in bytes.

    Args:
        typing: Of numba.
        begin: Address of the first row.
        row: From one to the next.
        to: Address of what is written.
        to_row: From one of its rows to the next.
    """
    return types.void(*[types.intp] * 4), _write_turn


def _write_turn(context: Any, build: Any, _signature: Any, arguments: Any) -> Any:
    """Rows i and i + half change sides: by halves, quarters, eighths, until single numbers do."""
    (begin, row, to, to_row), write = arguments, Writer(build)
    places = [write.integer(i) for i in range(WIDTH)]
    rows = [write.load(build.add(begin, build.mul(i, row))) for i in places]
    half = WIDTH // 2
    while half:
        # Of each pair of rows the first gets both left parts, the second both right parts.
        left = [i if not i & half else WIDTH + i - half for i in range(WIDTH)]
        right = [i + half if not i & half else WIDTH + i for i in range(WIDTH)]
        kind = ir.VectorType(ir.IntType(32), WIDTH)
        for i in range(WIDTH):
            if not i & half:
                one, two = rows[i], rows[i + half]
                rows[i] = build.shuffle_vector(one, two, ir.Constant(kind, left))
                rows[i + half] = build.shuffle_vector(one, two, ir.Constant(kind, right))
        half //= 2
    for i, turned in zip(places, rows, strict=True):
        write.store(turned, build.add(to, build.mul(i, to_row)))
    return context.get_dummy_value()


@njit(cache=True, nogil=True)
def product(
    left: Floats,
    row: int,
    step: int,
    panels: Floats,
    bias: Floats,
    out: Floats,
    follows: int,
    seen: Floats,
    short: bool,
) -> None:
    """A product written to `out`, (rows, columns), whose right factor lies in panels.

    Args:
        left: The left factor, as it lies in memory.
        row: Bytes from one of its rows to the next.
        step: Bytes from one of its columns to the next.
        panels: Columns of the right factor, (panels, depth, COLUMNS).
        bias: What is added to the sums, (panels * COLUMNS,).
        out: The result.
        follows: NOTHING, an activation, or the slope of the one that made `seen`.
        seen: (rows, columns); any such array if unused.
        short: Whether both factors are of pairs.
    """
    many, wide = out.shape
    depth, line = panels.shape[1], 4 * COLUMNS
    spare, beside = np.empty((ROWS, COLUMNS), np.float32), np.empty((ROWS, COLUMNS), np.float32)
    for p in range(len(panels)):
        first = p * COLUMNS
        columns = min(COLUMNS, wide - first)
        fills = columns == COLUMNS
        panel, down = panels.ctypes.data + p * panels.strides[0], panels.strides[1]
        added = bias.ctypes.data + p * line
        for i in range(0, many, ROWS):
            rows = min(ROWS, many - i)
            to = out.ctypes.data + 4 * (i * wide + first) if fills else spare.ctypes.data
            other = seen.ctypes.data + 4 * (i * wide + first) if fills else beside.ctypes.data
            further = 4 * wide if fills else line
            if not fills and follows in (RELU_SLOPE, TANH_SLOPE):
                for r in range(rows):
                    for c in range(columns):
                        beside[r, c] = seen[i + r, first + c]
            at, then = left.ctypes.data + i * row, (follows, other, to, further, rows)
            if short:
                _pair_tile(at, row, step, panel, down, depth, added, *then)
            elif columns > WIDTH:
                _wide_tile(at, row, step, panel, down, depth, added, *then)
            else:
                _slim_tile(at, row, step, panel, down, depth, added, *then)
            if not fills:
                for r in range(rows):
                    for c in range(columns):
                        out[i + r, first + c] = spare[r, c]


@njit(cache=True, nogil=True)
def panels_of(count: int) -> int:
    """How many panels so many columns need."""
    return (count + COLUMNS - 1) // COLUMNS


@njit(cache=True, nogil=True)
def in_panels(matrix: Floats) -> Floats:
    """Columns of (depth, columns) in panels, (panels, depth, COLUMNS), as `product` reads them.

    A small matrix whose columns fill panels is read where it lies: in the nearest cache it does not
    matter how far apart its rows are.
    """
    depth, wide = matrix.shape
    if wide % COLUMNS or matrix.size > NEAR:
        return _packed(matrix)
    return matrix.reshape(depth, wide // COLUMNS, COLUMNS).transpose(1, 0, 2)


@njit(cache=True, nogil=True)
def _packed(matrix: Floats) -> Floats:
    depth, wide = matrix.shape
    panels = _room(wide, depth)
    for p in range(len(panels)):
        first = p * COLUMNS
        columns = min(COLUMNS, wide - first)
        for k in range(depth):
            for j in range(columns):
                panels[p, k, j] = matrix[k, first + j]
    return panels


@njit(cache=True, nogil=True)
def turned_in_panels(matrix: Floats) -> Floats:
    """The same for rows of (columns, depth), as columns."""
    wide, depth = matrix.shape
    panels = _room(wide, depth)
    blocks = depth - depth % WIDTH
    for p in range(len(panels)):
        first = p * COLUMNS
        columns = min(COLUMNS, wide - first)
        squares = columns - columns % WIDTH
        to = panels[p].ctypes.data
        for j in range(0, squares, WIDTH):
            for k in range(0, blocks, WIDTH):
                begin = matrix.ctypes.data + 4 * ((first + j) * depth + k)
                _turn(begin, 4 * depth, to + 4 * (k * COLUMNS + j), 4 * COLUMNS)  # type: ignore[call-arg]
            for k in range(blocks, depth):
                for i in range(j, j + WIDTH):
                    panels[p, k, i] = matrix[first + i, k]
        for j in range(squares, columns):
            for k in range(depth):
                panels[p, k, j] = matrix[first + j, k]
    return panels


@njit(cache=True, nogil=True)
def _room(wide: int, depth: int) -> Floats:
    """Panels for so many columns; what is missing from the last one is 0."""
    shape = (panels_of(wide), depth, COLUMNS)
    return np.zeros(shape, np.float32) if wide % COLUMNS else np.empty(shape, np.float32)
