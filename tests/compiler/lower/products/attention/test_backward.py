"""The gradients of attention as loop nests: against NumPy in float64, MLX, and each other with all
numbers of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import mlx.core
import numpy as np
import pytest
from tests.support.attention_reference import (
    CASES,
    LENGTHS,
    Case,
    cotangents,
    options_of,
    random_case,
)
from tests.support.campaigns import combinations
from tests.support.processes import require_passing

import ingot.core as mx


def followed(case: Case) -> list[int]:
    """The inputs that have a gradient."""
    return [place for place, x in enumerate(case.arrays) if x.dtype == np.float32]


def gradients(case: Case, module: Any = mx, **options: Any) -> Callable[..., Any]:
    """A function of a cotangent and the inputs."""

    def function(cotangent: Any, *inputs: Any) -> Any:
        def attend(*varied: Any) -> Any:
            whole = list(inputs)
            for place, x in zip(followed(case), varied, strict=True):
                whole[place] = x
            return module.fast.scaled_dot_product_attention(
                *whole[:3], scale=case.scale, **options_of(case, whole[3:]), **options
            )

        return module.vjp(attend, [inputs[place] for place in followed(case)], [cotangent])[1]

    return function


def cotangent_of(case: Case) -> np.ndarray:
    shape = (*case.arrays[0].shape[:3], case.arrays[2].shape[3])
    return np.random.default_rng(7).normal(size=shape).astype(np.float32)


def check(found: Sequence[Any], wanted: Sequence[np.ndarray], tolerance: float = 1e-5) -> None:
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        scale = max(1.0, float(np.abs(other).max()))
        np.testing.assert_allclose(np.array(one), other, rtol=tolerance, atol=tolerance * scale)


@pytest.mark.parametrize(
    ("lengths", "kind"),
    combinations(LENGTHS, CASES, lambda n, kind: n == LENGTHS[1] or kind == "sinks, causal"),
)
def test_gradients(lengths: tuple[int, ...], kind: str) -> None:
    case = random_case(kind, *lengths)
    cotangent = cotangent_of(case)
    compiled = mx.compile(gradients(case, force_fused=True))
    found = compiled(mx.array(cotangent), *map(mx.array, case.arrays))
    check(found, cotangents(case, cotangent))


@pytest.mark.parametrize("features", [(48, 80), (112, 100), (128, 16)])
def test_features_in_tiles_of_several_widths(features: tuple[int, int]) -> None:
    case = random_case("plain", 1, 2, 1, 21, 45, *features)
    cotangent = cotangent_of(case)
    found = mx.compile(gradients(case, force_fused=True))(
        mx.array(cotangent), *map(mx.array, case.arrays)
    )
    check(found, cotangents(case, cotangent))


@pytest.mark.parametrize("kind", CASES)
def test_gradients_equal_those_of_mlx(kind: str) -> None:
    case = random_case(kind, 2, 4, 2, 37, 70, 16, 16)
    results = []
    for module, options in ((mx, {"force_fused": True}), (mlx.core, {})):
        arrays = [module.array(x) for x in (cotangent_of(case), *case.arrays)]
        found = module.compile(gradients(case, module, **options))(*arrays)
        results.append([np.array(x) for x in found])
    check(*results)


def test_no_host_step_and_no_scores_in_memory() -> None:
    case = random_case("causal", 1, 4, 4, 1024, 1024, 16, 16)
    inputs = [mx.array(x) for x in (cotangent_of(case), *case.arrays)]
    compiled = mx.compile(gradients(case, force_fused=True))
    made = compiled.explain(*inputs).to_dict()["native"]
    assert made["host_steps"] == []
    assert made["blas_calls"] == 0
    mx.eval(compiled(*inputs))
    mx.clear_cache()
    mx.reset_peak_memory()
    before = mx.get_active_memory()
    mx.eval(compiled(*inputs))
    assert mx.get_peak_memory() - before < 4 << 20  # the scores would have 16 MB


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16])
def test_half_precision_is_computed_in_float32(dtype: mx.Dtype) -> None:
    case = random_case("sinks, causal", 1, 4, 2, 37, 70, 16, 24)
    halves = [mx.array(x).astype(dtype) for x in (cotangent_of(case), *case.arrays)]
    rounded, *arrays = [np.array(x.astype(mx.float32)) for x in halves]
    found = mx.compile(gradients(case, force_fused=True))(*halves)
    assert {x.dtype for x in found} == {dtype}
    # the result that averages are computed of is rounded too
    tolerance = 4e-3 if dtype == mx.float16 else 3e-2
    wanted = cotangents(case._replace(arrays=arrays), rounded)
    check([x.astype(mx.float32) for x in found], wanted, tolerance)


def test_heads_behind_positions() -> None:
    case = random_case("causal", 2, 4, 4, 50, 50, 16, 16)

    def function(cotangent: mx.array, *inputs: mx.array) -> list[mx.array]:
        moved = [x.swapaxes(1, 2) for x in (cotangent, *inputs)]
        return list(gradients(case, force_fused=True)(*moved))

    arrays = [np.ascontiguousarray(x.swapaxes(1, 2)) for x in (cotangent_of(case), *case.arrays)]
    found = mx.compile(function)(*map(mx.array, arrays))
    check(found, cotangents(case, cotangent_of(case)))


@pytest.mark.parametrize("lengths", [(2, 4, 2, 77, 300, 32, 32), (1, 1, 1, 77, 300, 32, 32)])
def test_same_bits_for_any_number_of_threads(lengths: tuple[int, ...]) -> None:
    case = random_case("sinks, causal", *lengths)
    inputs = [mx.array(x) for x in (cotangent_of(case), *case.arrays)]
    compiled = mx.compile(gradients(case, force_fused=True))
    threads = mx.get_num_threads()
    results = []
    try:
        for count in (1, 2, 3):
            mx.set_num_threads(count)
            results.append([np.array(x) for x in compiled(*inputs)])
    finally:
        mx.set_num_threads(threads)
    for other in results[1:]:
        for one, two in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("bits", ["128", "256"])
def test_narrower_vectors(bits: str) -> None:
    """The same tests of values where vectors have fewer lanes."""
    chosen = [f"{__file__}::test_gradients[{lengths}-sinks, causal]" for lengths in LENGTHS[1:3]]
    require_passing(chosen, INGOT_VECTOR_BITS=bits)
