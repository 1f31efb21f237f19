"""Vector instructions as compiled loops write them, and what the processor has of them.

For `ucpo.learners.compiled.tiles` and `pairs`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import binding, ir
from numba.core import cgutils, config


def _registers() -> tuple[int, int]:
    """Numbers in a register, and rows of a tile: its sums and two more must fit into registers."""
    features = binding.get_host_cpu_features()
    if features.get("avx512f"):
        return 16, 8  # 16 of 32 registers for sums; no fewer, for each waits four turns for itself
    if features.get("avx2"):
        return 8, 6
    return 4, 4


WIDTH, ROWS = _registers()
PAIRED = (
    bool(binding.get_host_cpu_features().get("avx512bf16"))
    and binding.get_host_cpu_name().startswith("znver")  # a Xeon takes 1.7 times as long as in f32
    and not config.CPU_NAME  # type: ignore[attr-defined]  # code for another was asked for
    and not config.CPU_FEATURES  # type: ignore[attr-defined]
)
"""Whether pairs of bf16 are multiplied faster than numbers, see `ucpo.learners.compiled.pairs`."""


class Writer:
    """Writes vector instructions: numbers in registers of WIDTH, addresses as whole numbers."""

    def __init__(self, build: Any) -> None:
        self.build = build
        self.number, self.whole = ir.FloatType(), ir.IntType(64)
        self.vector = ir.VectorType(self.number, WIDTH)

    def integer(self, value: int) -> Any:
        """A whole number."""
        return ir.Constant(self.whole, value)

    def constant(self, value: float) -> Any:
        """The same number in all places of a register."""
        return ir.Constant(self.vector, [value] * WIDTH)

    def everywhere(self, value: Any) -> Any:
        """The same for a number that is not known yet."""
        nothing, place = ir.Constant(self.vector, ir.Undefined), ir.IntType(32)
        first = self.build.insert_element(nothing, value, ir.Constant(place, 0))
        zeros = ir.Constant(ir.VectorType(place, WIDTH), [0] * WIDTH)
        return self.build.shuffle_vector(first, nothing, zeros)

    def multiply_add(self, one: Any, other: Any, added: Any) -> Any:
        """As the processor does it fastest: with one rounding where it can do both at once."""
        kind = ir.FunctionType(self.vector, [self.vector] * 3)
        name = f"llvm.fmuladd.v{WIDTH}f32"
        function = cgutils.get_or_insert_function(self.build.module, kind, name)  # type: ignore[no-untyped-call]
        return self.build.call(function, [one, other, added])

    def add_product(self, one: Any, other: Any, added: Any) -> Any:
        """The same for operands of a product, whatever these are."""
        return self.multiply_add(one, other, added)

    def load(self, address: Any, register: int = 0) -> Any:
        """The numbers of the so-manieth register after an address."""
        return self.build.load(self._place(address, register), align=4, typ=self.vector)

    def load_one(self, address: Any) -> Any:
        """One number."""
        return self.build.load(self._place(address, 0), align=4, typ=self.number)

    def store(self, value: Any, address: Any, register: int = 0) -> None:
        """The way back."""
        self.build.store(value, self._place(address, register), align=4)

    def _place(self, address: Any, register: int) -> Any:
        further = self.build.add(address, self.integer(4 * WIDTH * register))
        return self.build.inttoptr(further, ir.PointerType())

    def loop(self, times: Any, initial: list[Any], turn: Callable[..., list[Any]]) -> list[Any]:
        """Repeat something, at least once.

        Args:
            times: How often.
            initial: Values before the first turn.
            turn: From the values before a turn to those after it.
        """
        build, before = self.build, self.build.basic_block
        loop, after = build.append_basic_block("loop"), build.append_basic_block("after")
        build.branch(loop)
        build.position_at_end(loop)
        values = [build.phi(value.type) for value in (self.integer(0), *initial)]
        following = [build.add(values[0], self.integer(1)), *turn(*values[1:])]
        for value, first, then in zip(values, (self.integer(0), *initial), following, strict=True):
            value.add_incoming(first, before)
            value.add_incoming(then, loop)
        build.cbranch(build.icmp_signed("<", following[0], times), loop, after)
        build.position_at_end(after)
        return following[1:]


class BFloat(ir.types.Type):  # type: ignore[misc]
    """Numbers of 16 bits with the range of f32, which llvmlite has no name for."""

    def _to_string(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BFloat)

    def __hash__(self) -> int:
        return hash(BFloat)


class PairWriter(Writer):
    """The same where operands are pairs of bf16."""

    def add_product(self, one: Any, other: Any, added: Any) -> Any:
        """The products of both numbers of each pair, added in f32."""
        pairs = ir.VectorType(BFloat(), 2 * WIDTH)
        kind = ir.FunctionType(self.vector, [self.vector, pairs, pairs])
        name = "llvm.x86.avx512bf16.dpbf16ps.512"
        function = cgutils.get_or_insert_function(self.build.module, kind, name)  # type: ignore[no-untyped-call]
        factors = [self.build.bitcast(factor, pairs) for factor in (one, other)]
        return self.build.call(function, [added, *factors])
