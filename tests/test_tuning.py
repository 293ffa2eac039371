"""Thresholds: C and Python agree on them, and each names its reason and a benchmark."""

from __future__ import annotations

import ast
import re
import runpy
from pathlib import Path

import pytest

from ingot import (
    _native,
    tuning,
    tuning_distributed,
    tuning_linalg,
    tuning_loops,
    tuning_memory,
    tuning_products,
    tuning_rows,
    tuning_vectors,
)
from ingot.benchmarks import suite  # noqa: F401  (enters the benchmarks)
from ingot.benchmarks.benchmark import chosen

PROJECT = Path(__file__).resolve().parent.parent
MODULES = (
    tuning,
    tuning_distributed,
    tuning_linalg,
    tuning_loops,
    tuning_memory,
    tuning_products,
    tuning_rows,
    tuning_vectors,
)
SOURCES = [Path(module.__file__).read_text() for module in MODULES]
NUMBERS = {
    name: value
    for module in MODULES
    for name, value in vars(module).items()
    if name.isupper() and name != "NATIVE"
}
NATIVE = tuple(name for module in MODULES for name in getattr(module, "NATIVE", ()))


def comment_paragraphs() -> dict[str, str]:
    """The comments above each number, or above the first of several that stand together."""
    return {name: text for source in SOURCES for name, text in paragraphs_of(source).items()}


def paragraphs_of(source: str) -> dict[str, str]:
    """The same in one file."""
    lines = source.splitlines()
    found = {}
    for statement in ast.parse(source).body:
        if not isinstance(statement, ast.Assign):
            continue
        assert isinstance(statement.targets[0], ast.Name)
        first = statement.lineno - 1
        while lines[first - 1][:1].isupper():
            first -= 1
        last = first
        while lines[first - 1].startswith("# "):
            first -= 1
        found[statement.targets[0].id] = " ".join(line[2:] for line in lines[first:last])
    return found


def is_plain(value: object) -> bool:
    """Whether it is a number or a table of numbers."""
    return type(value) in (int, float) or (isinstance(value, tuple) and all(map(is_plain, value)))


def test_the_extension_was_built_with_the_numbers_of_the_module() -> None:
    assert _native.tuning() == {name: NUMBERS[name] for name in NATIVE}, "run `make build`"


def test_c_reads_what_is_made_for_it_and_defines_none_of_it_again() -> None:
    sources = (PROJECT / "src" / "ingot" / "_native").rglob("*.[ch]")
    text = "\n".join(path.read_text() for path in sources)
    for name in NATIVE:
        assert re.search(rf"\b{name}\b", text), f"no C code reads {name}"
        assert not re.search(rf"(define\s+{name}\b|\b{name}\s*=[^=])", text), name


def test_python_reads_the_numbers_that_are_not_for_c() -> None:
    sources = (PROJECT / "src" / "ingot").rglob("*.py")
    others = [path for path in sources if not path.stem.startswith("tuning")]
    text = "\n".join(path.read_text() for path in others)
    wanted = set(NUMBERS) - set(NATIVE)
    assert wanted <= set(re.findall(r"\b[A-Z_0-9]+\b", text)), "numbers that nobody reads"
    assert not wanted & set(re.findall(r"(?m)^_?([A-Z_0-9]+) = ", text)), "defined elsewhere, too"


def test_the_module_is_plain_numbers() -> None:
    # The build runs it by itself, and imports must not take longer for it.
    assert not [
        x
        for source in SOURCES
        for x in ast.walk(ast.parse(source))
        if isinstance(x, (ast.Import, ast.ImportFrom))
    ]
    assert all(is_plain(value) for value in NUMBERS.values())
    assert not [name for name in NUMBERS if re.match("MOST_|FEWEST_|LEAST_", name)]


@pytest.mark.parametrize("name", NUMBERS)
def test_each_number_has_a_reason_and_a_benchmark_that_exists(name: str) -> None:
    above = comment_paragraphs()[name]
    assert len(above.split()) >= 8, f"{name} has no reason: {above!r}"
    known = {benchmark.name for benchmark in chosen(())}
    # They close the comment: "... gelu_large, sum_rows."
    if above.endswith(" No benchmark."):
        return
    named = re.search(r"(?<=[.:)] )[a-z_0-9]+(, [a-z_0-9]+)*(?=\.$)", above)
    assert named is not None, f"{name} names no benchmark: {above!r}"
    assert set(named.group().split(", ")) <= known, name


def test_the_header_refuses_what_c_cannot_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    header = runpy.run_path(str(PROJECT / "build_support" / "tuning_header.py"))
    text = header["header_text"]()
    assert dict(re.findall(r"#define ([A-Z_0-9]+) (\d+)\n", text)) == {
        name: str(NUMBERS[name]) for name in NATIVE
    }
    wrong = tmp_path / "tuning.py"
    wrong.write_text('HALF = 0.5\nNATIVE = ("HALF",)\n')
    monkeypatch.setitem(header["header_text"].__globals__, "TUNING", (wrong,))
    with pytest.raises(SystemExit, match="HALF"):
        header["header_text"]()
