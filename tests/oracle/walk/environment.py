"""The names that the listed calls use, bound to one library: ingot's packages or MLX's."""

from __future__ import annotations

import importlib
import operator
from collections.abc import Callable
from typing import Any

import numpy as np


def environment(library: str) -> dict[str, Any]:
    """What the expressions name, with `library` ("ingot" or "mlx") behind them."""
    mx: Any = importlib.import_module(f"{library}.core")
    nn: Any = importlib.import_module(f"{library}.nn")
    optimizers: Any = importlib.import_module(f"{library}.optimizers")
    utils: Any = importlib.import_module(f"{library}.utils")
    floats = mx.array([[0.5, -1.5, 2.5], [1.0, 2.0, 3.0]])
    square = mx.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.25], [0.5, 0.25, 2.0]])

    def quantized(*shape: int, mode: str = "affine") -> tuple[Any, ...]:
        options = {"group_size": 32, "bits": 4} if mode == "affine" else {}
        return mx.quantize(mx.ones((*shape, 64, 64)), mode=mode, **options)

    def gated() -> tuple[Any, ...]:
        q = mx.ones((1, 3, 2, 32))
        return q, q, q, mx.ones((1, 3, 2)), mx.ones((1, 3, 2))

    def _double(x: Any) -> Any:
        return x * 2

    def _total(*arguments: Any) -> Any:
        return mx.array(arguments[-1]).sum() if arguments else mx.array(0.0)

    def ones(results: Any) -> list[Any]:
        results = results if isinstance(results, (list, tuple)) else [results]
        return [mx.ones_like(result) for result in results]

    def parameters() -> dict[str, Any]:
        return {"weight": mx.ones((3, 3)), "bias": mx.ones((3,))}

    return {
        "mx": mx,
        "nn": nn,
        "np": np,
        "optimizers": optimizers,
        "utils": utils,
        "operator": operator,
        "floats": floats,
        "square": square,
        "vector": mx.array([0.5, 1.5, 2.5, 3.5]),
        "integers": mx.array([1, 2, 3]),
        "indices": mx.array([0, 1]),
        "stack": mx.ones((2, 3, 3)),
        "wide": mx.ones((64, 64)),
        "heads": mx.ones((1, 2, 4, 8)),
        "tokens": mx.ones((1, 3, 4)),
        "_ones": ones,
        "_first": lambda value: value[0] if isinstance(value, (list, tuple)) else value,
        "_double": _double,
        "_total": _total,
        "_added": lambda a, b: a + b,
        "_second": lambda path, leaf: leaf,
        "_take_two": lambda name, module: None,
        "_is_array": lambda module, name, value: isinstance(value, mx.array),
        "_is_list": lambda value: isinstance(value, list),
        "_rate": lambda step: mx.array(0.1),
        "_key": lambda: mx.random.key(1),
        "_fresh": lambda: floats + 0,
        "_fresh_square": lambda: square + 0,
        "_quantized": quantized,
        "_quantized_stack": lambda: quantized(2),
        "_nvfp4": lambda: quantized(mode="nvfp4"),
        "_nvfp4_stack": lambda: quantized(2, mode="nvfp4"),
        "_gated": gated,
        "_model": lambda: nn.Linear(3, 3),
        "_parameters": parameters,
        "_gradients": parameters,
    }


def settings(mx: Any) -> Callable[[], None]:
    """A function that restores the settings of a library as they are now."""
    stream, device = mx.default_stream(mx.cpu), mx.cpu
    limits = [(one, one(2**34)) for one in (mx.set_memory_limit, mx.set_cache_limit)]

    def restore() -> None:
        mx.set_default_device(device)
        mx.set_default_stream(stream)
        for set_limit, limit in limits:
            set_limit(limit)

    restore()
    return restore
