"""The tour's chapters on a single function: its source, its kernel, and how compile explains it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import ingot.core as mx
from ingot.cli.tour_programs import (
    call_differently,
    call_with_arrays,
    gelu,
    look_inside,
    scaled,
    scaled_by_array,
)
from ingot.cli.tour_screen import Screen

__all__ = [
    "explain_error",
    "explain_kernel",
    "explain_misses",
    "show_compiled",
    "show_function",
]

SHAPE = (64, 1024)


def show_function(screen: Screen, quick: bool) -> None:
    screen.say("A few lines of NumPy-like Python, as they are written for MLX:")
    screen.blank()
    screen.code(gelu)
    screen.lines("x = mx.linspace(-3, 3, 7)\nprint(gelu(x))")
    x = mx.linspace(-3, 3, 7)
    screen.output(str(gelu(x)))
    screen.blank()
    large = mx.zeros((1000, 1000))
    mx.eval(large)
    started = time.perf_counter()
    y = gelu(large)
    noted = time.perf_counter()
    mx.eval(y)
    computed = time.perf_counter()
    again = _milliseconds(lambda: mx.eval(gelu(large)))
    screen.say(
        "Arrays are lazy. For a million numbers, calling gelu takes "
        f"[bold]{1e6 * (noted - started):.0f} µs[/bold]: it only records the operations. "
        "Asking for the values computes them: "
        f"[bold]{1e3 * (computed - noted):.1f} ms[/bold] the first time, when LLVM is loaded and "
        f"machine code made or read from disk, and [bold]{again:.1f} ms[/bold] the second."
    )


def show_compiled(screen: Screen, quick: bool) -> None:
    x = mx.random.normal(SHAPE)
    mx.eval(x)
    compiled = mx.compile(gelu)
    screen.lines("compiled = mx.compile(gelu)\nmx.eval(compiled(x))  # the first call compiles")
    screen.blank()
    first = _milliseconds(lambda: mx.eval(compiled(x)))
    later = min(_milliseconds(lambda: mx.eval(compiled(x))) for _ in range(3 if quick else 200))
    difference = mx.max(mx.abs(compiled(x) - gelu(x))).item()
    rounding = np.finfo(np.float32).eps
    screen.say(
        f"The first call took [bold]{first:.0f} ms[/bold]: the function was traced, its graph "
        "fused, and machine code made by LLVM, inside this process; no C++ compiler was started. "
        "(What an earlier program made is read from disk instead.) Later calls take "
        f"[bold]{1000 * later:.0f} µs[/bold] for {SHAPE[0]} x {SHAPE[1]} numbers."
    )
    screen.say(
        f"The results are those of the plain function: they differ by at most {difference:.0e} "
        f"(float32 rounds to {rounding:.0e})."
    )


def explain_kernel(screen: Screen, quick: bool) -> None:
    x = mx.random.normal(SHAPE)
    report = mx.compile(gelu).explain(x)
    (kernel,) = report.work
    screen.lines("print(compiled.explain(x))  # here is the part about the kernel")
    screen.blank()
    screen.say(
        f"{len(kernel.steps)} operations became [bold]one kernel[/bold]: one loop that "
        "reads each number once, keeps intermediate values in registers, and writes each result."
    )
    screen.blank()
    screen.code(gelu)
    screen.lines(report.loops(kernel), "text")
    screen.blank()
    screen.say(
        f"Memory read and written: {report.bytes_before:,} bytes if each operation runs by itself, "
        f"[bold]{report.bytes_after:,}[/bold] in one loop, "
        f"{report.bytes_before / report.bytes_after:.1f} times less."
    )
    _show_vectors(screen, report.kernel_text(kernel, "assembly"))


def _show_vectors(screen: Screen, code: str) -> None:
    """Reports the vector width of the loop's instructions, where register names tell (x86)."""
    for register, bits in (("zmm", 512), ("ymm", 256), ("xmm", 128)):
        lines = [line.strip().expandtabs(1) for line in code.splitlines() if f"%{register}" in line]
        if lines:
            screen.say(
                f"In machine code, {len(lines)} instructions work on {bits} bits at a time, that "
                f"is {bits // 32} float32 numbers; for example"
            )
            fused = [line for line in lines if line.startswith("vfm")]
            screen.lines("\n".join((fused or lines)[:3]), "nasm")
            return


def explain_misses(screen: Screen, quick: bool) -> None:
    screen.say(
        "A compiled function is compiled again when shapes, dtypes or Python numbers change. It "
        "says so, and why:"
    )
    screen.blank()
    compiled = mx.compile(scaled)
    call_differently(compiled)
    screen.code(scaled)
    screen.lines("compiled = mx.compile(scaled)")
    screen.blank()
    screen.code(call_differently)
    screen.lines("print(compiled.cache_info())")
    screen.output(str(compiled.cache_info()))
    screen.blank()
    screen.say(
        "With [bold]shapeless=True[/bold], and with an array for the number, one trace serves all "
        "lengths: an entry for each, and one miss."
    )
    screen.blank()
    shapeless = mx.compile(scaled_by_array, shapeless=True)
    call_with_arrays(shapeless)
    screen.code(scaled_by_array)
    screen.lines("compiled = mx.compile(scaled_by_array, shapeless=True)")
    screen.blank()
    screen.code(call_with_arrays)
    screen.lines("print(compiled.cache_info())")
    screen.output(str(shapeless.cache_info()))


def explain_error(screen: Screen, quick: bool) -> None:
    screen.say(
        "While a function is traced, its arrays have no values. Asking for one raises an error "
        "that names it and suggests what to do:"
    )
    screen.blank()
    screen.code(look_inside)
    screen.lines("mx.compile(look_inside)(mx.array(5.0))")
    try:
        mx.compile(look_inside)(mx.array(5.0))
    except ValueError as error:
        # Leave out the folder that ingot is installed in.
        text = str(error).replace(str(Path(__file__).parent) + os.sep, "")
        screen.output(f"{type(error).__name__}: {text}", style="red")


def _milliseconds(function: Callable[[], None]) -> float:
    started = time.perf_counter()
    function()
    return 1000 * (time.perf_counter() - started)
