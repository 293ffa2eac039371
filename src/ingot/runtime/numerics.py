"""Process-wide settings that affect the bits of results.

Users and the environment set them; the compiler and evaluation read them.
"""

from __future__ import annotations

import os

from ingot import _native
from ingot.graph.numerics.activations import ACTIVATIONS, activations, choose_activations

__all__ = [
    "excess_precision",
    "numerics_key",
    "numerics_settings",
    "product_engine",
    "set_excess_precision",
    "set_product_engine",
    "set_quantized_activations",
]

_ON = ("1", "on", "true", "yes")


def _from_environment(variable: str) -> bool:
    return os.environ.get(variable, "").lower() in _ON


def excess_precision() -> bool:
    """Whether fused ops of half types pass float32 to each other."""
    return _excess_precision


def set_excess_precision(on: bool) -> None:
    """Choose whether fused ops of float16 and bfloat16 keep float32 between them.

    By default every op rounds its result to its dtype, so that programs give the same bits compiled
    and uncompiled. With excess precision, what is fused is rounded only where it is written to
    memory or cast: results are closer to those of float32 and depend on what was fused.

    Args:
        on: Whether to; it is off by default, unless INGOT_EXCESS_PRECISION is "1".
    """
    global _excess_precision
    _excess_precision = on
    _tell()


def product_engine() -> str:
    """The engine for matrix products: "ingot" or "blas"."""
    return _product_engine


def set_product_engine(name: str) -> None:
    """Choose the engine for matrix products.

    Args:
        name: "ingot", the default: loop nests of its own, into which what follows is fused, and
            BLAS where that is faster. "blas": NumPy's BLAS library wherever it can, for comparison.
    """
    global _product_engine
    if name not in _ENGINES:
        raise ValueError(f'[set_product_engine] name must be "ingot" or "blas", got {name!r}.')
    _product_engine = name
    _tell()


def set_quantized_activations(name: str) -> None:
    """Choose the precision of activations in products with quantised matrices.

    With "int8", rows are quantised to integers in blocks of 32 that share a scale, as in other
    engines for language models, if the matrix has mode affine and 1, 2, 4 or 8 bits. Products of
    one row are then limited by memory bandwidth alone, and those of many rows take about half the
    time. Elements are rounded to multiples of 1 / 127 of the largest in their block, which changes
    results by about 1 percent of their standard deviation. Blocks with elements that are not finite
    make results NaN.

    Args:
        name: "float32", the default: rows as they are; or "int8". The variable
            INGOT_QUANTIZED_ACTIVATIONS sets it at the start.
    """
    if name not in ACTIVATIONS:
        raise ValueError(
            f'[set_quantized_activations] name must be "float32" or "int8", got {name!r}.'
        )
    if name != activations():
        choose_activations(name)
        _tell()


def numerics_key() -> int:
    """A number for the settings that programs depend on: part of their keys."""
    key = int(bool(_excess_precision))
    for setting, choices in ((_product_engine, _ENGINES), (activations(), ACTIVATIONS)):
        key = key * len(choices) + choices.index(setting)
    return key


def numerics_settings() -> dict[str, str]:
    """The same settings by name, for reports."""
    return {
        "excess precision": str(_excess_precision),
        "product engine": _product_engine,
        "quantized activations": activations(),
    }


def _tell() -> None:
    _native.forget_programs()
    _native.set_settings_key(numerics_key())


_ENGINES = ("ingot", "blas")
_product_engine = "ingot"
_excess_precision = False
set_excess_precision(_from_environment("INGOT_EXCESS_PRECISION"))
set_quantized_activations(os.environ.get("INGOT_QUANTIZED_ACTIVATIONS", "float32"))
