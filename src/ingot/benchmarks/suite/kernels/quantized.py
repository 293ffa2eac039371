"""Products with a quantised matrix, of one row to many."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ingot.benchmarks.benchmark import Contenders, Setup, benchmark
from ingot.benchmarks.libraries import load
from ingot.benchmarks.suite.contenders import numbers

COLUMNS = 4096
MANY_COLUMNS = 32768  # a matrix that no cache holds
LENGTH = 4096


def _lazy(
    library: str, rows: int, columns: int, bits: int, dtype: str, activations: str = "float32"
) -> Callable[[], None]:
    mx = load(library)
    x, w = (
        mx.array(numbers((count, LENGTH), seed)).astype(getattr(mx, dtype))
        for seed, count in enumerate((rows, columns))
    )
    parts = mx.quantize(w, group_size=64, bits=bits)
    mx.eval(x, *parts)

    def call() -> None:
        if library == "ingot":
            mx.set_quantized_activations(activations)
        mx.eval(mx.quantized_matmul(x, *parts, group_size=64, bits=bits))

    return call


def _reading(columns: int, bits: int) -> Callable[[], Any]:
    """The sum of as many bytes as the matrix has, by all CPUs: what reading it takes."""
    mx = load("ingot")
    x = mx.array(numbers((columns * LENGTH * (bits + 1) // 64, 2)))  # a scale and a bias of 32 bits
    mx.eval(x)
    total = mx.compile(lambda x: x.sum())
    return lambda: mx.eval(total(x))


def _all(
    rows: int, columns: int = COLUMNS, bits: int = 4, dtype: str = "float32"
) -> dict[str, Setup]:
    return {
        "ingot": partial(_lazy, "ingot", rows, columns, bits, dtype),
        "mlx": partial(_lazy, "mlx", rows, columns, bits, dtype),
    }


@benchmark(
    "float32 (1, 4096) @ (4096, 32768) of 4 bits; reading it",
    targets={"mlx": 0.5, "ingot sum": 1.43},
)
def quantized_row() -> Contenders:
    return {**_all(1, MANY_COLUMNS), "ingot sum": partial(_reading, MANY_COLUMNS, 4)}


@benchmark(
    "(1, 4096) as int8 @ (4096, 32768) of 4 bits; as float32; reading it",
    targets={"ingot float32": 0.8, "ingot sum": 1.18},
)
def quantized_row_int8() -> Contenders:
    return {
        "ingot": partial(_lazy, "ingot", 1, MANY_COLUMNS, 4, "float32", "int8"),
        "ingot float32": partial(_lazy, "ingot", 1, MANY_COLUMNS, 4, "float32"),
        "ingot sum": partial(_reading, MANY_COLUMNS, 4),
    }


@benchmark("float32 (8, 4096) @ (4096, 4096) of 4 bits", targets={"mlx": 0.5})
def quantized_rows() -> Contenders:
    return _all(8)


@benchmark("bfloat16 (1, 4096) @ (4096, 4096) of 6 bits", targets={"mlx": 0.5})
def quantized_row_6_bits() -> Contenders:
    return _all(1, COLUMNS, 6, "bfloat16")


@benchmark("float32 (256, 4096) @ (4096, 4096) of 4 bits", targets={"mlx": 0.5})
def quantized_many_rows() -> Contenders:
    return _all(256)
