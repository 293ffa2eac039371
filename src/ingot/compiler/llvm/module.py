"""The text of a module with one kernel, and the grain of its parallel loop."""

from __future__ import annotations

from ingot.compiler.forms.size import Number, largest
from ingot.compiler.llvm.code import Code
from ingot.tuning import MIN_THREAD_WORK

__all__ = [
    "ATTRIBUTES",
    "IN_VECTORS",
    "KERNEL_FUNCTION",
    "OUTLINED",
    "module_text",
    "work_grain",
]

# The first line of modules whose loops are written in vectors: they need fewer of LLVM's passes.
IN_VECTORS = "; in vectors"
# Kernels are not inlined into the functions that unpack their arguments: LLVM would optimise them
# a second time there.
ATTRIBUTES = 'nounwind "prefer-vector-width"="512" "no-trapping-math"="true"'
OUTLINED = f"attributes #1 = {{ noinline {ATTRIBUTES} }}"
KERNEL_FUNCTION = "define void @KERNEL("


def work_grain(code: Code, elements_per_part: Number) -> Number:
    """How many iterations of the parallel loop are enough work for a thread."""
    work = max(1, len(code.lines) + code.called) * largest((1, elements_per_part))
    return largest((1, MIN_THREAD_WORK // work))


def module_text(code: Code, alone: list[bool], in_vectors: bool = False) -> str:
    """The text of a module. `KERNEL` stands for the kernel's name, which is a digest of this text;
    `alone` tells for each operand whether it overlaps no other.
    """
    operands = len(alone)
    parameters = ", ".join(f"ptr{' noalias' * alone[i]} %a{i}" for i in range(operands))
    unpack = []
    for i in range(operands):
        unpack.append(f"  %p{i} = getelementptr inbounds ptr, ptr %arguments, i64 {i}")
        unpack.append(f"  %a{i} = load ptr, ptr %p{i}")
    passed = ", ".join(f"ptr %a{i}" for i in range(operands))
    comma = ", " if operands else ""
    return "\n".join(
        [
            *([IN_VECTORS] if in_vectors else []),
            *sorted(code.declarations.values()),
            f"define internal void @KERNEL_body({parameters}{comma}i64 %begin, i64 %end) #1 {{",
            "entry:",
            *code.lines,
            "  ret void",
            "}",
            f"{KERNEL_FUNCTION}ptr %arguments, i64 %begin, i64 %end, i32 %thread) #0 {{",
            *unpack,
            f"  call void @KERNEL_body({passed}{comma}i64 %begin, i64 %end)",
            "  ret void",
            "}",
            f"attributes #0 = {{ {ATTRIBUTES} }}",
            OUTLINED,
            *code.metadata,
        ]
    )
