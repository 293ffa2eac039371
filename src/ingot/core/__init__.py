"""ingot.core: the public module, shaped like `mlx.core`. It re-exports; the logic lives below."""

from ingot import __version__
from ingot.compiler.function import RecompilationWarning, compile
from ingot.compiler.pipeline import (
    CompileMode,
    disable_compile,
    enable_compile,
    set_compile_mode,
)
from ingot.core import cuda, metal
from ingot.core.array import array, attach_functions
from ingot.graph.construct import ArrayLike, asarray
from ingot.graph.device import (
    Device,
    DeviceType,
    Stream,
    StreamContext,
    ThreadLocalStream,
    clear_streams,
    cpu,
    default_device,
    default_stream,
    device_count,
    device_info,
    gpu,
    is_available,
    new_stream,
    new_thread_local_stream,
    new_thread_unsafe_stream,
    set_default_device,
    set_default_stream,
    stream,
)
from ingot.graph.dlpack import from_dlpack
from ingot.graph.dtype import (
    Dtype,
    DtypeCategory,
    bfloat16,
    bool_,
    complex64,
    complexfloating,
    float16,
    float32,
    float64,
    floating,
    generic,
    inexact,
    int8,
    int16,
    int32,
    int64,
    integer,
    number,
    signedinteger,
    uint8,
    uint16,
    uint32,
    uint64,
    unsignedinteger,
)
from ingot.graph.printing import PrintOptions, get_printoptions, printoptions, set_printoptions
from ingot.graph.type_queries import *
from ingot.ops.arithmetic import *
from ingot.ops.bitwise import *
from ingot.ops.casting import *
from ingot.ops.comparison import *
from ingot.ops.complex_numbers import *
from ingot.ops.contraction import *
from ingot.ops.creation import *
from ingot.ops.dependencies import *
from ingot.ops.diagonals import *
from ingot.ops.einstein import *
from ingot.ops.exponential import *
from ingot.ops.extremes import *
from ingot.ops.indexing import *
from ingot.ops.joining import *
from ingot.ops.movement import *
from ingot.ops.padding import *
from ingot.ops.powers import *
from ingot.ops.reduction import *
from ingot.ops.rounding import *
from ingot.ops.scan import *
from ingot.ops.slicing import *
from ingot.ops.sorting import *
from ingot.ops.statistics import *
from ingot.ops.strided import *
from ingot.ops.subscript import *
from ingot.ops.trigonometry import *
from ingot.ops.windows import *
from ingot.runtime.evaluate import *
from ingot.runtime.memory import *
from ingot.runtime.threads import get_num_threads, set_num_threads
from ingot.transforms.custom import *
from ingot.transforms.grad import *
from ingot.transforms.jvp import jvp
from ingot.transforms.vjp import vjp
from ingot.transforms.vmap import vmap

attach_functions(globals())
