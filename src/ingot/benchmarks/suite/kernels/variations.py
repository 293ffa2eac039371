"""Odd sizes, other dtypes and views as inputs, so that nothing is tuned to one shape.

Of each group of variations the worst ratio against the best peer is reported.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ingot.benchmarks.benchmark import Benchmark, Contenders, Setup, enter
from ingot.benchmarks.suite.contenders import Input, compilers
from ingot.benchmarks.suite.functions import Function, gelu, layer_norm, polynomial, softmax
from ingot.benchmarks.suite.kernels.reductions import WITHIN, reducers

ODD = (1023, 4097)
SHAPES = ((1, 1), (1, 4097), (7, 7), (7, 1023), (1023, 7), (4097, 7), (4097, 1023), ODD)
SIZES = [Input(shape) for shape in SHAPES]
DTYPES = [Input(ODD, dtype) for dtype in ("float16", "bfloat16", "float64")]
LAYOUTS = [Input(ODD, layout=layout) for layout in ("transposed", "strided")]
INTEGERS = [Input(ODD, "int32"), Input((7, 1023), "int32")]


def _compiled(function: Function, of: Input) -> dict[str, Setup]:
    return compilers(function, of, "jax jit", "torch compile")


def _reduced(name: str, axis: int, of: Input) -> dict[str, Setup]:
    return reducers(name, axis, of)


def _allowed(make: Callable[[Input], dict[str, Setup]], of: Input) -> Contenders:
    """The contenders that have the dtype."""
    contenders = make(of)
    if of.dtype == "float64":
        contenders.pop("jax jit")  # would compute in float32, as it does by default
    if of.dtype in ("float16", "bfloat16"):
        contenders.pop("numpy", None)  # has no vector instructions for them, or no such dtype
    return contenders


def _enter(
    name: str,
    title: str,
    make: Callable[[Input], dict[str, Setup]],
    inputs: list[Input],
    target: float,
    group: str,
) -> None:
    for of in inputs:
        shape = "x".join(map(str, of.shape))
        words = [name, shape, *([] if of.dtype == "float32" else [of.dtype])]
        told = [title, shape.replace("x", " x "), of.dtype]
        if of.layout != "contiguous":
            words.append(of.layout)
            told.append(of.layout)
        contenders = partial(_allowed, make, of)
        targets = {peer: target for peer in contenders() if peer != "ingot"}
        enter(
            Benchmark("_".join(words), ", ".join(told), contenders, __name__, targets, group=group)
        )


ROWWISE = "odd sizes, dtypes and layouts of gelu, softmax and layer norm"
REDUCTIONS = "odd sizes, dtypes and layouts of reductions"

for _function in (gelu, softmax, layer_norm):
    _enter(
        f"odd_{_function.__name__}",
        _function.__name__.replace("_", " "),
        partial(_compiled, _function),
        SIZES + DTYPES + LAYOUTS,
        1.0,
        ROWWISE,
    )
_enter("odd_polynomial", "polynomial", partial(_compiled, polynomial), INTEGERS, 1.0, ROWWISE)
for _name in ("sum", "max"):
    for _axis, _over in ((1, "rows"), (0, "columns")):
        _enter(
            f"odd_{_name}_{_over}",
            f"{_name} over {_over}",
            partial(_reduced, _name, _axis),
            SIZES + DTYPES + LAYOUTS + INTEGERS if _name == "sum" else SIZES[3:] + INTEGERS,
            WITHIN["torch"],
            REDUCTIONS,
        )
