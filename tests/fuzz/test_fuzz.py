"""A bounded number of random programs for every change; `make fuzz` runs more."""

from __future__ import annotations

from typing import Any

import pytest
from tests.fuzz.check import Difference, Statistics, check, run
from tests.fuzz.grow import grow
from tests.fuzz.program import Input, Program

import ingot.core as mx

PARTS = 6  # so that they can run side by side
PROGRAMS_IN_A_PART = 50


@pytest.mark.parametrize("part", range(PARTS))
def test_compiled_equals_eager_and_mlx(part: int, capsys: pytest.CaptureFixture[str]) -> None:
    first = part * PROGRAMS_IN_A_PART
    # MLX compiles with a C++ compiler, for seconds: one program in each part is enough here.
    statistics = run(range(first, first + PROGRAMS_IN_A_PART), every=PROGRAMS_IN_A_PART)
    with capsys.disabled():
        print(f"\nfuzz, seeds from {first}: {statistics}")
    assert statistics.programs == PROGRAMS_IN_A_PART
    assert statistics.compared_with_mlx > PROGRAMS_IN_A_PART // 2


def test_programs_depend_on_their_seeds_only() -> None:
    assert grow(17).source() == grow(17).source()
    assert grow(17).source() != grow(18).source()


def test_the_fuzzer_notices_and_prints_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    program = Program(
        seed=1,
        inputs=[Input("x0", ("n",), "float32")],
        lines=["v0 = mx.exp(x0)"],
        result="v0",
        calls=[{"n": 3}],
        constants=[1.0],
    )
    check(program, Statistics())
    compile_rightly = mx.compile

    def compile_wrongly(function: Any, **options: Any) -> Any:
        return compile_rightly(lambda *args: function(*args) - 1, **options)

    monkeypatch.setattr(mx, "compile", compile_wrongly)
    with pytest.raises(Difference) as caught:
        check(program, Statistics())
    message = str(caught.value)
    assert "call 0: off by 1 at a scale of" in message
    assert "v0 = mx.exp(x0)" in message
    compile(message[message.index("# Program 1.") :], "program", "exec")
