"""Checks the math library on every float there is, and measures how fast it is.

    python tools/check_mathlib.py            # the speed of all functions, in ns per element
    python tools/check_mathlib.py exp sin    # all 2^32 floats, in seconds per function

Floats are compared with the library's own functions of doubles, which the tests compare with wider
types still. The comparison is generated code too: that is what makes 2^32 of them a matter of
seconds.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.compiler.kernel_runner import CompiledLoop, compile_function

from ingot.compiler.llvm import mathlib
from ingot.compiler.llvm.code import Code, Register
from ingot.compiler.llvm.emit import Element, LLVMKernel
from ingot.compiler.llvm.mathlib.number import Number, absolute, select
from ingot.graph.dtype import Dtype, float32, float64
from ingot.graph.kernel import WORDS

BINARY = ("arctan2", "power", "remainder")
UNARY = [name for name in WORDS if name not in BINARY and hasattr(mathlib, name)]
# Where functions are usually evaluated; else -4 to 4
INTERVALS = {
    "arccos": (-1.0, 1.0),
    "arccosh": (1.0, 20.0),
    "arcsin": (-1.0, 1.0),
    "arctanh": (-1.0, 1.0),
    "erfinv": (-1.0, 1.0),
    "exp": (-80.0, 80.0),
    "log": (0.1, 100.0),
    "log10": (0.1, 100.0),
    "log1p": (0.1, 100.0),
    "log2": (0.1, 100.0),
    "power": (0.1, 10.0),
    "remainder": (-50.0, 50.0),
    "rsqrt": (0.1, 100.0),
}


def error_loop(name: str) -> CompiledLoop:
    """From floats to the errors of the function, in units in the last place."""
    function: Callable[[Code, Register], Register] = getattr(mathlib, name)

    def body(kernel: LLVMKernel, values: list[Element]) -> Element:
        code = kernel.code
        x = Number(code, values[0].register)
        found = Number(code, function(code, x.register))
        expected = Number(code, function(code, x.double().register))
        exponent = (expected.bits() & (0x7FF << 52)).maximum((1023 - 126) << 52)
        spacing = (exponent - (23 << 52)).number()
        error = absolute(found.double() - expected) / spacing
        rounded = expected.single()
        same = found.equals(rounded) | (found.is_nan() & rounded.is_nan())
        finite = absolute(rounded) < np.inf
        special = select(same, x.constant(0.0), np.inf)
        return Element(select(finite, error.single(), special).register, float32)

    return CompiledLoop([float32], float32, body)


def check(name: str) -> None:
    """Prints the largest error over all floats."""
    loop = error_loop(name)
    started = time.perf_counter()
    step = 2**20
    bits = np.arange(step, dtype=np.uint32)
    errors = np.empty(step, np.float32)
    largest, at = -1.0, np.float32(0)
    for _ in range(2**32 // step):
        loop.run_into(errors, bits)
        worst = int(np.argmax(errors))
        if not errors[worst] <= largest:
            largest, at = errors[worst], bits.view(np.float32)[worst]
        bits += np.uint32(step)
    seconds = time.perf_counter() - started
    print(f"{name:9} {largest:.3f} ulp at {at!r} ({seconds:.0f} s)", flush=True)


def nanoseconds(name: str, dtype: Dtype) -> float:
    """The least time for an element, of arrays that fit into the second-level cache."""
    arity = 2 if name in BINARY else 1
    loop = compile_function(getattr(mathlib, name), dtype, arity)
    low, high = INTERVALS.get(name, (-4.0, 4.0))
    generator = np.random.default_rng(0)
    arrays = [generator.uniform(low, high, 16384).astype(dtype.numpy) for _ in range(arity)]
    out = np.empty_like(arrays[0])
    call = loop.prepared(out, *arrays)
    times = []
    for _ in range(500):
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return min(times) / out.size * 1e9


def main(names: list[str]) -> None:
    """Checks what is named, or measures everything."""
    for name in names:
        check(name)
    if not names:
        print("ns per element  float32  float64")
        for name in [*UNARY, *BINARY]:
            single, double = nanoseconds(name, float32), nanoseconds(name, float64)
            print(f"{name:14}  {single:7.2f}  {double:7.2f}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
