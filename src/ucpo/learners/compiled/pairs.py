"""Operands of products rounded to bf16, for `ucpo.learners.compiled.passes`.

Two numbers of 16 bits take the place of one of 32. The processor multiplies pairs with pairs and
adds both products to a sum in f32 (`registers.PairWriter`); so numbers that are summed one after
the other are neighbours, and a matrix of pairs is moved about like one of numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from ucpo.learners.compiled.registers import PAIRED, WIDTH, BFloat, Writer

Floats = Any  # arrays of float32, as numba sees them

_SIDE_BY_SIDE = list(range(2 * WIDTH))
_IN_TURNS = [i // 2 + WIDTH * (i % 2) for i in range(2 * WIDTH)]


def _rounding(order: list[int]) -> Any:
    """A compiled function that rounds two registers of numbers and writes them in some order."""

    def generate(context: Any, build: Any, _signature: Any, arguments: Any) -> Any:
        (one, other, to), write = arguments, Writer(build)
        rounded = _by_instruction if PAIRED else _by_whole_numbers
        halves = [rounded(build, write.load(address)) for address in (one, other)]
        places = ir.Constant(ir.VectorType(ir.IntType(32), 2 * WIDTH), order)
        pairs = build.shuffle_vector(*halves, places)
        write.store(build.bitcast(pairs, write.vector), to)
        return context.get_dummy_value()

    def rounded(typing: Any, one: Any, other: Any, to: Any) -> Any:
        return types.void(types.intp, types.intp, types.intp), generate

    return intrinsic(rounded)


def _by_instruction(build: Any, value: Any) -> Any:
    return build.fptrunc(value, ir.VectorType(BFloat(), WIDTH))


def _by_whole_numbers(build: Any, value: Any) -> Any:
    """The same where the processor has no such instruction.

    LLVM would call a function there that no library of the process has to have, and end the
    process when a call that never rounds is compiled.
    """
    whole = ir.VectorType(ir.IntType(32), WIDTH)

    def constant(number: int) -> Any:
        return ir.Constant(whole, [number] * WIDTH)

    bits = build.bitcast(value, whole)
    odd = build.and_(build.lshr(bits, constant(16)), constant(1))
    nearest = build.add(bits, build.add(odd, constant(0x7FFF)))  # to even where two are as near
    no_number = build.fcmp_unordered("uno", value, value)
    kept = build.select(no_number, build.or_(bits, constant(0x400000)), nearest)
    return build.trunc(build.lshr(kept, constant(16)), ir.VectorType(ir.IntType(16), WIDTH))


_round_neighbours, _round_in_turns = _rounding(_SIDE_BY_SIDE), _rounding(_IN_TURNS)


@njit(cache=True, nogil=True)
def rows_in_pairs(matrix: Floats) -> Floats:
    """Neighbours in a row as pairs, (rows, columns) -> (rows, half as many, rounded up)."""
    rows, wide = matrix.shape
    pairs = np.empty((rows, (wide + 1) // 2), np.float32)
    whole = wide - wide % (2 * WIDTH)
    rest, rounded = np.zeros(2 * WIDTH, np.float32), np.empty(WIDTH, np.float32)
    for i in range(rows):
        begin, to = matrix[i].ctypes.data, pairs[i].ctypes.data
        for j in range(0, whole, 2 * WIDTH):
            _round_neighbours(begin + 4 * j, begin + 4 * (j + WIDTH), to + 2 * j)
        if whole < wide:
            for j in range(whole, wide):
                rest[j - whole] = matrix[i, j]
            _round_neighbours(rest.ctypes.data, rest.ctypes.data + 4 * WIDTH, rounded.ctypes.data)
            for j in range(whole // 2, pairs.shape[1]):
                pairs[i, j] = rounded[j - whole // 2]
    return pairs


@njit(cache=True, nogil=True)
def columns_in_pairs(matrix: Floats) -> Floats:
    """Neighbours in a column as pairs, (rows, columns) -> (half as many, rounded up, columns)."""
    rows, wide = matrix.shape
    pairs = np.empty(((rows + 1) // 2, wide), np.float32)
    whole = wide - wide % WIDTH
    above, below = np.zeros(WIDTH, np.float32), np.zeros(WIDTH, np.float32)
    rounded, nothing = np.empty(WIDTH, np.float32), np.zeros(wide, np.float32)
    for i in range(0, rows, 2):
        one, other = matrix[i], (matrix[i + 1] if i + 1 < rows else nothing)
        to = pairs[i // 2]
        for j in range(0, whole, WIDTH):
            further = 4 * j
            _round_in_turns(
                one.ctypes.data + further, other.ctypes.data + further, to.ctypes.data + further
            )
        if whole < wide:
            for j in range(whole, wide):
                above[j - whole], below[j - whole] = one[j], other[j]
            _round_in_turns(above.ctypes.data, below.ctypes.data, rounded.ctypes.data)
            for j in range(whole, wide):
                to[j] = rounded[j - whole]
    return pairs
