"""A bounded number of random programs for every change; `make fuzz` runs more."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import pytest
from tests.fuzz.check import Difference, Statistics, check, run
from tests.fuzz.grow import grow
from tests.fuzz.program import Input, Program
from tests.fuzz.stories import KINDS, Story, tell_story
from tests.fuzz.tell import check_story

import ingot.core as mx
from ingot.compiler.trace.escapes import Escapes

PARTS = 6  # so that they can run side by side
PROGRAMS_IN_A_PART = 50
STORIES_OF_A_KIND = 20


@pytest.mark.parametrize("part", range(PARTS))
def test_compiled_equals_eager_and_mlx(part: int, capsys: pytest.CaptureFixture[str]) -> None:
    first = part * PROGRAMS_IN_A_PART
    # MLX compiles with a C++ compiler, for seconds: one program in each part is enough here.
    statistics = run(range(first, first + PROGRAMS_IN_A_PART), every=PROGRAMS_IN_A_PART)
    with capsys.disabled():
        print(f"\nfuzz, seeds from {first}: {statistics}")
    assert statistics.programs == PROGRAMS_IN_A_PART
    assert statistics.compared_with_mlx > PROGRAMS_IN_A_PART // 2


@pytest.mark.parametrize("kind", KINDS)
def test_stories_do_not_differ_in_silence(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    statistics = Statistics()
    for seed in range(STORIES_OF_A_KIND):
        check_story(tell_story(seed, kind), statistics)
    with capsys.disabled():
        print(f"\nfuzz, stories: {statistics}")
    assert statistics.stories[kind] == STORIES_OF_A_KIND
    assert statistics.stories_told_to_mlx >= STORIES_OF_A_KIND // 4


def test_stories_depend_on_their_seeds_only() -> None:
    for kind in KINDS:
        assert tell_story(17, kind) == tell_story(17, kind)
        assert tell_story(17, kind).source() != tell_story(18, kind).source()


def test_a_story_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values that differ in silence, needless warnings and missing refusals are differences."""
    story = Story(1, "leaks", lines=["function = compile(lambda x: x * 2)"])
    story.lines += ["show(function(numbers(3)))", "show(function(numbers(3)))"]
    check_story(story, Statistics())
    compile_rightly = mx.compile

    def compile_wrongly(function: Any) -> Any:
        return compile_rightly(lambda x: function(x) + 1)

    monkeypatch.setattr(mx, "compile", compile_wrongly)
    with pytest.raises(Difference, match=r"value 0: off by 1 at a scale of(.|\n)*# Story 1"):
        check_story(story, Statistics())
    monkeypatch.undo()
    story = Story(2, "leaks", lines=["kept = []"])
    story.lines += ["function = compile(lambda x: (kept.append(x * 2), x)[1])"]
    story.lines += ["show(function(numbers(3)))"]
    with pytest.raises(Difference, match="warned of undeclared state, but all is declared"):
        check_story(story, Statistics())
    statistics = Statistics()
    check_story(replace(story, is_undeclared=True), statistics)
    assert statistics.warned == 1
    with warnings.catch_warnings():
        monkeypatch.setattr(Escapes, "warning", lambda *_: None)
        story = replace(story, is_undeclared=True, lines=[*story.lines, "show(kept[-1])"])
        with pytest.raises(Difference, match="uncompiled raised None, compiled ValueError"):
            check_story(story, Statistics())


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
