"""Captured constants that were replaced since the trace, with INGOT_CHECK_CAPTURES=1."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import ingot.core as mx
import ingot.nn as nn
from ingot.runtime.compile_mode import set_check_captures

X = mx.ones((4, 2))
total = mx.array(1.0)


@dataclass
class Tracker:
    last: Any = None
    seen: dict[str, Any] = field(default_factory=dict)


def warning_of(call: Callable[[], Any]) -> warnings.WarningMessage:
    """The only warning of a call."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    assert [w.category for w in caught] == [mx.UndeclaredStateWarning]
    return caught[0]


@pytest.fixture
def checked() -> Iterator[None]:
    set_check_captures(True)
    yield
    set_check_captures(False)


@pytest.mark.usefixtures("checked")
class TestCheckCaptures:
    def test_each_kind_of_place_is_named_when_it_was_replaced(self) -> None:
        global total
        total = mx.array(1.0)
        model, tracker = nn.Linear(2, 2), Tracker(last=mx.array(2.0))
        table = {"scale": [mx.array(1.0)]}

        @mx.compile
        def function(x: mx.array) -> mx.array:
            return (model(x) * tracker.last * table["scale"][0] + total).sum()

        function(X)
        function(X)
        total = mx.array(5.0)
        message = str(warning_of(lambda: function(X)).message)
        assert "what was in total has been replaced since" in message
        assert "capture what holds it" not in message
        function(X)  # once is enough
        model.weight = model.weight * 2
        tracker.last += 1
        table["scale"] = [mx.array(4.0)]
        found = warning_of(lambda: function(X))
        assert "in model.weight, tracker.last, table['scale'][0] has" in str(found.message)
        assert "inputs=[model.state, vars(tracker), table]" in str(found.message)
        assert found.filename == __file__

    def test_what_is_captured_or_passed_may_be_replaced(self) -> None:
        model = nn.Linear(2, 2)
        weights = {"w": mx.array(2.0)}
        compiled = mx.compile(lambda x, w: model(x) * w["w"], inputs=model.state)
        first = compiled(X, weights)
        model.weight = model.weight * 2
        model.bias = model.bias * 2
        weights["w"] = mx.array(4.0)
        np.testing.assert_allclose(np.array(compiled(X, weights)), np.array(first) * 4, rtol=1e-6)

    def test_another_name_for_the_same_array_is_no_replacement(self) -> None:
        tracker = Tracker(seen={"x": [mx.array(2.0)]})
        compiled = mx.compile(lambda x: x * tracker.seen["x"][0])
        compiled(mx.array(1.0))
        tracker.last = tracker.seen["x"][0]
        assert compiled(mx.array(1.0)).item() == 2


def test_the_environment_switches_the_check_on() -> None:
    script = textwrap.dedent("""
        import ingot.core as mx
        scale = mx.array(2.0)
        function = mx.compile(lambda x: x * scale)
        function(mx.array(1.0))
        scale = mx.array(3.0)
        print(function(mx.array(1.0)).item())
    """)
    for value, warns in (("1", True), ("0", False)):
        ran = subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "INGOT_CHECK_CAPTURES": value},
            capture_output=True,
            text=True,
            check=True,
        )
        assert ran.stdout == "2.0\n"
        assert ("what was in scale has been replaced" in ran.stderr) == warns
