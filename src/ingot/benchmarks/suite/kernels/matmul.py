"""Products of matrices of several dtypes, sizes and layouts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ingot.benchmarks.benchmark import Contenders, Setup, benchmark
from ingot.benchmarks.libraries import load

Shape = tuple[int, ...]
Transposed = str  # which operands are: "", "left", "right"


def _numbers(shape: Shape, seed: int) -> Any:
    np = load("numpy")
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def _product(left: Any, right: Any, transposed: Transposed) -> Any:
    if transposed == "left":
        left = left.swapaxes(-1, -2)
    elif transposed == "right":
        right = right.swapaxes(-1, -2)
    return left @ right


def _lazy(
    library: str, a: Shape, b: Shape, dtype: str, transposed: Transposed
) -> Callable[[], None]:
    mx = load(library)
    left, right = (
        mx.array(_numbers(s, i)).astype(getattr(mx, dtype)) for i, s in enumerate((a, b))
    )
    mx.eval(left, right)
    return lambda: mx.eval(_product(left, right, transposed))


def _numpy(a: Shape, b: Shape, dtype: str, transposed: Transposed) -> Callable[[], Any]:
    left, right = _numbers(a, 0).astype(dtype), _numbers(b, 1).astype(dtype)
    return lambda: _product(left, right, transposed)


def _jax(a: Shape, b: Shape, dtype: str, transposed: Transposed) -> Callable[[], Any]:
    jnp = load("jax").numpy
    left, right = (jnp.asarray(_numbers(s, i), dtype) for i, s in enumerate((a, b)))
    return lambda: _product(left, right, transposed).block_until_ready()


def _torch(a: Shape, b: Shape, dtype: str, transposed: Transposed) -> Callable[[], Any]:
    torch = load("torch")
    left, right = (
        torch.from_numpy(_numbers(s, i)).to(getattr(torch, dtype)) for i, s in enumerate((a, b))
    )
    return lambda: _product(left, right, transposed)


def _all(
    a: Shape, b: Shape, dtype: str = "float32", transposed: Transposed = ""
) -> dict[str, Setup]:
    return {
        "ingot": partial(_lazy, "ingot", a, b, dtype, transposed),
        "mlx": partial(_lazy, "mlx", a, b, dtype, transposed),
        "numpy": partial(_numpy, a, b, dtype, transposed),
        "jax": partial(_jax, a, b, dtype, transposed),
        "torch": partial(_torch, a, b, dtype, transposed),
    }


SQUARE = (1024, 1024)


@benchmark("float32 (1024, 1024) @ (1024, 1024)", targets={"numpy": 1.15})
def matmul_float32() -> Contenders:
    return _all(SQUARE, SQUARE)


@benchmark("float32 (1024, 1024) @ the same transposed", targets={"numpy": 1.15})
def matmul_transposed() -> Contenders:
    return _all(SQUARE, SQUARE, transposed="right")


@benchmark("float32 (256, 784) transposed @ (256, 512)", targets={"numpy": 0.95})
def matmul_left_transposed() -> Contenders:
    return _all((256, 784), (256, 512), transposed="left")


@benchmark("float32 (1021, 509) @ (509, 257): no length is round", targets={"numpy": 1.15})
def matmul_odd() -> Contenders:
    return _all((1021, 509), (509, 257))


@benchmark("float32 (17, 31) @ (31, 13): small and odd")
def matmul_small() -> Contenders:
    return _all((17, 31), (31, 13))


@benchmark("float32 (64, 127, 65) @ (64, 65, 33): a stack", targets={"numpy": 1.15})
def matmul_stack() -> Contenders:
    return _all((64, 127, 65), (64, 65, 33))


@benchmark("float32 (64, 198, 256) @ (64, 256, 81): a stack, odd", targets={"numpy": 0.9})
def matmul_stack_odd() -> Contenders:
    return _all((64, 198, 256), (64, 256, 81))


@benchmark("float32 (10000, 4, 4) @ (10000, 4, 4): many tiny ones", targets={"numpy": 1.15})
def matmul_tiny_stack() -> Contenders:
    return _all((10000, 4, 4), (10000, 4, 4))


@benchmark("float32 (1000, 500) @ (500, 3): few columns", targets={"numpy": 1.15})
def matmul_few_columns() -> Contenders:
    return _all((1000, 500), (500, 3))


@benchmark("float32 (2048, 2048) @ (2048)", targets={"numpy": 1.15})
def matmul_vector() -> Contenders:
    return _all((2048, 2048), (2048,))


@benchmark("float32 (1, 2048) @ (2048, 2048): one row", targets={"numpy": 1.0})
def matmul_row() -> Contenders:
    return _all((1, 2048), (2048, 2048))


@benchmark("bfloat16 (1, 4096) @ (4096, 4096): one row", targets={"torch": 0.9})
def matmul_bfloat16_row() -> Contenders:
    contenders = _all((1, 4096), (4096, 4096), "bfloat16")
    del contenders["numpy"]
    return contenders


@benchmark("bfloat16 (16, 1000) @ (1000, 1003): few rows, odd", targets={"torch": 0.9})
def matmul_bfloat16_rows() -> Contenders:
    contenders = _all((16, 1000), (1000, 1003), "bfloat16")
    del contenders["numpy"]
    return contenders


@benchmark("float32 (256, 32, 32) @ (256, 32, 32) transposed", targets={"numpy": 0.9})
def matmul_stack_transposed() -> Contenders:
    return _all((256, 32, 32), (256, 32, 32), transposed="right")


@benchmark("float32 (8, 100000) @ (100000, 8): few results of long sums", targets={"numpy": 0.9})
def matmul_long_sums() -> Contenders:
    return _all((8, 100_000), (100_000, 8))


@benchmark("float32 (16, 1024) @ (1024, 1024) transposed: few rows", targets={"numpy": 0.9})
def matmul_skinny() -> Contenders:
    return _all((16, 1024), SQUARE, transposed="right")


@benchmark("float32 (3, 1024) @ (1024, 1024): very few rows", targets={"numpy": 0.9})
def matmul_few_rows() -> Contenders:
    return _all((3, 1024), SQUARE)


@benchmark("bfloat16 (16, 1024) @ (1024, 1024) transposed: few rows", targets={"torch": 0.9})
def matmul_bfloat16_skinny() -> Contenders:
    contenders = _all((16, 1024), SQUARE, "bfloat16", transposed="right")
    del contenders["numpy"]
    return contenders


@benchmark("float32 (64, 1024) @ (4096, 1024) transposed", targets={"numpy": 0.9})
def matmul_weights() -> Contenders:
    return _all((64, 1024), (4096, 1024), transposed="right")


@benchmark("float32 (33, 1000) @ (1000, 1003): few rows, odd", targets={"numpy": 0.9})
def matmul_skinny_odd() -> Contenders:
    return _all((33, 1000), (1000, 1003))


@benchmark("float32 (256, 256) @ (256, 256)", targets={"numpy": 1.0})
def matmul_256() -> Contenders:
    return _all((256, 256), (256, 256))


@benchmark("float32 (777, 777) @ (777, 777)", targets={"numpy": 1.0})
def matmul_777() -> Contenders:
    return _all((777, 777), (777, 777))


@benchmark("float32 (512, 512) @ (512, 2048), bias, gelu, residual", targets={"ingot bare": 1.05})
def linear_gelu() -> Contenders:
    return _linear((512, 512), (2048, 512))


@benchmark("bfloat16 (1024, 1024) @ (1024, 1024)", targets={"ingot float32": 0.7})
def matmul_bfloat16() -> Contenders:
    return _half("bfloat16")


@benchmark("bfloat16 (777, 777) @ (777, 777): odd sums", targets={"torch": 1.0})
def matmul_bfloat16_odd() -> Contenders:
    contenders = _all((777, 777), (777, 777), "bfloat16")
    del contenders["numpy"]
    return contenders


@benchmark("complex64 (512, 512) @ (512, 512)", targets={"numpy": 1.0})
def matmul_complex64() -> Contenders:
    return _all((512, 512), (512, 512), "complex64")


@benchmark("complex64 (8, 512) @ (512, 512)", targets={"numpy": 1.1})
def matmul_complex64_rows() -> Contenders:
    return _all((8, 512), (512, 512), "complex64")


@benchmark("float16 (1024, 1024) @ (1024, 1024)", targets={"ingot float32": 3.0})
def matmul_float16() -> Contenders:
    return _half("float16")


def _half(dtype: str) -> Contenders:
    contenders = _all(SQUARE, SQUARE, dtype)
    del contenders["numpy"]  # it has no BLAS for half types and takes a minute
    float32 = partial(_lazy, "ingot", SQUARE, SQUARE, "float32", "")
    return {"ingot": contenders.pop("ingot"), "ingot float32": float32, **contenders}


def _linear(a: Shape, b: Shape) -> Contenders:
    """A linear layer with what follows it, against the bare product."""

    def prepared(library: str, is_bare: bool) -> Callable[[], None]:
        mx = load(library)
        erf = mx.erf
        x, w, c, r = (
            mx.array(_numbers(shape, seed))
            for seed, shape in enumerate((a, b, b[:1], (a[0], b[0])))
        )

        def layer(x: Any, w: Any, c: Any, r: Any) -> Any:
            y = x @ w.T
            if is_bare:
                return y
            y = y + c
            return y * (1 + erf(y / 2**0.5)) / 2 + r

        compiled = mx.compile(layer)
        mx.eval(x, w, c, r)
        return lambda: mx.eval(compiled(x, w, c, r))

    def torch() -> Callable[[], Any]:
        library = load("torch")
        x, w, c, r = (
            library.from_numpy(_numbers(shape, seed))
            for seed, shape in enumerate((a, b, b[:1], (a[0], b[0])))
        )
        functional = library.nn.functional
        return lambda: functional.gelu(functional.linear(x, w, c)) + r

    def jax() -> Callable[[], Any]:
        library = load("jax")
        x, w, c, r = (
            library.numpy.asarray(_numbers(shape, seed))
            for seed, shape in enumerate((a, b, b[:1], (a[0], b[0])))
        )

        @library.jit  # type: ignore[untyped-decorator]
        def layer(x: Any, w: Any, c: Any, r: Any) -> Any:
            return library.nn.gelu(x @ w.T + c, approximate=False) + r

        return lambda: layer(x, w, c, r).block_until_ready()

    return {
        "ingot": partial(prepared, "ingot", False),
        "ingot bare": partial(prepared, "ingot", True),
        "mlx": partial(prepared, "mlx", False),
        "jax": jax,
        "torch": torch,
    }
