"""What it takes to extend the package: the files that a function, a reduction and a pass touch.

The package is copied, changed as a developer would change it, and used.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import ingot

PACKAGE = Path(ingot.__file__).parent

# An elementwise op with a math function that generated code does not have yet: three files.
CUBE_ROOT = {
    "graph/kernel.py": [
        (
            "    def expm1(self, x: Value) -> Value: ...\n",
            "    def expm1(self, x: Value) -> Value: ...\n"
            "    def cbrt(self, x: Value) -> Value: ...\n",
        )
    ],
    "compiler/llvm/mathlib/powers.py": [
        ("__all__ = [", '__all__ = ["cbrt", '),
        (
            "\n\ndef rsqrt(",
            '''

def cbrt(x: Number) -> Number:
    """The cube root: the power of the magnitude, and one step of Newton's method."""
    size = absolute(x)
    first = power(size, 0.0 * x + 1.0 / 3.0)
    better = first - (first * first * first - size) / (3.0 * first * first)
    return select(size > 0.0, select(x < 0.0, 0.0 - better, better), x)


def rsqrt(''',
        ),
    ],
    "ops/elementwise/powers.py": [
        ("__all__ = [", '__all__ = [\n    "cbrt",\n    '),
        (
            "\n\ndef square(",
            '''

class CubeRoot(Elementary):
    """The number whose third power an element is."""

    name = "cbrt"
    operands = "floating"
    accepts = FLOATING & ~COMPLEX
    approximate = FLOATING
    function = np.cbrt

    def partials(self, out: array, x: array) -> tuple[Partial]:
        return (lambda: 1 / (3 * out * out),)


_cbrt = lift(CubeRoot())


def cbrt(a: Any, /, *, stream: StreamLike = None) -> array:
    """Cube roots."""
    return _cbrt(a, stream)


def square(''',
        ),
    ],
}
USE_OF_CUBE_ROOT = """
import numpy as np
import ingot.core as mx

numbers = np.random.default_rng(0).normal(size=4000).astype(np.float32) * 100
x = mx.array(numbers)
np.testing.assert_allclose(mx.cbrt(x), np.cbrt(numbers), rtol=1e-6)
compiled = mx.compile(lambda x: mx.cbrt(x) + 1)
assert len(compiled.explain(x).kernels) == 1
np.testing.assert_allclose(compiled(x), np.cbrt(numbers) + 1, rtol=1e-5, atol=1e-6)
slope = mx.grad(lambda x: mx.cbrt(x).sum())(x)
np.testing.assert_allclose(slope, np.cbrt(numbers.astype(float)) ** -2 / 3, rtol=1e-5)
"""

# A reduction: one file.
PARITY = {
    "ops/reduce/reduction.py": [
        ('__all__ = ["all"', '__all__ = ["parity", "all"'),
        (
            "\n\ndef all(",
            '''

@dataclass(frozen=True)
class Parity(_Logical):
    """Whether an odd number of elements is nonzero."""

    axes: tuple[int, ...]
    identity = 0

    def evaluate(self, x: np.ndarray) -> np.ndarray:
        return np.logical_xor.reduce(x.astype(_bool, copy=False), self.axes, keepdims=True)

    def combine(self, k: Kernel, a: Value, b: Value) -> Value:
        return k.bitwise_xor(a, b)


def parity(
    a: array, /, axis: Axis = None, keepdims: bool = False, *, stream: StreamLike = None
) -> array:
    """Whether an odd number of elements along the given axes is nonzero."""
    return _logical("parity", Parity, a, axis, keepdims, stream)


def all(''',
        ),
    ],
}
USE_OF_PARITY = """
import numpy as np
import ingot.core as mx

numbers = np.random.default_rng(0).normal(size=(64, 999)).astype(np.float32)
expected = np.logical_xor.reduce(numbers > 0, 1)
x = mx.array(numbers)
np.testing.assert_array_equal(mx.parity(x > 0, axis=1), expected)
np.testing.assert_array_equal(mx.vmap(mx.parity)(x > 0), expected)
compiled = mx.compile(lambda x: mx.parity(x > 0, axis=1))
assert len(compiled.explain(x).kernels) == 1
np.testing.assert_array_equal(compiled(x), expected)
"""

# A pass: its module, and its line in the list of passes.
NOTHING = {
    "compiler/passes/nothing.py": [
        (
            "",
            """from ingot.compiler.forms.tape import Tape
from ingot.compiler.options import Options


def nothing(tape: Tape, options: Options) -> Tape:
    return tape
""",
        )
    ],
    "compiler/pipeline.py": [
        (
            "from ingot.compiler.passes.narrow import narrow\n",
            "from ingot.compiler.passes.narrow import narrow\n"
            "from ingot.compiler.passes.nothing import nothing\n",
        ),
        (
            '    Pass("expand", Tape',
            '    Pass("nothing", Tape, Tape, nothing, "simplify"),\n    Pass("expand", Tape',
        ),
    ],
}
USE_OF_NOTHING = """
import numpy as np
import ingot.core as mx

compiled = mx.compile(lambda x: mx.exp(x) + 1)
x = mx.array([0.0, 1.0])
np.testing.assert_allclose(compiled(x), np.exp(np.array(x)) + 1, rtol=1e-6)
stages = compiled.explain(x).stages
names = list(stages.seconds)
assert names[names.index("expand") - 1] == "nothing"
"""


@pytest.mark.parametrize(
    ("changes", "program"),
    [(CUBE_ROOT, USE_OF_CUBE_ROOT), (PARITY, USE_OF_PARITY), (NOTHING, USE_OF_NOTHING)],
    ids=["function", "reduction", "pass"],
)
def test_a_copy_with_the_change_works(
    changes: dict[str, list[tuple[str, str]]], program: str, tmp_path: Path
) -> None:
    copy = tmp_path / "ingot"
    shutil.copytree(PACKAGE, copy)  # with what is compiled already
    for name, replacements in changes.items():
        path = copy / name
        text = path.read_text() if path.exists() else ""
        for old, new in replacements:
            assert text.count(old) == 1 or not text, f"{name} has {text.count(old)} times {old!r}"
            text = text.replace(old, new)
        path.write_text(text)
    done = subprocess.run(
        [sys.executable, "-c", f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\n{program}"],
        cwd=tmp_path,
        env={**os.environ, "INGOT_CACHE": "off"},
        check=False,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert done.returncode == 0, done.stdout[-3000:]
