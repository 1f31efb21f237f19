"""Small perceptrons there and back, compiled: every product of a training on a CPU.

Libraries of matrix products are made for large ones and for processors of their maker. Here a
product is cut into tiles of a few rows and columns whose sums stay in registers; what a layer adds
and applies happens while its tile is still in the nearest cache. One call passes through all layers
of all members.

Each number is summed in the order of the layer's inputs, whatever the batch and however wide the
registers are: a row is the same alone and in a batch, to the last bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import binding, ir  # type: ignore[import-untyped]
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

Floats = Any  # arrays of float32, as numba sees them
Ints = Any
Address = Any

LINEAR, RELU, TANH = 0, 1, 2
"""What follows a layer."""


def _registers() -> tuple[int, int]:
    """Numbers in a register, and rows of a tile: its sums and two more must fit into registers."""
    features = binding.get_host_cpu_features()
    if features.get("avx512f"):
        return 16, 8  # 16 of 32 registers for sums; no fewer, for each waits four turns for itself
    if features.get("avx2"):
        return 8, 6
    return 4, 4


WIDTH, ROWS = _registers()
COLUMNS = 2 * WIDTH


@intrinsic
def _tile(
    typing: Any,
    left: Any,
    row: Any,
    step: Any,
    panel: Any,
    depth: Any,
    bias: Any,
    least: Any,
    out: Any,
    out_row: Any,
    rows: Any,
) -> Any:
    """Sums of products of `rows` by COLUMNS, at least `least` each; all lengths in bytes.

    Args:
        typing: Of numba.
        left: Address of the first row of the left factor.
        row: From one of its rows to the next.
        step: From one of its columns to the next.
        panel: Address of COLUMNS columns of the right factor, row after row.
        depth: Numbers to be summed, at least 1.
        bias: Address of what is added to the sums, COLUMNS numbers.
        least: Results below become this.
        out: Address of the result's first row.
        out_row: From one of its rows to the next.
        rows: How many are wanted, 1 to ROWS.
    """
    whole = types.intp
    signature = types.void(*[whole] * 6, types.float32, *[whole] * 3)
    return signature, _write_tile


def _write_tile(context: Any, build: Any, _signature: Any, arguments: Any) -> Any:
    left, row, step, panel, depth, bias, least, out, out_row, rows = arguments
    number, whole, place = ir.FloatType(), ir.IntType(64), ir.IntType(32)
    vector, pointer = ir.VectorType(number, WIDTH), ir.PointerType()
    # As the processor does it fastest: one rounding where it can add a product at once.
    multiply_add = cgutils.get_or_insert_function(  # type: ignore[no-untyped-call]
        build.module, ir.FunctionType(vector, [vector] * 3), f"llvm.fmuladd.v{WIDTH}f32"
    )
    halves = range(COLUMNS // WIDTH)

    def constant(value: int) -> Any:
        return ir.Constant(whole, value)

    def half(address: Any, index: int) -> Any:
        return build.inttoptr(build.add(address, constant(4 * WIDTH * index)), pointer)

    def everywhere(value: Any) -> Any:
        nothing = ir.Constant(vector, ir.Undefined)
        first = build.insert_element(nothing, value, ir.Constant(place, 0))
        return build.shuffle_vector(
            first, nothing, ir.Constant(ir.VectorType(place, WIDTH), [0] * WIDTH)
        )

    # Rows that are not wanted repeat the last one that is, so that nothing beyond it is read.
    last = build.sub(rows, constant(1))
    begins = []
    for i in range(ROWS):
        index = build.select(build.icmp_signed("<", constant(i), rows), constant(i), last)
        begins.append(build.add(left, build.mul(index, row)))
    nothing = ir.Constant(vector, [0.0] * WIDTH)

    before = build.basic_block
    loop, after = build.append_basic_block("loop"), build.append_basic_block("after")
    build.branch(loop)
    build.position_at_end(loop)
    count, offset, at = (build.phi(whole) for _ in range(3))
    sums = [[build.phi(vector) for _ in halves] for _ in range(ROWS)]
    right = [build.load(half(at, j), align=4, typ=vector) for j in halves]
    added = []
    for i in range(ROWS):
        address = build.inttoptr(build.add(begins[i], offset), pointer)
        factor = everywhere(build.load(address, align=4, typ=number))
        added.append([build.call(multiply_add, [factor, right[j], sums[i][j]]) for j in halves])
    carried = [
        (count, constant(0), build.add(count, constant(1))),
        (offset, constant(0), build.add(offset, step)),
        (at, panel, build.add(at, constant(4 * COLUMNS))),
        *((sums[i][j], nothing, added[i][j]) for i in range(ROWS) for j in halves),
    ]
    for phi, initial, following in carried:
        phi.add_incoming(initial, before)
        phi.add_incoming(following, loop)
    build.cbranch(build.icmp_signed("<", carried[0][2], depth), loop, after)

    build.position_at_end(after)
    least = everywhere(least)
    # Last, because a large bias would take digits from each of the products it came before.
    last = [build.load(half(bias, j), align=4, typ=vector) for j in halves]
    for i in range(ROWS):
        with build.if_then(build.icmp_signed("<", constant(i), rows)):
            line = build.add(out, build.mul(constant(i), out_row))
            for j in halves:
                total = build.fadd(added[i][j], last[j])
                low = build.fcmp_ordered("<", total, least)
                build.store(build.select(low, least, total), half(line, j), align=4)
    return context.get_dummy_value()


def _line(work: Any) -> Any:
    """A compiled function of a line of COLUMNS numbers to be changed and of one that is read.

    Args:
        work: Writes what becomes of WIDTH of them: from builder, constants, value and other value.
    """

    def write(context: Any, build: Any, _signature: Any, arguments: Any) -> Any:
        changed, read = arguments
        vector = ir.VectorType(ir.FloatType(), WIDTH)

        def constant(value: float) -> Any:
            return ir.Constant(vector, [value] * WIDTH)

        for j in range(COLUMNS // WIDTH):
            offset = ir.Constant(ir.IntType(64), 4 * WIDTH * j)
            to, source = (
                build.inttoptr(build.add(line, offset), ir.PointerType())
                for line in (changed, read)
            )
            value = build.load(to, align=4, typ=vector)
            other = build.load(source, align=4, typ=vector)
            build.store(work(build, constant, value, other), to, align=4)
        return context.get_dummy_value()

    def line(typing: Any, changed: Any, read: Any) -> Any:
        return types.void(types.intp, types.intp), write

    return intrinsic(line)


def _write_relu_slope(build: Any, constant: Any, slope: Any, said: Any) -> Any:
    """The slope where the layer said more than 0."""
    return build.select(build.fcmp_ordered(">", said, constant(0.0)), slope, constant(0.0))


def _write_tanh_slope(build: Any, constant: Any, slope: Any, said: Any) -> Any:
    """``slope (1 - said^2)``."""
    return build.fmul(slope, build.fsub(constant(1.0), build.fmul(said, said)))


# x times a quotient of polynomials in its square, fitted up to 8: to 3e-7 of tanh.
_ABOVE = (1.0, 1.3726183e-01, 3.9266016e-03, 2.9204386e-05, 3.3570457e-08, -1.4546557e-11)
_BELOW = (1.0, 4.7059516e-01, 2.7458329e-02, 4.0420807e-04, 1.3723200e-06)


def _write_tanh(build: Any, constant: Any, value: Any, _: Any) -> Any:
    def within(x: Any, limit: float) -> Any:
        x = build.select(build.fcmp_ordered(">", x, constant(limit)), constant(limit), x)
        return build.select(build.fcmp_ordered("<", x, constant(-limit)), constant(-limit), x)

    def polynomial(factors: tuple[float, ...]) -> Any:
        total = constant(factors[-1])
        for factor in reversed(factors[:-1]):
            total = build.fadd(build.fmul(total, square), constant(factor))
        return total

    near = within(value, 8.0)
    square = build.fmul(near, near)
    quotient = build.fdiv(polynomial(_ABOVE), polynomial(_BELOW))
    return within(build.fmul(near, quotient), 1.0)


_relu_slope, _tanh_slope, _tanh = (
    _line(_write_relu_slope),
    _line(_write_tanh_slope),
    _line(_write_tanh),
)
NOTHING, RELU_SLOPE, TANH_SLOPE, TANH_ITSELF = 0, 1, 2, 3


@njit(cache=True, nogil=True)
def _product(
    left: Address,
    row: int,
    step: int,
    panels: Floats,
    bias: Floats,
    least: Any,
    out: Floats,
    follows: int,
    seen: Floats,
) -> None:
    """A product written to `out`, (rows, columns), whose right factor lies in panels.

    Args:
        left: Address of the left factor.
        row: Bytes from one of its rows to the next.
        step: Bytes from one of its columns to the next.
        panels: Columns of the right factor, (panels, depth, COLUMNS).
        bias: What is added to the sums, (panels * COLUMNS,).
        least: What results are at least.
        out: The result.
        follows: NOTHING, TANH_ITSELF, or the slope of what made `seen`.
        seen: (rows, columns); any such array if unused.
    """
    many, wide = out.shape
    depth, line = panels.shape[1], 4 * COLUMNS
    spare, beside = np.empty((ROWS, COLUMNS), np.float32), np.zeros((ROWS, COLUMNS), np.float32)
    for p in range(len(panels)):
        first = p * COLUMNS
        columns = min(COLUMNS, wide - first)
        fills = columns == COLUMNS
        panel = panels.ctypes.data + p * depth * line
        added = bias.ctypes.data + p * line
        for i in range(0, many, ROWS):
            rows = min(ROWS, many - i)
            to = out.ctypes.data + 4 * (i * wide + first) if fills else spare.ctypes.data
            other = seen.ctypes.data + 4 * (i * wide + first) if fills else beside.ctypes.data
            further = 4 * wide if fills else line
            _tile(  # type: ignore[call-arg]
                left + i * row, row, step, panel, depth, added, least, to, further, rows
            )
            if not fills and follows in (RELU_SLOPE, TANH_SLOPE):
                for r in range(rows):
                    for c in range(columns):
                        beside[r, c] = seen[i + r, first + c]
            if follows == RELU_SLOPE:
                for r in range(rows):
                    _relu_slope(to + r * further, other + r * further)
            elif follows == TANH_SLOPE:
                for r in range(rows):
                    _tanh_slope(to + r * further, other + r * further)
            elif follows == TANH_ITSELF:
                for r in range(rows):
                    _tanh(to + r * further, to + r * further)
            if not fills:
                for r in range(rows):
                    for c in range(columns):
                        out[i + r, first + c] = spare[r, c]


@njit(cache=True, nogil=True)
def _panels(count: int) -> int:
    return (count + COLUMNS - 1) // COLUMNS


@njit(cache=True, nogil=True)
def _pack(matrix: Floats) -> Floats:
    """Columns of (depth, columns) in panels; what is missing from the last one is 0."""
    depth, wide = matrix.shape
    panels = np.empty((_panels(wide), depth, COLUMNS), np.float32)
    for p in range(len(panels)):
        first = p * COLUMNS
        columns = min(COLUMNS, wide - first)
        for k in range(depth):
            for j in range(columns):
                panels[p, k, j] = matrix[k, first + j]
            for j in range(columns, COLUMNS):
                panels[p, k, j] = np.float32(0.0)
    return panels


@njit(cache=True, nogil=True)
def _pack_turned(matrix: Floats) -> Floats:
    """Rows of (columns, depth) in panels, as columns."""
    wide, depth = matrix.shape
    panels = np.empty((_panels(wide), depth, COLUMNS), np.float32)
    for p in range(len(panels)):
        first = p * COLUMNS
        columns = min(COLUMNS, wide - first)
        for j in range(columns):
            for k in range(depth):
                panels[p, k, j] = matrix[first + j, k]
        for j in range(columns, COLUMNS):
            for k in range(depth):
                panels[p, k, j] = np.float32(0.0)
    return panels


@njit(cache=True, nogil=True)
def forward(
    flat: Floats, sizes: Ints, activated: int, kind: int, inputs: Floats, seen: Floats, out: Floats
) -> None:
    """What the perceptrons say.

    Args:
        flat: Parameters, a row for each member: by layer, weights (in, out) and biases.
        sizes: Of the input, the hidden layers and the output.
        activated: How many layers, the first ones, are followed by an activation.
        kind: RELU or TANH.
        inputs: (members, batch, in), or (1, batch, in) if all see the same.
        seen: Filled with what each hidden layer says, (members, batch * sum of their sizes).
        out: Filled with what the last one says, (members, batch, out).
    """
    batch, depth = inputs.shape[1], len(sizes) - 1
    bias = np.zeros(_panels(sizes.max()) * COLUMNS, np.float32)
    for member in range(len(flat)):
        hidden = inputs[member if len(inputs) > 1 else 0]
        at = place = 0
        for i in range(depth):
            wide, high = sizes[i], sizes[i + 1]
            weight = flat[member, at : at + wide * high].reshape(wide, high)
            at += wide * high
            bias[:high] = flat[member, at : at + high]
            at += high
            if i + 1 == depth:
                to = out[member]
            else:
                to = seen[member, place : place + batch * high].reshape(batch, high)
                place += batch * high
            least, follows = np.float32(-np.inf), NOTHING
            if i < activated and kind == RELU:
                least = np.float32(0.0)
            elif i < activated:
                follows = TANH_ITSELF
            left = hidden.ctypes.data
            _product(left, 4 * wide, 4, _pack(weight), bias, least, to, follows, to)
            hidden = to


@njit(cache=True, nogil=True)
def backward(
    flat: Floats,
    sizes: Ints,
    activated: int,
    kind: int,
    inputs: Floats,
    seen: Floats,
    upstream: Floats,
    gradient: Floats,
    first: int,
    asked: Floats,
) -> None:
    """Gradients of the perceptrons' parameters and of some of their inputs.

    Args:
        flat: As in `forward`, like all that follow.
        sizes: ...
        activated: ...
        kind: ...
        inputs: ...
        seen: ...
        upstream: Gradient of what the last layer says, before an activation, (members, batch, out).
        gradient: Filled with that of parameters, like `flat`; left alone if it has no rows.
        first: Where the inputs begin whose gradient is asked for.
        asked: Filled with it, (members, batch, as many inputs).
    """
    batch, depth = inputs.shape[1], len(sizes) - 1
    nothing = np.zeros(_panels(sizes.max()) * COLUMNS, np.float32)
    least = np.float32(-np.inf)
    follows = RELU_SLOPE if kind == RELU else TANH_SLOPE
    for member in range(len(flat)):
        place, at = seen.shape[1], flat.shape[1]
        slope = upstream[member]
        for i in range(depth - 1, -1, -1):
            wide, high = sizes[i], sizes[i + 1]
            bias = at - high
            at = bias - wide * high
            if i:
                place -= batch * wide
                hidden = seen[member, place : place + batch * wide].reshape(batch, wide)
            else:
                hidden = inputs[member if len(inputs) > 1 else 0]
            if len(gradient):
                _sum_rows(slope, gradient[member, bias : bias + high])
                to = gradient[member, at:bias].reshape(wide, high)
                left = hidden.ctypes.data
                _product(left, 4, 4 * wide, _pack(slope), nothing, least, to, NOTHING, to)
            if i:
                panels = _pack_turned(flat[member, at:bias].reshape(wide, high))
                to = np.empty((batch, wide), np.float32)
                _product(
                    slope.ctypes.data, 4 * high, 4, panels, nothing, least, to, follows, hidden
                )
                slope = to
            elif asked.shape[2]:
                begin = at + first * high
                rows = flat[member, begin : begin + asked.shape[2] * high]
                panels = _pack_turned(rows.reshape(asked.shape[2], high))
                to = asked[member]
                _product(slope.ctypes.data, 4 * high, 4, panels, nothing, least, to, NOTHING, to)


@njit(cache=True, nogil=True)
def _sum_rows(matrix: Floats, sums: Floats) -> None:
    sums[:] = np.float32(0.0)
    for i in range(len(matrix)):
        for j in range(len(sums)):
            sums[j] += matrix[i, j]
