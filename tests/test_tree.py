"""The shape of the source tree: short files, small folders, simple functions, a test file for each
module of the compiler.

What is too long to be read at once hides mistakes, so these limits fail a build instead of being
advice. Complexity is McCabe's number as ruff counts it (C901), for C as well.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path(__file__).parent.parent
FOLDERS = ("src", "tests", "build_support", "examples")
SUFFIXES = {".py", ".c", ".h", ".js", ".css", ".html"}
MAX_LINES = 500
MAX_FILES = 15  # of a folder, besides its __init__.py
MAX_COMPLEXITY = 15

# Modules that compute something only together with others: the tests that exercise each.
TESTED_WITHIN = {
    "machine/test_repeated.py": ("llvm/repeated.py",),
    "llvm/test_nests.py": ("llvm/whole_vectors.py",),
    "lower/kernels/test_streams.py": ("lower/streams.py",),
    "lower/products/test_matmul.py": ("lower/products/builder.py",),
    "lower/products/quantized/test_product.py": (
        "lower/products/quantized/codes.py",
        "lower/products/quantized/tile.py",
    ),
    "lower/products/attention/test_forward.py": (
        "lower/products/attention/forward.py",
        "lower/products/attention/masking.py",
        "lower/products/attention/operands.py",
    ),
    "lower/products/attention/test_backward.py": (
        "lower/products/attention/backward.py",
        "lower/products/attention/query_groups.py",
        "lower/products/attention/wide.py",
    ),
    "lower/products/attention/test_power.py": ("lower/products/attention/power.py",),
    "lower/products/convolution/test_convolution.py": (
        "lower/products/convolution/by_filters.py",
        "lower/products/convolution/dense.py",
        "lower/products/convolution/depthwise.py",
        "lower/products/convolution/depthwise_by_filters.py",
        "lower/products/convolution/filters.py",
        "lower/products/convolution/interleaved.py",
        "lower/products/convolution/lower.py",
        "lower/products/convolution/narrow.py",
    ),
}

C_COMMENTS_AND_TEXT = re.compile(
    r"""/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", re.DOTALL
)
# As clang-format writes them: the name at the left margin, the closing brace as well.
C_FUNCTION = re.compile(
    r"^(?![#\s}])[^;{}]*?\b(\w+)\([^;{}]*\) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL
)
C_BRANCH = re.compile(r"\b(?:if|for|while|case)\b")


def source_files() -> Iterator[Path]:
    for folder in FOLDERS:
        for path in sorted((PROJECT / folder).rglob("*")):
            if path.suffix in SUFFIXES and not any("egg-info" in part for part in path.parts):
                yield path


def c_functions(text: str) -> Iterator[tuple[str, int]]:
    """The functions of a C file, and the McCabe complexity of each."""
    for found in C_FUNCTION.finditer(C_COMMENTS_AND_TEXT.sub("", text)):
        yield found[1], 1 + len(C_BRANCH.findall(found[2]))


def test_no_file_is_long() -> None:
    lengths = {path: path.read_text().count("\n") for path in source_files()}
    assert len(lengths) > 500
    long = {str(path.relative_to(PROJECT)): n for path, n in lengths.items() if n > MAX_LINES}
    assert not long, f"split what has more than {MAX_LINES} lines: {long}"


def test_no_folder_is_crowded() -> None:
    counts = Counter(path.parent for path in source_files() if path.name != "__init__.py")
    crowded = {str(path.relative_to(PROJECT)): n for path, n in counts.items() if n > MAX_FILES}
    assert not crowded, f"regroup what has more than {MAX_FILES} files: {crowded}"


def test_no_python_function_is_complex() -> None:
    command = ["ruff", "check", "--isolated", "--select", "C901", "--output-format", "concise"]
    limit = ["--config", f"lint.mccabe.max-complexity = {MAX_COMPLEXITY}", "--ignore-noqa"]
    done = subprocess.run(
        [sys.executable, "-m", *command, *limit, *FOLDERS],
        cwd=PROJECT,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_c_function_is_complex() -> None:
    found = {
        f"{path.relative_to(PROJECT)}: {name}": complexity
        for path in source_files()
        if path.suffix in {".c", ".h"}
        for name, complexity in c_functions(path.read_text())
    }
    assert len(found) > 500
    complex = {name: number for name, number in found.items() if number > MAX_COMPLEXITY}
    assert not complex, f"split what branches more than {MAX_COMPLEXITY} times: {complex}"


def test_every_module_of_the_compiler_has_a_test_file() -> None:
    source, tests = PROJECT / "src/ingot/compiler", PROJECT / "tests/compiler"
    modules = {
        path.relative_to(source) for path in source.rglob("*.py") if path.name != "__init__.py"
    }
    assert len(modules) > 100
    within = {Path(module): name for name, those in TESTED_WITHIN.items() for module in those}
    assert within.keys() <= modules, "TESTED_WITHIN names modules that are gone"
    expected = {
        str(module): within.get(module, f"{module.parent}/test_{module.name}") for module in modules
    }
    missing = {module: name for module, name in expected.items() if not (tests / name).exists()}
    assert not missing, f"write tests of these modules: {missing}"


def test_branches_of_c_functions_are_counted() -> None:
    text = """
/* if (this) */
static int first(int x) {
    for (int i = 0; i < x; i++)
        if (i > 3) /* while */
            return puts("case");
    return 0;
}

int second(void) {
    return 1;
}
"""
    assert dict(c_functions(text)) == {"first": 3, "second": 1}
