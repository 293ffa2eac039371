"""Cross entropy and the gated delta rule of `mx.fast` against MLX, and kernels that cannot run."""

from __future__ import annotations

from typing import Any

import mlx.core
import numpy as np
import pytest

import ingot.core as mx

MODULES = (mx, mlx.core)


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def numbers(module: Any, x: Any) -> np.ndarray:
    return np.array(x.astype(module.float32))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("shape", [(5,), (4, 5), (2, 3, 7)])
def test_cross_entropy_equals_mlx(shape: tuple[int, ...], dtype: str) -> None:
    targets = np.random.default_rng(1).integers(0, shape[-1], shape[:-1])
    results = []
    for module in MODULES:
        logits = module.array(normal(*shape) * 4).astype(getattr(module, dtype))
        classes = module.array(targets)
        loss = module.fast.cross_entropy(logits, classes)
        assert loss.dtype == module.float32

        def total(x: Any, module: Any = module, classes: Any = classes) -> Any:
            return module.fast.cross_entropy(x, classes).square().sum()

        gradient = module.grad(total)(logits)
        assert gradient.dtype == logits.dtype
        results.append([numbers(module, loss), numbers(module, gradient)])
    # MLX adds up in the dtype of the scores
    tolerance = {"float32": 1e-5, "float16": 2e-2, "bfloat16": 0.15}[dtype]
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


def delta_inputs(length: int = 7) -> list[np.ndarray]:
    return [
        normal(2, length, 2, 4),
        normal(2, length, 2, 4, seed=1),
        normal(2, length, 4, 3, seed=2),
        1 / (1 + np.exp(-normal(2, length, 4, seed=3))),
        1 / (1 + np.exp(-normal(2, length, 4, seed=4))),
    ]


@pytest.mark.parametrize("given", ["nothing", "state", "mask", "decays"])
def test_gated_delta_update_equals_mlx(given: str) -> None:
    inputs = delta_inputs()
    options: dict[str, np.ndarray] = {}
    if given == "state":
        options["initial_state"] = normal(2, 4, 3, 4, seed=5)
    if given == "mask":
        options["mask"] = np.random.default_rng(6).uniform(size=(2, 7)) > 0.3
    if given == "decays":
        inputs[3] = 1 / (1 + np.exp(-normal(2, 7, 4, 4, seed=3)))
    results = []
    for module in MODULES:
        arrays = [module.array(x) for x in inputs]
        extra = {key: module.array(value) for key, value in options.items()}

        def update(*arrays: Any, module: Any = module, extra: Any = extra) -> Any:
            return module.fast.gated_delta_update(*arrays, **extra)

        found = update(*arrays)
        ones = [module.ones(x.shape) for x in found]
        results.append([*found, *module.vjp(update, arrays, ones)[1]])
    for one, other in zip(*results, strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(np.array(one), np.array(other), rtol=2e-4, atol=2e-4)


def test_gated_delta_update_in_parts() -> None:
    arrays = [mx.array(x) for x in delta_inputs()]
    whole, state = mx.fast.gated_delta_update(*arrays)
    first, middle = mx.fast.gated_delta_update(*(x[:, :4] for x in arrays))
    second, last = mx.compile(mx.fast.gated_delta_update)(*(x[:, 4:] for x in arrays), middle)
    np.testing.assert_allclose(np.array(whole)[:, :4], np.array(first), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(np.array(whole)[:, 4:], np.array(second), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(np.array(state), np.array(last), rtol=1e-5, atol=1e-6)
    halves = mx.fast.gated_delta_update(*(x.astype(mx.float16) for x in arrays))
    assert [x.dtype for x in halves] == [mx.float16, mx.float32]


def some(*shape: int) -> mx.array:
    return mx.ones(shape)


ERRORS: list[tuple[Any, str]] = [
    (lambda: mx.fast.cross_entropy(some(2, 3), mx.array([0])), r"\(2\), got \(1\)"),
    (lambda: mx.fast.cross_entropy(some(2, 3), some(2)), "integers, got float32"),
    (lambda: mx.fast.cross_entropy(mx.array([1]), mx.array(0)), "scores, got int32"),
    (lambda: mx.fast.cross_entropy(mx.array(1.0), mx.array(0)), "got a scalar"),
    (
        lambda: mx.fast.gated_delta_update(*(some(2, 3, 4),) * 5),
        r"have 4 axes, got shape \(2, 3, 4\)",
    ),
    (
        lambda: mx.fast.gated_delta_update(
            *(some(1, 2, 2, 4),) * 2, some(1, 2, 3, 4), some(1), some(1)
        ),
        "multiple of those of keys, got 3 and 2",
    ),
    (
        lambda: mx.fast.gated_delta_update(*(some(1, 2, 2, 4),) * 3, some(1), some(1)),
        r"\(1, 2, 2\), got \(1\) and \(1\)",
    ),
    (
        lambda: mx.fast.gated_delta_update(
            *(some(1, 2, 2, 4),) * 3, *(some(1, 2, 2),) * 2, some(1, 2, 2, 4)
        ),
        r"initial state has shape \(1, 2, 4, 4\)",
    ),
]


@pytest.mark.parametrize(("call", "message"), ERRORS, ids=range(len(ERRORS)))
def test_errors_say_what_is_wrong(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_kernels_for_other_devices_say_what_to_do_instead() -> None:
    kernel = mx.fast.metal_kernel("mine", ["x"], ["y"], "y[0] = x[0];")
    calls = [
        lambda: kernel(inputs=[mx.ones(2)]),
        lambda: mx.fast.cuda_kernel("mine", ["x"], ["y"], "y[0] = x[0];"),
        lambda: mx.fast.precompiled_cuda_kernel(name="mine"),
    ]
    for call in calls:
        with pytest.raises(RuntimeError, match=r"'mine' cannot run: .* mx.compile makes one"):
            call()
