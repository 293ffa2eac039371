"""Names of `ingot.core` whose modules are imported when they are first used.

`import ingot.core` is much of the time that a short program takes, and most programs never solve a
linear system, read a file or convolve. A name below is put into the namespace, with its arguments
checked like those of all other functions, by the first access to it (`Provider`, the module's
`__getattr__`); from then on it is an attribute like any other. `dir(mx)` and `import *` list them.

The modules must not make arrays when they are imported, because the first use may be in a function
that is being traced. That is why `random`, whose state is an array, is not among them.
"""

from __future__ import annotations

import importlib
from typing import Any

from ingot.graph.boundary import checked
from ingot.graph.reporting.foreign import MissingNames

__all__ = ["ORIGINS", "SUBMODULES", "Provider"]

SUBMODULES = ("distributed", "fast", "fft", "linalg")

_MODULES = {
    "ingot.explain.dot": "export_to_dot",
    "ingot.ops.fft.windows": "bartlett blackman hamming hanning",
    "ingot.ops.index.unique": "unique",
    "ingot.ops.products.convolution": "conv1d conv2d conv3d conv_general conv_transpose1d "
    "conv_transpose2d conv_transpose3d convolve",
    "ingot.ops.products.einstein": "einsum einsum_path",
    "ingot.ops.products.gathered_products": "gather_mm",
    "ingot.ops.products.hadamard": "hadamard_transform",
    "ingot.ops.products.masked_products": "block_masked_mm segmented_mm",
    "ingot.ops.quantized.products": "gather_qmm gather_qqmm qqmm quantized_matmul",
    "ingot.ops.quantized.quantization": "dequantize from_fp8 quantize to_fp8",
    "ingot.ops.reduce.sorting": "argpartition argsort median partition searchsorted sort topk",
    "ingot.ops.shape.strided": "as_strided",
    "ingot.runtime.files.load_save": "load save save_gguf save_safetensors savez savez_compressed",
    "ingot.transforms.checkpoint": "checkpoint",
    "ingot.transforms.control": "cond fori_loop scan switch while_loop",
    "ingot.transforms.custom": "custom_function",
}

# The module of a name, and its name there.
ORIGINS = {name: (module, name) for module, names in _MODULES.items() for name in names.split()}
ORIGINS["matrix_norm"] = ("ingot.ops.reduce.norms", "norm")


class Provider(MissingNames):
    """The `__getattr__` of `ingot.core`."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        super().__init__(namespace["__name__"])
        self._namespace = namespace

    def provide(self, name: str) -> Any:
        """The value of a name, which is imported now; None if there is none."""
        if name in SUBMODULES:
            return importlib.import_module(f"{self.module}.{name}")
        if name not in ORIGINS:
            return None
        module, attribute = ORIGINS[name]
        value = checked(getattr(importlib.import_module(module), attribute), name, self.module)
        # Threads that meet here must get the same object.
        return self._namespace.setdefault(name, value)
