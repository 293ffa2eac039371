"""Runs an expression of generated code on NumPy arrays, in a loop like those of real kernels."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count

import numpy as np

from ingot.compiler.llvm.code import Code, Register, literal
from ingot.compiler.llvm.emit import Element, LLVMKernel
from ingot.compiler.machine.jit import assembly, compile_object, load_object
from ingot.graph.dtype import Dtype

Expression = Callable[..., Register]
_names = count()


def loop_code(
    name: str,
    inputs: Sequence[Dtype],
    body: Callable[[LLVMKernel, list[Element]], Element],
) -> str:
    """The text of a module with `void name(ptr in..., ptr out, i64 n)`."""
    code = Code()
    kernel = LLVMKernel(code)
    size = Register("%n", "i64")
    vectorised = ('!"llvm.loop.vectorize.enable", i1 true',)
    with code.loop(literal("i64", 0), size, hints=vectorised) as loop:

        def address(pointer: str, dtype: Dtype) -> Register:
            index = code.binary("mul", loop.index, literal("i64", dtype.size))
            return code.offset(Register(pointer, "ptr"), index)

        values = [kernel.load(dtype, address(f"%in{i}", dtype)) for i, dtype in enumerate(inputs)]
        result = body(kernel, values)
        kernel.store(result, address("%out", result.dtype))
    pointers = "".join(f"ptr noalias %in{i}, " for i in range(len(inputs)))
    return "\n".join(
        [
            *sorted(code.declarations.values()),
            f"define void @{name}({pointers}ptr noalias %out, i64 %n) #0 {{",
            "entry:",
            *code.lines,
            "  ret void",
            "}",
            'attributes #0 = { nounwind "prefer-vector-width"="512" "no-trapping-math"="true" }',
            *code.metadata,
        ]
    )


class CompiledLoop:
    """A compiled expression: call it on arrays."""

    def __init__(
        self,
        inputs: Sequence[Dtype],
        output: Dtype,
        body: Callable[[LLVMKernel, list[Element]], Element],
    ) -> None:
        name = f"test_loop_{next(_names)}"
        self.code = loop_code(name, inputs, body)
        self.inputs = [dtype.numpy for dtype in inputs]
        self.output = output.numpy
        self._code = load_object(compile_object(self.code), name)
        arguments = [ctypes.c_void_p] * (len(inputs) + 1) + [ctypes.c_int64]
        self._function = ctypes.CFUNCTYPE(None, *arguments)(self._code.address)

    def prepared(self, out: np.ndarray, *arrays: np.ndarray) -> Callable[[], None]:
        """A call that fills `out`; arrays must be contiguous and of the right types, and live."""
        pointers = [array.ctypes.data for array in arrays]
        return partial(self._function, *pointers, out.ctypes.data, out.size)

    def run_into(self, out: np.ndarray, *arrays: np.ndarray) -> None:
        """Fills `out`; arrays must be contiguous and of the right types."""
        self.prepared(out, *arrays)()

    def __call__(self, *arrays: np.ndarray) -> np.ndarray:
        ready = [
            np.ascontiguousarray(array, dtype)
            for array, dtype in zip(arrays, self.inputs, strict=True)
        ]
        out = np.empty(ready[0].shape, self.output)
        self.run_into(out, *ready)
        return out

    def assembly(self) -> str:
        """Its machine code as text."""
        return assembly(self.code)


def compile_function(function: Expression, dtype: Dtype, arity: int = 1) -> CompiledLoop:
    """A loop that applies a function of registers, such as those of `mathlib`."""

    def body(kernel: LLVMKernel, values: list[Element]) -> Element:
        register = function(kernel.code, *(value.register for value in values))
        return Element(register, dtype)

    return CompiledLoop([dtype] * arity, dtype, body)


def compile_word(
    word: str, dtype: Dtype, output: Dtype | None = None, arity: int = 1
) -> CompiledLoop:
    """A loop that applies a word of the kernel vocabulary."""

    def body(kernel: LLVMKernel, values: list[Element]) -> Element:
        found: Element = getattr(kernel, word)(*values)
        return found

    return CompiledLoop([dtype] * arity, output or dtype, body)
