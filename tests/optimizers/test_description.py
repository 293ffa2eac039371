"""Optimizers say what they are when they are printed, and evaluate nothing for it."""

from __future__ import annotations

from typing import Any

from tests.support.parsed_html import ParsedHTML

import ingot.core as mx
import ingot.nn as nn
import ingot.optimizers as optimizers


def test_hyperparameters_step_and_state() -> None:
    model = nn.Linear(3, 2)
    optimizer = optimizers.AdamW(learning_rate=0.125, weight_decay=0.5)
    assert repr(optimizer).startswith("AdamW(learning_rate=0.125, betas=(0.9, 0.999), eps=1e-08, ")
    assert "weight_decay=0.5" in repr(optimizer)
    # the step is an uint64, the rate a float32
    assert repr(optimizer).endswith("): step 0, 2 arrays of state, 12 B")
    gradients = nn.value_and_grad(model, lambda x: model(x).sum())(mx.ones((4, 3)))[1]
    for _ in range(3):
        optimizer.update(model, gradients)
    assert "step not evaluated" in repr(optimizer)
    mx.eval(model.parameters(), optimizer.state)
    # two moments for each of eight parameters
    assert repr(optimizer).endswith("): step 3, 6 arrays of state, 76 B")
    table = ParsedHTML(optimizer._repr_html_())
    assert table.rows[0] == ["optimizer", "hyperparameters", "step", "arrays of state", "bytes"]
    assert table.rows[1][0] == "AdamW"
    assert table.rows[1][2:] == ["3", "6", "76 B"]


def test_inside_a_trace() -> None:
    optimizer = optimizers.SGD(learning_rate=0.5)
    texts: list[str] = []

    def step(x: Any) -> Any:
        texts.append(repr(optimizer))
        return optimizer.apply_gradients({"x": x}, {"x": x})["x"]

    mx.eval(mx.compile(step, inputs=optimizer.state, outputs=optimizer.state)(mx.ones(2)))
    assert "learning_rate=not evaluated" in texts[0]


def test_schedules_own_attributes_and_several() -> None:
    class Strange(optimizers.SGD):
        def __init__(self) -> None:
            super().__init__(optimizers.cosine_decay(0.5, 10))
            self.label = "<script>" + "x" * 100

    both = optimizers.MultiOptimizer([Strange(), optimizers.Adam(0.25)], [lambda *_: True])
    first, strange, adam, last = repr(both).splitlines()
    assert (first, last) == ("MultiOptimizer(", ")")
    assert "learning_rate=0.5 (scheduled)" in strange or "not evaluated (scheduled)" in strange
    assert adam.startswith("  Adam(learning_rate=0.25, ")
    table = ParsedHTML(both._repr_html_())
    assert table.tags == {"table", "thead", "tbody", "tr", "th", "td"}
    assert [row[0] for row in table.rows[1:]] == ["Strange", "Adam"]
    assert "label='<script>xxx" in table.rows[1][1]
    assert "…" in table.rows[1][1]
