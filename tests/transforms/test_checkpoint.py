"""mx.checkpoint: the same results with less memory, whatever the function captures or draws."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingot.core as mx

X = np.array([0.5, 1.5, -2.0], np.float32)


def wave(x: mx.array) -> mx.array:
    return mx.sin(x) * mx.exp(x)


def slope_of_wave(x: np.ndarray) -> np.ndarray:
    return (np.cos(x) + np.sin(x)) * np.exp(x)


def gradient(function: Any, x: np.ndarray = X) -> np.ndarray:
    return np.array(mx.grad(lambda x: function(x).sum())(mx.array(x)))


def test_values_and_gradients_stay() -> None:
    kept = mx.checkpoint(wave)
    np.testing.assert_allclose(np.array(kept(mx.array(X))), np.sin(X) * np.exp(X), rtol=1e-6)
    np.testing.assert_allclose(gradient(kept), slope_of_wave(X), rtol=1e-5)
    np.testing.assert_allclose(gradient(mx.checkpoint(kept)), slope_of_wave(X), rtol=1e-5)
    assert kept.__name__ == "wave"


def test_trees_keywords_and_other_values() -> None:
    @mx.checkpoint
    def layer(p: Any, n: int, *, scale: mx.array, name: str) -> Any:
        assert name == "layer"
        return {"y": [mx.tanh(p["w"] * n) * scale], "count": n}

    def loss(p: Any, scale: mx.array) -> mx.array:
        out = layer(p, 2, scale=scale, name="layer")
        assert out["count"] == 2
        return out["y"][0].sum()

    by_tree, by_scale = mx.grad(loss, argnums=(0, 1))({"w": mx.array(X)}, mx.array(3.0))
    tanh = np.tanh(2 * X)
    np.testing.assert_allclose(np.array(by_tree["w"]), 6 * (1 - tanh**2), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(by_scale.item(), tanh.sum(), rtol=1e-5)


def test_what_is_captured_is_differentiated_by_too() -> None:
    def loss(w: mx.array) -> mx.array:
        doubled = w * 2
        return mx.checkpoint(lambda x: x * doubled * w)(mx.array(X)).sum()

    w = np.array([1.0, 2.0, 3.0], np.float32)
    np.testing.assert_allclose(np.array(mx.grad(loss)(mx.array(w))), 4 * w * X, rtol=1e-6)
    _, (change,) = mx.jvp(loss, [mx.array(w)], [mx.array(w)])
    np.testing.assert_allclose(change.item(), (4 * w * w * X).sum(), rtol=1e-6)


def test_outputs_that_depend_on_no_argument() -> None:
    def loss(w: mx.array) -> mx.array:
        first, second, third = mx.checkpoint(lambda x: (w * w, mx.array(X), x))(w)
        return (first * second + third).sum()

    w = np.array([1.0, 2.0, 3.0], np.float32)
    np.testing.assert_allclose(np.array(mx.grad(loss)(mx.array(w))), 2 * w * X + 1, rtol=1e-6)


def test_functions_without_arrays_pass() -> None:
    assert mx.checkpoint(lambda x: 3)(mx.array(X)) == 3
    assert mx.checkpoint(lambda: None)() is None
    assert mx.checkpoint(lambda n: mx.array(n))(2).item() == 2


def test_functions_with_side_effects_run_once() -> None:
    calls = []

    @mx.checkpoint
    def noted(x: mx.array) -> mx.array:
        calls.append(x.shape)
        return mx.exp(x)

    np.testing.assert_allclose(gradient(noted), np.exp(X), rtol=1e-6)
    assert calls == [(3,)]


def test_random_numbers_are_the_same_the_second_time() -> None:
    @mx.checkpoint
    def noisy(x: mx.array) -> mx.array:
        # Large enough to be made again instead of being kept.
        factors = mx.random.uniform(shape=(4096,))
        return mx.exp(x) * factors

    x = mx.zeros((4096,))
    outputs, (pulled,) = mx.vjp(noisy, [x], [mx.ones((4096,))])
    np.testing.assert_allclose(np.array(pulled), np.array(outputs[0]), rtol=1e-6)


def test_control_flow_on_values_inside() -> None:
    @mx.checkpoint
    def branched(x: mx.array) -> mx.array:
        return wave(x) if x.sum() > 0 else x * 3

    np.testing.assert_allclose(gradient(branched, X + 2), slope_of_wave(X + 2), rtol=1e-5)
    np.testing.assert_allclose(gradient(branched, X - 2), [3, 3, 3])


def test_assignment_inside_does_not_reach_the_argument() -> None:
    @mx.checkpoint
    def updated(x: mx.array) -> mx.array:
        x[0] = 5.0
        x *= x
        return x

    argument = mx.array(X)
    np.testing.assert_allclose(np.array(updated(argument)), [25, 2.25, 4])
    np.testing.assert_array_equal(np.array(argument), X)
    np.testing.assert_allclose(gradient(updated), [0, 3, -4])


class TestMemory:
    """Peaks of memory, in arrays as wide as the layers."""

    WIDTH, DEPTH = 250_000, 24

    def layer(self, x: mx.array) -> mx.array:
        for _ in range(5):
            x = x - x * x * 0.1
        return x

    def chain(self, layer: Any, depth: int) -> Any:
        def deep(x: mx.array) -> mx.array:
            for _ in range(depth):
                x = layer(x)
            return x

        return deep

    def peak(self, function: Any) -> tuple[float, np.ndarray]:
        x = mx.array(np.linspace(0, 1, self.WIDTH, dtype=np.float32))
        mx.eval(x)
        mx.clear_cache()
        before = mx.get_active_memory()
        mx.reset_peak_memory()
        found = mx.grad(lambda x: function(x).sum())(x)
        mx.eval(found)
        return (mx.get_peak_memory() - before) / x.nbytes, np.array(found)

    @pytest.mark.parametrize("fused", [False, True])
    def test_a_deep_chain_needs_less(self, fused: bool) -> None:
        mx.set_eager_fusion(fused)
        try:
            plain, expected = self.peak(self.chain(self.layer, self.DEPTH))
            saved, found = self.peak(self.chain(mx.checkpoint(self.layer), self.DEPTH))
        finally:
            mx.set_eager_fusion(True)
        np.testing.assert_allclose(found, expected, rtol=1e-5)
        # What all squares need, against the inputs of the layers and what one layer needs.
        assert plain > 3 * self.DEPTH
        assert saved < self.DEPTH + 12

    def test_nested_checkpoints_need_still_less(self) -> None:
        saved, expected = self.peak(self.chain(mx.checkpoint(self.layer), self.DEPTH))
        block = mx.checkpoint(self.chain(mx.checkpoint(self.layer), 6))
        nested, found = self.peak(self.chain(block, self.DEPTH // 6))
        np.testing.assert_allclose(found, expected, rtol=1e-5)
        assert nested < 0.8 * saved

    def test_large_constants_are_not_kept(self) -> None:
        @mx.checkpoint
        def masked(x: mx.array) -> mx.array:
            return mx.exp(x * 0.01) * (mx.random.uniform(shape=x.shape) < 0.9)

        mx.set_eager_fusion(False)
        try:
            saved, _ = self.peak(self.chain(masked, self.DEPTH))
        finally:
            mx.set_eager_fusion(True)
        assert saved < self.DEPTH + 12


@pytest.mark.parametrize("value", [3, None, "text"])
def test_something_that_is_no_function(value: Any) -> None:
    with pytest.raises(TypeError, match=r"^\[checkpoint\] fun must be a function"):
        mx.checkpoint(value)
