"""Options of one compilation."""

from __future__ import annotations

from ingot.compiler.options import Options
from ingot.runtime.compile_mode import CompileMode


def test_each_compilation_has_a_report_of_its_own() -> None:
    assert Options().report is not Options().report
    assert Options().report.merged == []


def test_default_options_of_passes() -> None:
    options = Options()
    assert options.mode is CompileMode.enabled
    assert options.strides is None
    assert options.sizes is None
    assert not options.excess_precision
