"""Random loop nests: sound, and the same in NumPy and as machine code."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.compiler.forms.nest.nest_runner import run_nest
from tests.compiler.forms.nest.random_nests import Case, any_nest

from ingot.compiler.forms.nest.interpret import interpret
from ingot.compiler.forms.nest.text import nest_text
from ingot.compiler.forms.nest.verify import verify


@given(any_nest(), st.sampled_from((1, 3, 1 << 62)))
def test_interpreter_and_machine_code_agree(case: Case, chunk: int) -> None:
    verify(case.nest)
    expected, found = case.copies(), case.copies()
    interpret(case.nest, expected, case.symbols)
    run_nest(case.nest, found, case.symbols, chunk)
    for a, b in zip(expected, found, strict=True):
        np.testing.assert_array_equal(a, b, nest_text(case.nest))
