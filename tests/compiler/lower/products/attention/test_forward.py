"""Attention as a loop nest against NumPy in float64: options, lengths, layouts, dtypes, threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.support.attention_reference import (
    CASES,
    LENGTHS,
    Case,
    expected,
    options_of,
    random_case,
)
from tests.support.campaigns import combinations
from tests.support.processes import require_passing

import ingot.core as mx


def attend(case: Case, **options: Any) -> Callable[..., mx.array]:
    def function(q: mx.array, k: mx.array, v: mx.array, *extras: mx.array) -> mx.array:
        given = options_of(case, extras)
        return mx.fast.scaled_dot_product_attention(
            q, k, v, scale=case.scale, force_fused=True, **given, **options
        )

    return function


USUAL = ("plain", "sinks, causal")  # kinds for which all lengths are tried


def arrays_of(case: Case) -> list[mx.array]:
    return [mx.array(x) for x in case.arrays]


@pytest.mark.parametrize(
    ("lengths", "kind"),
    combinations(LENGTHS, CASES, lambda n, kind: n == LENGTHS[1] or kind in USUAL),
)
def test_values(lengths: tuple[int, ...], kind: str) -> None:
    case = random_case(kind, *lengths)
    compiled = mx.compile(attend(case))
    found = np.array(compiled(*arrays_of(case)))
    np.testing.assert_allclose(found, expected(case), rtol=2e-5, atol=3e-6)


def test_no_host_step_and_no_scores_in_memory() -> None:
    case = random_case("causal", 1, 4, 4, 1024, 1024, 16, 16)
    made = mx.compile(attend(case)).explain(*arrays_of(case)).to_dict()["native"]
    assert made["host_steps"] == []
    assert made["kernels"] == 1
    compiled = mx.compile(attend(case))
    inputs = arrays_of(case)
    mx.eval(compiled(*inputs))
    mx.clear_cache()
    mx.reset_peak_memory()
    before = mx.get_active_memory()
    mx.eval(compiled(*inputs))
    assert mx.get_peak_memory() - before < 1 << 20  # the scores would have 16 MB


@pytest.mark.parametrize("kind", ["plain", "causal", "boolean"])
def test_heads_behind_positions(kind: str) -> None:
    """Queries, keys and values as projections leave them, (B, T, H, D), and with strides."""
    case = random_case(kind, 2, 4, 4, 50, 50, 16, 16)

    def function(q: mx.array, k: mx.array, v: mx.array, *extras: mx.array) -> mx.array:
        q, k, v = (x.swapaxes(1, 2) for x in (q, k, v))
        return attend(case)(q, k, v[..., ::-1], *extras)

    swapped = [mx.array(np.ascontiguousarray(x.swapaxes(1, 2))) for x in case.arrays[:3]]
    found = np.array(mx.compile(function)(*swapped, *arrays_of(case)[3:]))
    np.testing.assert_allclose(found, expected(case)[..., ::-1], rtol=2e-5, atol=3e-6)


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16])
@pytest.mark.parametrize("kind", ["causal", "additive", "sinks"])
def test_half_precision_is_computed_in_float32(dtype: mx.Dtype, kind: str) -> None:
    case = random_case(kind, 1, 4, 2, 37, 70, 16, 24)
    halves = [x.astype(dtype) if x.dtype == mx.float32 else x for x in arrays_of(case)]
    rounded = case._replace(arrays=[np.array(x.astype(mx.float32)) for x in halves])
    found = mx.compile(attend(case))(*halves)
    assert found.dtype == dtype
    steps = 2**-11 if dtype == mx.float16 else 2**-8  # half a unit in the last place
    wanted = expected(rounded)
    error = np.abs(np.array(found.astype(mx.float32)) - wanted)
    assert (error <= 1.01 * steps * np.abs(wanted) + 1e-5).all()


def test_features_that_are_not_contiguous() -> None:
    case = random_case("plain", 1, 2, 2, 20, 30, 24, 17)
    moved = [mx.array(np.ascontiguousarray(x.swapaxes(2, 3))) for x in case.arrays]
    compiled = mx.compile(lambda *inputs: attend(case)(*(x.swapaxes(2, 3) for x in inputs)))
    found = np.array(compiled(*moved))
    np.testing.assert_allclose(found, expected(case), rtol=2e-5, atol=3e-6)


def test_doubles() -> None:
    case = random_case("causal", 1, 2, 1, 37, 70, 16, 24)
    doubles = [mx.array(x, dtype=mx.float64) for x in case.arrays]
    found = np.array(mx.compile(attend(case))(*doubles))
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, expected(case), rtol=1e-12, atol=1e-13)


def test_infinities_and_nan() -> None:
    case = random_case("additive", 1, 1, 1, 40, 300, 8, 8)
    mask = case.arrays[3]
    mask[..., 0, :] = -np.inf  # a query that sees nothing
    mask[..., 1, :200] = -np.inf  # one that sees nothing in its first blocks
    mask[..., 2, 7] = np.nan
    mask[..., 3, 9] = np.inf
    found = np.array(mx.compile(attend(case))(*arrays_of(case)))
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(found, expected(case), rtol=2e-5, atol=3e-6)
    assert np.isnan(found[0, 0, [0, 2, 3]]).all()
    assert not np.isnan(found[0, 0, [1, *range(4, 40)]]).any()


@pytest.mark.parametrize("kind", ["plain", "causal"])
def test_same_bits_for_any_number_of_threads(kind: str) -> None:
    case = random_case(kind, 2, 4, 2, 77, 300, 32, 32)
    compiled, inputs = mx.compile(attend(case)), arrays_of(case)
    threads = mx.get_num_threads()
    results = []
    try:
        for count in (1, 2, 3):
            mx.set_num_threads(count)
            results.append(np.array(compiled(*inputs)))
    finally:
        mx.set_num_threads(threads)
    for other in results[1:]:
        np.testing.assert_array_equal(results[0], other)


def test_a_query_has_the_same_bits_wherever_it_is() -> None:
    case = random_case("plain", 1, 2, 2, 77, 300, 32, 32)
    q, k, v = arrays_of(case)
    compiled = mx.compile(attend(case))
    whole = np.array(compiled(q, k, v))
    np.testing.assert_array_equal(np.array(compiled(q[:, :, 30:70], k, v)), whole[:, :, 30:70])


@pytest.mark.parametrize("bits", ["128", "256"])
def test_narrower_vectors(bits: str) -> None:
    """The same tests of values where vectors have fewer lanes."""
    chosen = [f"{__file__}::test_values[{LENGTHS[2]}-{kind}]" for kind in USUAL]
    require_passing(chosen, INGOT_VECTOR_BITS=bits)
