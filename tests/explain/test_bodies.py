"""Explanations of loops and branches show the programs that they run."""

from __future__ import annotations

from typing import Any

import pytest

import ingot.core as mx
from ingot.explain.page.data import kernel_texts, page_data


def function(x: Any) -> Any:
    def step(c: Any, row: Any) -> Any:
        grown = mx.cond(mx.sum(c) > 0, lambda c: mx.exp(c), lambda c: mx.cos(c), c)
        return mx.tanh(grown * row), mx.max(c)

    last, ys = mx.scan(step, x[0], x)
    return mx.while_loop(lambda v: mx.sum(v) < 10, lambda v: v * 2 + 1, last, max_steps=50), ys


X = mx.ones((5, 3))


@pytest.fixture(scope="module")
def explained() -> Any:
    return mx.compile(function).explain(X)


@pytest.mark.parametrize("stage", ["trace", "simplify", "fuse", "program", "lower", "plan"])
def test_every_form_shows_the_bodies(explained: Any, stage: str) -> None:
    lines = explained.section(stage).splitlines()
    texts = [line.strip() for line in lines]
    indents = {line.strip(): len(line) - len(line.lstrip()) for line in lines if line.endswith(":")}
    assert indents["in each of 5 iterations:"] == indents["in each iteration, at most 50:"] > 0
    branches = [indent for line, indent in indents.items() if line.startswith("branch ")]
    assert len(branches) == 2
    assert min(branches) > indents["in each of 5 iterations:"]
    wanted = {"lower": ["exp(", "cos(", "tanh("], "plan": ["arena of"]}
    for word in wanted.get(stage, ["Exp", "Cos", "Tanh"]):
        assert any(word in line for line in texts), word


def test_the_page_has_the_bodies(explained: Any) -> None:
    work = page_data(explained)["work"]
    assert [entry["programs"] for entry in work] == [
        ["in each of 5 iterations"],
        ["whether to begin", "in each iteration, at most 50"],
    ]
    texts = kernel_texts(explained)
    assert "tanh(" in texts[0]["loops"]
    assert "define" in texts[0]["llvm"]
    assert texts[1]["loops"].count("kernel 0") == 2


def test_functions_without_loops_have_none() -> None:
    explained = mx.compile(lambda x: mx.sort(x)).explain(X)
    assert page_data(explained)["work"][0]["programs"] == []
    assert kernel_texts(explained) == [{}]
