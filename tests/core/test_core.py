"""The public module: its names, and how long it takes to import."""

from __future__ import annotations

import subprocess
import sys

import mlx.core as mlx

import ingot
import ingot.core as mx

NAMES = """
    ArrayLike Device DeviceType Dtype DtypeCategory PrintOptions Stream StreamContext
    ThreadLocalStream array asarray async_eval bfloat16 bool_ can_cast clear_cache clear_streams
    complex64 complexfloating cpu cuda default_device default_stream device_count device_info eval
    finfo float16 float32 float64 floating from_dlpack generic get_active_memory get_cache_memory
    get_peak_memory get_printoptions gpu grad iinfo inexact int16 int32 int64 int8 integer
    is_available isdtype issubdtype jvp metal new_stream new_thread_local_stream
    new_thread_unsafe_stream number printoptions reset_peak_memory result_type set_cache_limit
    set_default_device set_default_stream set_memory_limit set_printoptions set_wired_limit
    signedinteger stream synchronize uint16 uint32 uint64 uint8 unsignedinteger value_and_grad vjp
    vmap
"""


def test_names() -> None:
    for name in NAMES.split():
        assert hasattr(mx, name), name
        assert hasattr(mlx, name), name


def test_version() -> None:
    assert mx.__version__ == ingot.MLX_VERSION


def test_no_internal_names_leak() -> None:
    """Everything public is MLX's, but for what MLX does not have: threads, compile, loops."""
    own = {"get_num_threads", "set_num_threads"}
    own |= {"CompileMode", "RecompilationWarning", "compilation", "set_compile_mode"}
    own |= {"UndeclaredStateWarning"}
    own |= {"eager_fusion_info", "set_deterministic", "set_eager_fusion", "set_excess_precision"}
    own |= {"set_product_engine", "set_quantized_activations"}
    own |= {"debug_nans", "set_compile_progress"}
    own |= {"cond", "fori_loop", "scan", "switch", "while_loop"}
    own |= {"argwhere", "nonzero"}
    modules = {"array", "attach_functions", "cuda", "exporting", "later", "metal"}
    modules |= {"namespace_info"}
    public = {name for name in vars(mx) if not name.startswith("_")}
    assert public - set(dir(mlx)) - own - modules == set()


def test_heavy_libraries_are_not_imported() -> None:
    code = "import sys, ingot.core; print(*sys.modules)"
    loaded = subprocess.check_output([sys.executable, "-c", code], text=True).split()
    for heavy in (
        "scipy",
        "llvmlite",
        "opt_einsum",
        "threadpoolctl",
        "rich",
        "socket",
        "difflib",
        "zipfile",
        "json",
        "pathlib",
        "logging",
        "hashlib",
        "ingot.compiler.llvm",
    ):
        assert heavy not in loaded
