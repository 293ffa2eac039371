"""Products of complex matrices, against NumPy in complex128."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
from tests.compiler.forms.nest.nest_runner import Memory, run_nest

import ingot.core as mx
from ingot.compiler.forms.size import hint_of
from ingot.compiler.lower.products.complex_parts import pack_parts, right_parts
from ingot.compiler.lower.products.operands import Matrices
from ingot.compiler.lower.products.panels import Panels
from ingot.compiler.lower.products.register_tile import TileShape
from ingot.graph.dtype import complex64
from ingot.transforms.control.body import built
from ingot.transforms.control.programs import program_of
from ingot.tuning_products import MIN_COMPLEX_ROWS

# rows, products in a sum, columns: edges of tiles, narrow results, sums in several blocks
SIZES = [(40, 50, 60), (33, 300, 77), (257, 129, 31), (2, 200, 150), (500, 40, 2), (90, 1, 700)]
SIZES += [(MIN_COMPLEX_ROWS - 1, 70, 90), (MIN_COMPLEX_ROWS, 70, 90)]
LAYOUTS: dict[str, Callable[[mx.array], mx.array]] = {
    "rows": lambda x: x,
    "columns": lambda x: mx.contiguous(x.swapaxes(-1, -2)).swapaxes(-1, -2),
    "strided": lambda x: mx.contiguous(mx.repeat(x, 3, axis=-1))[..., ::3],
    "reversed": lambda x: mx.contiguous(x[..., ::-1])[..., ::-1],
}


def numbers(*shape: int) -> np.ndarray:
    generator = np.random.default_rng(shape[-1])
    parts = generator.normal(size=(2, *shape))
    return (parts[0] + 1j * parts[1]).astype(np.complex64)


def require_close(found: mx.array, a: np.ndarray, b: np.ndarray) -> None:
    """Within the bound for sums that are rounded one product of parts after the other."""
    wanted = a.astype(np.complex128) @ b.astype(np.complex128)
    size = np.abs(a) @ np.abs(b)
    k = 2 * a.shape[-1]
    difference = np.abs(np.array(found) - wanted)
    assert found.shape == wanted.shape
    assert (difference <= 2 * size * 2.0**-24 * (min(k, 512) + k / 8 + 2)).all()


@pytest.mark.parametrize("layouts", list(itertools.product(LAYOUTS, repeat=2)))
@pytest.mark.parametrize("stack", [(), (3, 2)])
def test_all_layouts(layouts: tuple[str, str], stack: tuple[int, ...]) -> None:
    for m, k, n in SIZES if not stack else SIZES[:2]:
        a, b = numbers(*stack, m, k), numbers(*stack, k, n)
        left, right = (LAYOUTS[name](mx.array(x)) for name, x in zip(layouts, (a, b), strict=True))
        found = mx.compile(mx.matmul)(left, right)
        require_close(found, a, b)
        assert mx.array_equal(found, left @ right)


def test_lengths_that_vary() -> None:
    product = mx.compile(mx.matmul, shapeless=True)
    for m, k, n in (*SIZES, (1, 400, 300), (400, 300, 1), (3, 4, 5)):
        a, b = numbers(m, k), numbers(k, n)
        left, right = mx.array(a), mx.array(b)
        require_close(product(left, right), a, b)
        assert mx.array_equal(product(left, right), left @ right)
    for m in range(30, 36):
        a, b = numbers(m, 120), numbers(120, 110)
        require_close(mx.array(a) @ mx.array(b), a, b)


def _is_kernel(rows: int) -> bool:
    left, right = mx.array(numbers(rows, 70)), mx.array(numbers(70, 90))
    return all(work.kind == "kernel" for work in mx.compile(mx.matmul).explain(left, right).work)


def test_few_rows_are_left_to_blas() -> None:
    """Unless a loop packs the right operand once for all of its products."""
    assert [_is_kernel(MIN_COMPLEX_ROWS - 1), _is_kernel(MIN_COMPLEX_ROWS)] == [False, True]
    shapes = [((20, 128), complex64), ((128, 128), complex64)]
    body, _ = built(lambda x, y: [x @ y], shapes, "body")
    plan = program_of(body, 0, 1).executable.plan
    assert plan.nests.invariant == 1
    a, b = numbers(20, 128), numbers(128, 128) / 128
    repeated = mx.compile(lambda x, y: mx.fori_loop(0, 3, lambda _, z: z @ y, x))
    wanted = a.astype(np.complex128) @ np.linalg.matrix_power(b.astype(np.complex128), 3)
    found = np.array(repeated(mx.array(a), mx.array(b)))
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-6)


def test_what_follows_is_computed_from_the_product() -> None:
    a, b = numbers(60, 70), numbers(70, 80)
    found = mx.compile(lambda x, y: mx.abs((x @ y) * 2 + 1j))(mx.array(a), mx.array(b))
    wanted = np.abs(a.astype(np.complex128) @ b * 2 + 1j)
    np.testing.assert_allclose(np.array(found), wanted, rtol=1e-4, atol=1e-4)


def test_parts_of_special_values_stay_in_their_rows_and_columns() -> None:
    a, b = numbers(40, 50), numbers(50, 60)
    a[3, 7], b[9, 11] = complex(np.nan, 1), complex(1, np.nan)
    found = np.array(mx.array(a) @ mx.array(b))
    is_nan = np.zeros((40, 60), bool)
    is_nan[3] = is_nan[:, 11] = True
    np.testing.assert_array_equal(np.isnan(found), is_nan)


def test_panels_hold_each_number_as_a_matrix() -> None:
    tile, rows, columns = TileShape(4, 2, 8), 5, 11
    source = Matrices(None, complex64, (), rows, columns, (8 * columns, 8))
    panels = Panels(right_parts(source), tile, source.nbytes)
    nest = pack_parts(source, panels).nest
    symbols = {symbol: hint_of(symbol.size) for symbol in nest.symbols}
    memory = Memory(nest, 0, 0, symbols)
    run_nest(nest, memory.arrays, symbols)
    given, found = memory.arrays
    assert found.shape == (2, 2 * rows, tile.columns)
    side_by_side = np.concatenate(list(found), axis=1)[:, : 2 * columns]
    np.testing.assert_array_equal(side_by_side[::2], given)
    np.testing.assert_array_equal(side_by_side[1::2, ::2], -given[:, 1::2])
    np.testing.assert_array_equal(side_by_side[1::2, 1::2], given[:, ::2])


@pytest.mark.parametrize("bits", ["128", "256"])
def test_narrower_vectors(bits: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    environment = {**os.environ, "INGOT_VECTOR_BITS": bits, "PYTEST_XDIST_WORKER": ""}
    subprocess.run(
        [*command, f"{__file__}::test_lengths_that_vary", f"{__file__}::test_all_layouts"],
        env=environment,
        check=True,
        capture_output=True,
    )
