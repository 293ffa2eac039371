"""mlx.core.fast: functions that layers call, and kernels for devices that are not there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from ingot.graph.boundary import check_functions as _check_functions
from ingot.ops.attention.attention import scaled_dot_product_attention
from ingot.ops.attention.fast import cross_entropy, layer_norm, rms_norm, rope
from ingot.ops.attention.gated_delta import gated_delta_update

__all__ = [
    "cross_entropy",
    "cuda_kernel",
    "gated_delta_update",
    "layer_norm",
    "metal_kernel",
    "precompiled_cuda_kernel",
    "rms_norm",
    "rope",
    "scaled_dot_product_attention",
]

_WAY_OUT = (
    "Write what it computes with array operations: mx.compile makes one native kernel of them."
)


def metal_kernel(
    name: str,
    input_names: Sequence[str],
    output_names: Sequence[str],
    source: str,
    header: str = "",
    ensure_row_contiguous: bool = True,
    atomic_outputs: bool = False,
    compile_options: object | None = None,
) -> Callable[..., NoReturn]:
    """A function that raises RuntimeError when it is called: there is no Metal here."""
    if not output_names:
        raise ValueError(f"[metal_kernel] {name!r} has no outputs: name at least one.")
    if compile_options is not None and not isinstance(compile_options, dict):
        raise ValueError(f"[metal_kernel] compile_options must be a dict, got {compile_options!r}.")

    def kernel(*args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(f"[metal_kernel] {name!r} cannot run: ingot runs on the CPU. {_WAY_OUT}")

    return kernel


def cuda_kernel(
    name: str,
    input_names: Sequence[str],
    output_names: Sequence[str],
    source: str,
    header: str = "",
    ensure_row_contiguous: bool = True,
    shared_memory: int = 0,
) -> NoReturn:
    """Raise RuntimeError: there is no CUDA here."""
    raise RuntimeError(f"[cuda_kernel] {name!r} cannot run: ingot runs on the CPU. {_WAY_OUT}")


def precompiled_cuda_kernel(*, name: str, **options: Any) -> NoReturn:
    """Raise RuntimeError: there is no CUDA here."""
    raise RuntimeError(
        f"[precompiled_cuda_kernel] {name!r} cannot run: ingot runs on the CPU. {_WAY_OUT}"
    )


_check_functions(globals(), __all__)
