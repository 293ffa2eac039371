"""Which bits results have: settings for the whole process.

In: what users and the environment say. Out: what the compiler and evaluation ask.
"""

from __future__ import annotations

import os
from collections.abc import Hashable

from ingot import _native
from ingot.runtime.compile_mode import assume_usual_settings

__all__ = [
    "excess_precision",
    "numerics_key",
    "product_engine",
    "set_excess_precision",
    "set_product_engine",
]

_ON = ("1", "on", "true", "yes")


def _from_environment(variable: str) -> bool:
    return os.environ.get(variable, "").lower() in _ON


def excess_precision() -> bool:
    """Whether fused ops of half types hand each other float32."""
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
    """What computes products of matrices: "ingot" or "blas"."""
    return _product_engine


def set_product_engine(name: str) -> None:
    """Choose what computes products of matrices.

    Args:
        name: "ingot", the default: loop nests of its own, into which what follows is fused, and
            BLAS where that is faster. "blas": NumPy's BLAS library wherever it can, for comparison.
    """
    global _product_engine
    if name not in _ENGINES:
        raise ValueError(f'[set_product_engine] name must be "ingot" or "blas", got {name!r}.')
    _product_engine = name
    _tell()


def numerics_key() -> Hashable:
    """What programs depend on: part of their keys."""
    return _excess_precision, _product_engine


def _tell() -> None:
    _native.forget_programs()
    assume_usual_settings(not _excess_precision and _product_engine == "ingot")


_ENGINES = ("ingot", "blas")
_product_engine = "ingot"
_excess_precision = False
set_excess_precision(_from_environment("INGOT_EXCESS_PRECISION"))
