"""The public array type: attaches methods to the C extension's handle, by MLX's names."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import FunctionType
from typing import Any

from ingot._native import array
from ingot.graph.arrays import construct, conversion, dlpack, printing
from ingot.graph.boundary import at_boundary, check_function
from ingot.graph.errors import value_text
from ingot.graph.reporting.hints import ARRAY, add_hints
from ingot.ops.elementwise import complex_numbers
from ingot.ops.elementwise.arithmetic import positive
from ingot.ops.index import subscript
from ingot.ops.shape import movement

__all__ = ["array", "attach_functions"]

# Methods that are also functions of the module, under the same name.
SHARED = (
    "abs all any argmax argmin astype conj cos cummax cummin cumprod cumsum diag diagonal exp "
    "flatten log log10 log1p log2 logcumsumexp logsumexp max mean min moveaxis prod reciprocal "
    "round rsqrt sin split sqrt square squeeze std sum swapaxes var view"
).split()


def array_namespace(a: array, *, api_version: str | None = None) -> Any:
    """The namespace of array functions, as required by the array API standard."""
    if api_version is not None:
        raise ValueError(
            f"[array] there is no choice of the array API's version yet, got "
            f"{value_text(api_version)}."
        )
    return importlib.import_module("ingot.core")


OWN: dict[str, Any] = {
    "T": property(
        at_boundary(movement.transpose_method, "array.T"),
        doc="The array with its axes in reverse order.",
    ),
    "__array__": conversion.as_numpy,
    "__array_namespace__": array_namespace,
    "__bool__": conversion.as_bool,
    "__bytes__": conversion.as_bytes,
    "__complex__": conversion.as_complex,
    "__copy__": conversion.shallow_copy,
    "__deepcopy__": conversion.deep_copy,
    "__div__": array.__truediv__,
    "__dlpack__": check_function(dlpack.dlpack, "dlpack"),
    "__dlpack_device__": dlpack.dlpack_device,
    "__float__": conversion.as_float,
    "__format__": printing.format_array,
    "__index__": conversion.as_index,
    "__int__": conversion.as_int,
    "__len__": conversion.length,
    "__pos__": positive,
    "__rdiv__": array.__rtruediv__,
    "__reduce__": conversion.reduce,
    "__repr__": printing.text_of_array,
    "at": property(subscript.at, doc="For updates at indices: `x.at[i].add(y)`."),
    "imag": property(complex_numbers.imag, doc="The imaginary parts."),
    "item": conversion.item,
    "mT": property(
        at_boundary(movement.matrix_transpose, "array.mT"),
        doc="The array with its last two axes swapped.",
    ),
    "real": property(complex_numbers.real, doc="The real parts."),
    "reshape": movement.reshape_method,
    "tolist": conversion.tolist,
    "transpose": movement.transpose_method,
}

for _name, _method in OWN.items():
    _is_function = isinstance(_method, FunctionType)
    setattr(array, _name, at_boundary(_method, f"array.{_name}") if _is_function else _method)
array.__doc__ = construct.DESCRIPTION


def attach_functions(namespace: Mapping[str, Any]) -> None:
    """Attaches those functions of `namespace` that are methods of MLX's array."""
    missing = [name for name in SHARED if name not in namespace]
    if missing:
        raise ImportError(f"ingot.core lacks functions that array needs: {', '.join(missing)}.")
    for name in SHARED:
        setattr(array, name, namespace[name])
    add_hints(array, ARRAY)
