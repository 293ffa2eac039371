"""ingot.core: the public module, shaped like `mlx.core`. It re-exports; the logic lives below.

Modules that are imported with a star list public names in `__all__`, and only those; from the
others, `import name as name` tells type checkers that the name is public. Modules that few programs
need are imported on first use (`later`).
"""

import typing as _typing

from ingot import MLX_VERSION as __version__  # noqa: N811
from ingot.runtime.collection import objects_stay as _objects_stay

with _objects_stay():
    from ingot.core import cuda as cuda
    from ingot.core import metal as metal
    from ingot.core import random as random
    from ingot.core.array import array as array
    from ingot.core.array import attach_functions as _attach_functions
    from ingot.core.compilation import *
    from ingot.core.exporting import *
    from ingot.core.later import ORIGINS as _ORIGINS
    from ingot.core.later import SUBMODULES as _SUBMODULES
    from ingot.core.later import Provider as _Provider
    from ingot.core.namespace_info import __array_namespace_info__ as __array_namespace_info__
    from ingot.graph.arrays.construct import *
    from ingot.graph.arrays.dlpack import *
    from ingot.graph.arrays.printing import *
    from ingot.graph.arrays.type_queries import *
    from ingot.graph.boundary import check_functions as _check_functions
    from ingot.graph.device import *
    from ingot.graph.dtype import *
    from ingot.ops.dependencies import *
    from ingot.ops.elementwise.arithmetic import *
    from ingot.ops.elementwise.bitwise import *
    from ingot.ops.elementwise.casting import *
    from ingot.ops.elementwise.comparison import *
    from ingot.ops.elementwise.complex_numbers import *
    from ingot.ops.elementwise.exponential import *
    from ingot.ops.elementwise.extremes import *
    from ingot.ops.elementwise.powers import *
    from ingot.ops.elementwise.rounding import *
    from ingot.ops.elementwise.trigonometry import *
    from ingot.ops.index.along_axis import *
    from ingot.ops.index.indexing import *
    from ingot.ops.index.iteration import ArrayIterator as ArrayIterator
    from ingot.ops.index.nonzero import *
    from ingot.ops.index.subscript import *
    from ingot.ops.products.contraction import *
    from ingot.ops.reduce.extremes import *
    from ingot.ops.reduce.reduction import *
    from ingot.ops.reduce.scan import *
    from ingot.ops.reduce.statistics import *
    from ingot.ops.shape.creation import *
    from ingot.ops.shape.diagonals import *
    from ingot.ops.shape.joining import *
    from ingot.ops.shape.movement import *
    from ingot.ops.shape.padding import *
    from ingot.ops.shape.slicing import *
    from ingot.runtime.compile_mode import CompileMode as CompileMode
    from ingot.runtime.compile_mode import RecompilationWarning as RecompilationWarning
    from ingot.runtime.compile_mode import UndeclaredStateWarning as UndeclaredStateWarning
    from ingot.runtime.compile_mode import disable_compile as disable_compile
    from ingot.runtime.compile_mode import enable_compile as enable_compile
    from ingot.runtime.compile_mode import set_compile_mode as set_compile_mode
    from ingot.runtime.debug_nans import debug_nans as debug_nans
    from ingot.runtime.evaluate import *
    from ingot.runtime.memory import *
    from ingot.runtime.numerics import set_excess_precision as set_excess_precision
    from ingot.runtime.numerics import set_product_engine as set_product_engine
    from ingot.runtime.numerics import set_quantized_activations as set_quantized_activations
    from ingot.runtime.progress import set_compile_progress as set_compile_progress
    from ingot.runtime.threads import get_num_threads as get_num_threads
    from ingot.runtime.threads import set_num_threads as set_num_threads
    from ingot.transforms.grad import *
    from ingot.transforms.jvp import jvp as jvp
    from ingot.transforms.vjp import vjp as vjp
    from ingot.transforms.vmap import vmap as vmap

if _typing.TYPE_CHECKING:  # what `later` provides
    from ingot.core import distributed as distributed
    from ingot.core import fast as fast
    from ingot.core import fft as fft
    from ingot.core import linalg as linalg
    from ingot.explain.dot import export_to_dot as export_to_dot
    from ingot.ops.fft.windows import *
    from ingot.ops.index.unique import *
    from ingot.ops.products.convolution import *
    from ingot.ops.products.einstein import *
    from ingot.ops.products.gathered_products import gather_mm as gather_mm
    from ingot.ops.products.hadamard import *
    from ingot.ops.products.masked_products import *
    from ingot.ops.quantized.products import *
    from ingot.ops.quantized.quantization import *
    from ingot.ops.reduce.norms import norm as _norm
    from ingot.ops.reduce.sorting import *
    from ingot.ops.shape.strided import *
    from ingot.runtime.files.load_save import *
    from ingot.transforms.checkpoint import *
    from ingot.transforms.control import *
    from ingot.transforms.custom import *

    matrix_norm = _norm

_check_functions(globals(), [_name for _name in globals() if not _name.startswith("_")])
_attach_functions(globals())

_NAMES = sorted(
    {_name for _name in globals() if not _name.startswith("_")} | {*_ORIGINS, *_SUBMODULES}
)


def __dir__() -> list[str]:
    return sorted({*globals(), *_NAMES})


# Not defined in the usual way, because type checkers would take every name for valid.
globals().update(__all__=_NAMES, __getattr__=_Provider(globals()))
