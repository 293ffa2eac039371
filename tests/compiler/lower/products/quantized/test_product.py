"""Products with quantised matrices as kernels: against float64, verified, and for every width of
vectors and number of threads.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tests.compiler.forms.nest.nest_runner import Memory, run_nest
from tests.support.processes import output_of

import ingot.core as mx
from ingot._native import forget_programs
from ingot.compiler.forms.affine import Symbol
from ingot.compiler.forms.nest.data import Nest
from ingot.compiler.forms.nest.interpret import interpret
from ingot.compiler.forms.nest.verify import verify
from ingot.compiler.llvm.nests import nest_module
from ingot.runtime.processor import processor_features

AFFINE = [("affine", group, bits) for group in (32, 64, 128) for bits in (1, 2, 3, 4, 5, 6, 8)]
FLOATS = [("mxfp4", 32, 4), ("mxfp8", 32, 8), ("nvfp4", 16, 4)]
# (columns, length, rows): one row and many, whole blocks of words and a rest, one column and odd
SHAPES = [(7, 256, 1), (16, 384, 3), (33, 640, 5), (1, 128, 1), (9, 1152, 16), (12, 128, 11)]

Scheme = tuple[str, int, int]


def options(scheme: Scheme) -> dict[str, Any]:
    return dict(zip(("mode", "group_size", "bits"), scheme, strict=True))


def matrix(scheme: Scheme, columns: int, length: int, dtype: Any = mx.float32) -> Any:
    mode, group_size, bits = scheme
    random = np.random.default_rng(columns + length)
    w = mx.array(random.normal(size=(columns, length)).astype(np.float32)).astype(dtype)
    return mx.quantize(w, group_size, bits, mode)


def rows_of(rows: int, length: int) -> np.ndarray:
    return np.random.default_rng(rows).normal(size=(rows, length)).astype(np.float32)


def expected(x: np.ndarray, parts: Any, scheme: Scheme) -> np.ndarray:
    numbers = np.array(mx.dequantize(*parts, **options(scheme), dtype=mx.float32))
    product: np.ndarray = x.astype(np.float64) @ numbers.astype(np.float64).T
    return product


def compiled(scheme: Scheme) -> Any:
    return mx.compile(lambda x, *parts: mx.quantized_matmul(x, *parts, **options(scheme)))


def kernels(scheme: Scheme, *arguments: mx.array) -> list[Any]:
    report = compiled(scheme).explain(*arguments)
    return [work.kernel for work in report.work if work.kernel is not None]


@pytest.mark.parametrize("scheme", AFFINE + FLOATS, ids=str)
def test_equals_float64(scheme: Scheme) -> None:
    for columns, length, rows in SHAPES:
        parts = matrix(scheme, columns, length)
        x = rows_of(rows, length)
        wanted = expected(x, parts, scheme)
        found = np.array(compiled(scheme)(mx.array(x), *parts))
        np.testing.assert_allclose(found, wanted, rtol=0, atol=2e-6 * np.sqrt(length) * 10)
        eager = mx.quantized_matmul(mx.array(x), *parts, **options(scheme))
        np.testing.assert_array_equal(np.array(eager), found)


DIGITS = [("affine", 64, 4), ("affine", 32, 8), ("affine", 128, 2), ("affine", 64, 1)]
LONG = [
    *[(7, 1024, 1), (3, 1152, 2), (16, 2048, 4), (5, 1088, 3), (6, 512, 1), (5, 576, 1)],
    *[(7, 1536, 1), (3, 1664, 2), (5, 1600, 3), (6, 2112, 1)],
]


@pytest.mark.parametrize("scheme", DIGITS, ids=str)
def test_long_rows_are_multiplied_in_digits_where_bytes_can_be(scheme: Scheme) -> None:
    has_dots = "avx512_vnni" in processor_features()
    for columns, length, rows in LONG:
        length = -(-length // scheme[1]) * scheme[1]
        in_pairs = "ssse3" in processor_features() and length >= 1536
        are_bytes = scheme[2] <= 4 and (has_dots or in_pairs)
        parts, x = matrix(scheme, columns, length), rows_of(rows, length)
        x[:, ::7] *= 100
        x[0, 32:64] = 0
        found = np.array(compiled(scheme)(mx.array(x), *parts))
        wanted = expected(x, parts, scheme)
        size = np.linalg.norm(wanted) / np.sqrt(wanted.size)
        np.testing.assert_allclose(found, wanted, rtol=0, atol=4e-6 * size)
        (ordering, product) = kernels(scheme, mx.array(x), *parts)
        assert (product.nest.buffers[0].name == "bytes") is are_bytes
        for number, kernel in enumerate((ordering, product)):
            check_nest(kernel.nest, number)


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16], ids=lambda dtype: dtype.name)
def test_long_rows_of_half_types(dtype: mx.Dtype) -> None:
    scheme = ("affine", 64, 4)
    parts = matrix(scheme, 9, 1152, dtype)
    x = mx.array(rows_of(2, 1152)).astype(dtype)
    found = compiled(scheme)(x, *parts)
    assert found.dtype == dtype
    wanted = expected(np.array(x.astype(mx.float32)), parts, scheme)
    step = 2.0**-10 if dtype == mx.float16 else 2.0**-8
    np.testing.assert_allclose(np.array(found.astype(mx.float32)), wanted, rtol=step, atol=1e-4)
    x[1, 70] = mx.inf
    found = np.array(compiled(scheme)(x, *parts).astype(mx.float32))
    assert np.isfinite(found[0]).all()
    assert not np.isfinite(found[1]).any()


@pytest.mark.parametrize("special", [np.inf, -np.inf, np.nan, 3e38])
def test_long_rows_that_are_not_finite(special: float) -> None:
    parts = matrix(("affine", 64, 4), 6, 1152)
    numbers = np.array(mx.dequantize(*parts, group_size=64, bits=4)).astype(np.float64)
    x = rows_of(3, 1152)
    x[1, 70] = special
    found = np.array(compiled(("affine", 64, 4))(mx.array(x), *parts))
    with np.errstate(invalid="ignore", over="ignore"):
        wanted = (x.astype(np.float64) @ numbers.T).astype(np.float32)
    assert np.isfinite(found[[0, 2]]).all()
    np.testing.assert_allclose(found[1], wanted[1], rtol=1e-5)


def test_bits_do_not_depend_on_products_before() -> None:
    scheme = ("affine", 64, 4)
    parts = matrix(scheme, 9, 1152)
    rows = {count: mx.array(rows_of(count, 1152)) for count in (1, 2, 3, 4, 5, 6)}

    def product(count: int) -> np.ndarray:
        return np.array(mx.quantized_matmul(rows[count], *parts, **options(scheme)))

    first = {count: product(count) for count in (4, 6, 1)}
    for count in rows:  # from the third on, their number is a symbol
        product(count)
    forget_programs()
    for count, bits in first.items():
        np.testing.assert_array_equal(product(count), bits)


@pytest.mark.parametrize("scheme", [("affine", 64, 4), ("affine", 128, 5)], ids=str)
def test_blocks_of_rows(scheme: Scheme) -> None:
    parts = matrix(scheme, 5, 2304)
    for rows in (19, 32):
        x = rows_of(rows, 2304)
        (_, product) = kernels(scheme, mx.array(x), *parts)
        (parts_of_rows, _) = product.nest.parallel[0].lengths
        assert isinstance(parts_of_rows, Symbol)
        assert parts_of_rows.size > 1
        found = np.array(compiled(scheme)(mx.array(x), *parts))
        np.testing.assert_allclose(found, expected(x, parts, scheme), rtol=0, atol=1e-3)


def test_the_number_of_rows_is_a_symbol() -> None:
    scheme = ("affine", 64, 4)
    parts = matrix(scheme, 6, 192)
    texts = set()
    for rows in range(5, 33):
        x = rows_of(rows, 192).reshape(1, rows, 192)
        found = kernels(scheme, mx.array(x), *parts)
        texts.update(nest_module(kernel.nest) for kernel in found)
        if rows == 9:
            for number, kernel in enumerate(found):
                check_nest(kernel.nest, number)
    assert len(texts) == 8  # for blocks of 5 to 8 rows a kernel that permutes them and a product


def test_shapeless() -> None:
    scheme = ("affine", 64, 4)
    parts = matrix(scheme, 6, 192)
    function = mx.compile(
        lambda x: mx.quantized_matmul(x * 2, *parts, **options(scheme)) + 1, shapeless=True
    )
    for rows in (1, 3, 5, 6, 9, 13, 17, 32, 33, 40):
        x = rows_of(rows, 192)
        np.testing.assert_allclose(
            np.array(function(mx.array(x))), expected(x * 2, parts, scheme) + 1, atol=1e-4
        )
    # one row; three; 5 to 32 in blocks; more, with unpacked panels
    made = [each for each in function.cache_info().compilations if each.seconds]
    assert len(made) == 4


@pytest.mark.parametrize("scheme", AFFINE + FLOATS, ids=str)
def test_nests_are_verified_and_interpreted(scheme: Scheme) -> None:
    for columns, length, rows in [(3, 384, 1), (2, 128, 2)]:
        parts = matrix(scheme, columns, length)
        found = kernels(scheme, mx.array(rows_of(rows, length)), *parts)
        assert len(found) == 2
        for number, kernel in enumerate(found):
            check_nest(kernel.nest, number)


def check_nest(nest: Nest, seed: int) -> None:
    verify(nest)
    symbols = {symbol: int(symbol.size or 0) for symbol in nest.symbols}
    one, other = (Memory(nest, seed, 200, symbols) for _ in range(2))
    interpret(nest, one.arrays, symbols)
    run_nest(nest, other.arrays, symbols, chunk=1)
    for a, b in zip(one.arrays, other.arrays, strict=True):
        wide = a.astype(np.float64)
        np.testing.assert_allclose(wide, b.astype(np.float64), rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16], ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("scheme", [("affine", 64, 4), ("affine", 32, 6), *FLOATS], ids=str)
def test_half_types(scheme: Scheme, dtype: Any) -> None:
    parts = matrix(scheme, 10, 256, dtype)
    x = mx.array(rows_of(2, 256)).astype(dtype)
    found = compiled(scheme)(x, *parts)
    assert found.dtype == dtype
    wanted = expected(np.array(x.astype(mx.float32)), parts, scheme)
    step = 2.0**-10 if dtype == mx.float16 else 2.0**-8  # one rounding, of the result
    np.testing.assert_allclose(np.array(found.astype(mx.float32)), wanted, rtol=step, atol=1e-4)


@pytest.mark.parametrize("rows", [1, 8, 64])
def test_every_code_of_fp8(rows: int) -> None:
    """Rows of a single 1 pick one code each."""
    codes = np.arange(256, dtype=np.uint8)
    is_nan = codes & 0x7F == 0x7F
    finite = np.where(is_nan, 0, codes).astype(np.uint8)
    wanted = finite.view(ml_dtypes.float8_e4m3fn).astype(np.float32)
    scales = mx.array(np.full((3, 8), 127, np.uint8))

    def product(x: np.ndarray, picked: np.ndarray) -> np.ndarray:
        words = mx.array(np.tile(picked.view(np.uint32), (3, 1)))
        return np.array(mx.quantized_matmul(mx.array(x), words, scales, **options(FLOATS[1])))

    ones = np.eye(256, dtype=np.float32)
    for first in range(0, 256, rows):
        some = slice(first, first + rows)
        for column in product(ones[some], finite).T:
            np.testing.assert_array_equal(column, wanted[some])
    assert np.isnan(product(ones[: min(rows, 8)], codes)).all()


def test_rows_with_strides_and_axes() -> None:
    scheme = ("affine", 64, 4)
    parts = matrix(scheme, 10, 128)
    x = rows_of(12, 128).reshape(2, 3, 2, 128).transpose(2, 0, 1, 3)
    for inputs in (mx.array(x[:, ::-1]), mx.array(x).transpose(1, 2, 0, 3)[:, ::2]):
        rows = np.array(inputs)
        found = np.array(compiled(scheme)(inputs, *parts))
        wanted = expected(rows.reshape(-1, 128), parts, scheme).reshape(*rows.shape[:-1], 10)
        np.testing.assert_allclose(found, wanted, atol=1e-4)
    vector = compiled(scheme)(mx.array(rows_of(1, 128)[0]), *parts)
    np.testing.assert_allclose(np.array(vector), expected(rows_of(1, 128), parts, scheme)[0], 1e-4)


@pytest.mark.parametrize("scheme", [("affine", 64, 4), ("affine", 32, 3), FLOATS[2]], ids=str)
def test_numbers_that_are_not_finite(scheme: Scheme) -> None:
    parts = matrix(scheme, 6, 256)
    numbers = np.array(mx.dequantize(*parts, **options(scheme), dtype=mx.float32))
    for special in (np.inf, -np.inf, np.nan):
        x = rows_of(2, 256)
        x[1, 70] = special
        found = np.array(compiled(scheme)(mx.array(x), *parts))
        assert np.isfinite(found[0]).all()
        is_clear = abs(numbers[:, 70]) > 1e-3  # not 0, which rounding may miss
        assert is_clear.sum() > 3
        np.testing.assert_array_equal(found[1][is_clear], special * numbers[is_clear, 70])


def test_bits_do_not_depend_on_threads() -> None:
    scheme = ("affine", 64, 4)
    parts = matrix(scheme, 1500, 1152)
    x = mx.array(rows_of(3, 1152))
    whole = np.array(compiled(scheme)(x, *parts))
    script = (
        "import sys, numpy as np, ingot.core as mx\n"
        "from tests.compiler.lower.products.quantized import test_product as here\n"
        f"scheme = {scheme}\n"
        "parts = here.matrix(scheme, 1500, 1152)\n"
        "found = here.compiled(scheme)(mx.array(here.rows_of(3, 1152)), *parts)\n"
        "sys.stdout.buffer.write(np.array(found).tobytes())\n"
    )
    for threads in ("1", "3"):
        found = output_of(script, INGOT_NUM_THREADS=threads)
        assert found == whole.tobytes()


def test_vectors_of_256_bits() -> None:
    script = (
        "import numpy as np\n"
        "from tests.compiler.lower.products.quantized import test_product as here\n"
        "from ingot.runtime.processor import vector_bytes\n"
        "assert vector_bytes() <= 32\n"
        "for scheme in here.AFFINE + here.FLOATS:\n"
        "    here.test_equals_float64(scheme)\n"
        "print('done')\n"
    )
    assert output_of(script, INGOT_VECTOR_BITS="256") == b"done\n"


@pytest.mark.parametrize("is_compiled", [True, False])
def test_rows_that_are_not_finite_in_programs_for_all_numbers_of_rows(is_compiled: bool) -> None:
    """A program for any number of rows recomputes them as float32, like one for a few."""
    generator = np.random.default_rng(9)
    weights = mx.quantize(mx.array(generator.standard_normal((64, 1024)).astype(np.float32)))

    def product(x: mx.array) -> mx.array:
        return mx.quantized_matmul(x, *weights)

    function = mx.compile(product, shapeless=True) if is_compiled else product
    dequantized = np.array(mx.dequantize(*weights), np.float64)
    for rows in (1, 2, 3, 4):
        mx.eval(function(mx.array(generator.standard_normal((rows, 1024)).astype(np.float32))))
    for rows in (4, 3, 2, 1):
        x = generator.standard_normal((rows, 1024)).astype(np.float32)
        x[0] = np.where(generator.uniform(size=1024) < 0.5, -3e36, 3e36)
        x[-1, :5] = 0
        x[-1, 7] = np.inf
        found = np.array(function(mx.array(x)), np.float64)
        with np.errstate(invalid="ignore"):
            expected = x.astype(np.float64) @ dequantized.T
        finite = np.isfinite(expected)
        assert np.array_equal(np.isnan(found), np.isnan(expected)), rows
        scale = np.abs(np.nan_to_num(x.astype(np.float64))).max() * 1e-4 * 1024
        np.testing.assert_allclose(found[finite], expected[finite], rtol=1e-4, atol=scale)
