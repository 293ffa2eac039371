"""Loop metadata and loop-carried values."""

from __future__ import annotations

from ingot.compiler.forms.affine import Affine, Index, affine
from ingot.compiler.forms.nest.build import NestBuilder
from ingot.compiler.forms.nest.data import Constant, Loop, Parallel
from ingot.compiler.llvm.code import ALONE, NO_UNROLLING, WRITTEN_OUT, Code, Register, literal
from ingot.compiler.llvm.conversions import Element
from ingot.compiler.llvm.loops import (
    few_iterations,
    flat,
    interleaved,
    loop_hints,
    runs_once,
    unflat,
    unknown,
    writes_stack,
)
from ingot.graph.dtype import complex64, float32


def loop(**options: object) -> Loop:
    return Loop(Index(), affine(0), (affine(4),), **options)  # type: ignore[arg-type]


def test_hints() -> None:
    assert loop_hints(loop()) == ()
    assert loop_hints(loop(copies=1)) == (NO_UNROLLING,)
    assert loop_hints(loop(kind="lanes")) == WRITTEN_OUT
    (hint,) = loop_hints(loop(copies=4))
    assert "unroll.count" in hint
    assert "4" in hint


def test_loops_of_one_iteration() -> None:
    assert not runs_once(loop())
    assert runs_once(loop(step=4))
    assert not runs_once(loop(step=4, kind="vector"))
    index = affine(Index())
    assert runs_once(Loop(Index(), affine(3), (affine(9), affine(4))))
    assert not runs_once(Loop(Index(), index, (index + 1,)))
    assert not runs_once(Loop(Index(), affine(0), (affine(1), index)))


def test_complex_elements_are_two_registers() -> None:
    a, b, c = (Register(name, "float") for name in ("%a", "%b", "%c"))
    elements = [Element(a, float32), Element(b, complex64, c)]
    assert flat(elements) == [a, b, c]
    back = unflat([c, a, b], elements)
    assert [x.register for x in back] == [c, a]
    assert [x.imaginary for x in back] == [None, b]


def test_writes_to_the_stack_are_found_below() -> None:
    for on_stack in (True, False):
        b = NestBuilder()
        tile = b.stack("tile", float32, (4,))
        out = b.buffer("out", float32, (4,), (4,), 0)
        with b.parallel(()), b.loop(0, 4) as i:
            b.store(Constant(float32, 0), tile if on_stack else out, (affine(i),))
        assert writes_stack(b.nest.parallel[0].body) is on_stack


def test_llvm_does_not_learn_constant_ends_of_masks() -> None:
    code = Code()
    end = Register("%end", "i64")
    assert unknown(code, end) is end
    assert unknown(code, literal("i64", 31)).name.startswith("%")


def test_interleaving() -> None:
    def of(*ends: Affine, kind: str = "vector") -> range:
        return interleaved(Loop(Index(), affine(0), ends, kind=kind))

    assert of(affine(1 << 20)) == range(1, 9)
    assert of(affine(100)) == ALONE
    assert of(affine(Index())) == ALONE
    assert of(affine(32), kind="lanes") == range(1, 3)
    assert of(affine(40), kind="lanes") == ALONE
    assert of(affine(64), affine(Index())) == range(4, 5)
    assert of(affine(48), affine(Index())) == ALONE
    assert interleaved(Parallel((Index(), Index()), (1000, 1000))) == range(1, 9)
    assert interleaved(Parallel((Index(),), (1000,))) == ALONE
    assert interleaved(Parallel((Index(),), (affine(Index()),))) == ALONE


def test_few_iterations_are_those_of_all_axes() -> None:
    assert few_iterations(Parallel((Index(), Index()), (2, 3))) == 6
    assert few_iterations(Parallel((Index(), Index()), (3, 3))) == 0
    assert few_iterations(Parallel((Index(), Index()), (2, affine(Index())))) == 0
