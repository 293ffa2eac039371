"""mx.custom_function: rules in place of derivatives in every transform, and their results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingot.core as mx

X = np.array([0.5, 1.5, -2.0], np.float32)
M = np.arange(6, dtype=np.float32).reshape(2, 3)


def numbers(x: mx.array) -> list[Any]:
    return x.tolist()


def scaled_cube() -> Any:
    """x cubed, with derivatives that are ten times the true ones and a vmap that adds one."""

    @mx.custom_function
    def cube(x: mx.array) -> mx.array:
        return x * x * x

    @cube.vjp
    def cube(primal: mx.array, cotangent: mx.array, output: mx.array) -> mx.array:
        assert isinstance(primal, mx.array)
        return cotangent * 30 * primal * primal

    @cube.jvp
    def cube(primal: mx.array, tangent: mx.array) -> mx.array:
        assert isinstance(primal, mx.array)
        return tangent * 30 * primal * primal

    return cube


def test_without_rules_it_is_the_function() -> None:
    function = mx.custom_function(lambda x, y=2: mx.sin(x) * y)
    x = mx.array(X)
    np.testing.assert_allclose(numbers(function(x)), 2 * np.sin(X), rtol=1e-6)
    np.testing.assert_allclose(
        numbers(mx.grad(lambda x: function(x, y=3).sum())(x)), 3 * np.cos(X), rtol=1e-5
    )


def test_decorators_return_the_function_itself() -> None:
    cube = scaled_cube()
    assert isinstance(cube, mx.custom_function)
    assert cube.__name__ == "cube"
    assert numbers(cube(mx.array(2.0))) == 8  # type: ignore[comparison-overlap]


def test_vjp_and_jvp_replace_the_derivative() -> None:
    cube = scaled_cube()
    x = mx.array(X)
    expected = 30 * X * X
    np.testing.assert_allclose(numbers(mx.grad(lambda x: cube(x).sum())(x)), expected, rtol=1e-6)
    _, (change,) = mx.jvp(cube, [x], [mx.ones((3,))])
    np.testing.assert_allclose(numbers(change), expected, rtol=1e-6)


def test_rules_are_differentiated_in_turn() -> None:
    cube = scaled_cube()
    x = mx.array(2.0)
    assert mx.grad(mx.grad(cube))(x).item() == 120
    assert mx.grad(mx.grad(mx.grad(cube)))(x).item() == 60
    assert mx.jvp(mx.grad(cube), [x], [mx.array(1.0)])[1][0].item() == 120
    assert mx.grad(lambda x: mx.jvp(cube, [x], [mx.array(1.0)])[1][0])(x).item() == 120


def test_a_missing_rule_follows_the_function() -> None:
    @mx.custom_function
    def square(x: mx.array) -> mx.array:
        return x * x

    @square.vjp
    def square(primal: mx.array, cotangent: mx.array, output: mx.array) -> mx.array:
        return cotangent * 100

    x = mx.array(X)
    assert numbers(mx.grad(lambda x: square(x).sum())(x)) == [100, 100, 100]
    np.testing.assert_allclose(numbers(mx.jvp(square, [x], [x])[1][0]), 2 * X * X)
    np.testing.assert_allclose(numbers(mx.vmap(square)(mx.array(M))), M * M)


class TestSeveralArguments:
    def function(self) -> Any:
        @mx.custom_function
        def both(x: mx.array, y: mx.array) -> tuple[mx.array, mx.array]:
            return x * y, x + y

        @both.vjp
        def both(primals: Any, cotangents: Any, outputs: Any) -> Any:
            assert [type(part) for part in (primals, cotangents, outputs)] == [tuple] * 3
            return cotangents[0] * 100, cotangents[1] + outputs[0]

        @both.jvp
        def both(primals: Any, tangents: Any) -> Any:
            assert type(tangents) is tuple
            return tangents[0] * 7, tangents[1] * primals[0]

        @both.vmap
        def both(inputs: Any, axes: Any) -> Any:
            x, y = inputs
            if axes[1] is None:
                y = mx.broadcast_to(y, x.shape)
            return (x * y + 1, x + y), (axes[0], 0)

        return both

    def test_vjp(self) -> None:
        both = self.function()
        x = mx.array(X)
        by_x, by_y = mx.grad(lambda x, y: both(x, y)[0].sum(), argnums=(0, 1))(x, x)
        assert numbers(by_x) == [100, 100, 100]
        np.testing.assert_allclose(numbers(by_y), X * X)

    def test_tangents_of_what_does_not_vary_are_zero(self) -> None:
        both = self.function()
        _, changes = mx.jvp(lambda x: both(x, mx.array(X)), [mx.array(X)], [mx.array(X)])
        np.testing.assert_allclose(numbers(changes[0]), 7 * X)
        assert numbers(changes[1]) == [0, 0, 0]

    def test_vmap_rule(self) -> None:
        both = self.function()
        product, total = mx.vmap(both)(mx.array(M), mx.array(M))
        np.testing.assert_allclose(numbers(product), M * M + 1)
        np.testing.assert_allclose(numbers(total), M + M)
        product, total = mx.vmap(both, in_axes=(1, None))(mx.array(M), mx.array(M[:, 0]))
        np.testing.assert_allclose(numbers(product), M.T * M[:, 0] + 1)
        np.testing.assert_allclose(numbers(total), M.T + M[:, 0])

    def test_vmap_of_vmap_applies_the_rule_once_for_each(self) -> None:
        both = self.function()
        batch = np.stack([M, M + 1])
        product, _ = mx.vmap(mx.vmap(both))(mx.array(batch), mx.array(batch))
        np.testing.assert_allclose(numbers(product), batch * batch + 1)


class TestMappedRules:
    """vmap of a function that has derivatives of its own but no vmap rule: it keeps them."""

    def test_grad_of_vmap(self) -> None:
        cube = scaled_cube()
        found = mx.grad(lambda m: mx.vmap(cube)(m).sum())(mx.array(M))
        np.testing.assert_allclose(numbers(found), 30 * M * M)

    def test_vmap_of_grad(self) -> None:
        cube = scaled_cube()
        np.testing.assert_allclose(numbers(mx.vmap(mx.grad(cube))(mx.array(X))), 30 * X * X)

    def test_jvp_of_vmap_of_vmap(self) -> None:
        cube = scaled_cube()
        _, (change,) = mx.jvp(mx.vmap(mx.vmap(cube)), [mx.array(M)], [mx.ones((2, 3))])
        np.testing.assert_allclose(numbers(change), 30 * M * M)

    def test_cotangents_of_what_is_the_same_for_all_are_added(self) -> None:
        @mx.custom_function
        def scale(w: mx.array, x: mx.array) -> mx.array:
            return w * x

        @scale.vjp
        def scale(primals: Any, cotangent: mx.array, output: mx.array) -> Any:
            w, x = primals
            assert w.shape == x.shape == (3,)
            return cotangent * x * 2, cotangent * w * 2

        w = mx.array(X)
        found = mx.grad(lambda w: mx.vmap(scale, in_axes=(None, 0))(w, mx.array(M)).sum())(w)
        np.testing.assert_allclose(numbers(found), 2 * M.sum(0))

    def test_a_rule_that_captured_an_example(self) -> None:
        def loss(x: mx.array) -> mx.array:
            def one(row: mx.array) -> mx.array:
                @mx.custom_function
                def product(x: mx.array) -> mx.array:
                    return x * row

                @product.vjp
                def product(primal: mx.array, cotangent: mx.array, output: mx.array) -> mx.array:
                    return cotangent * row * 5 + output * 0

                return product(x)

            return mx.vmap(one)(mx.array(M)).sum()

        np.testing.assert_allclose(numbers(mx.grad(loss)(mx.array(X))), 5 * M.sum(0))

    def test_a_checkpoint_that_captured_an_example(self) -> None:
        def loss(x: mx.array) -> mx.array:
            return mx.vmap(lambda row: mx.checkpoint(lambda x: mx.sin(x) * row)(x))(
                mx.array(M)
            ).sum()

        found = mx.grad(loss)(mx.array(X))
        np.testing.assert_allclose(numbers(found), np.cos(X) * M.sum(0), rtol=1e-5)


class TestTrees:
    def test_arguments_and_outputs(self) -> None:
        @mx.custom_function
        def layer(p: Any, n: int) -> Any:
            return {"a": p["x"] * n, "b": [p["y"]], "name": "layer"}

        @layer.vjp
        def layer(primals: Any, cotangents: Any, outputs: Any) -> Any:
            p, n = primals
            assert (set(p), n) == ({"x", "y"}, 3)
            assert outputs["name"] == "layer"
            return {"x": cotangents["a"] * 5, "y": cotangents["b"][0] * 6}, None

        def loss(p: Any) -> mx.array:
            out = layer(p, 3)
            return (out["a"] + out["b"][0]).sum()

        found = mx.grad(loss)({"x": mx.array(X), "y": mx.array(X)})
        assert numbers(found["x"]) == [5, 5, 5]
        assert numbers(found["y"]) == [6, 6, 6]

    def test_a_list_as_the_only_argument(self) -> None:
        @mx.custom_function
        def product(xs: Any) -> mx.array:
            return xs[0] * xs[1]

        @product.vjp
        def product(xs: Any, cotangent: mx.array, output: mx.array) -> Any:
            assert type(xs) is list
            return [cotangent * 2, cotangent * 3]

        found = mx.grad(lambda xs: product(xs).sum())([mx.array(X), mx.array(X)])
        assert [numbers(x) for x in found] == [[2, 2, 2], [3, 3, 3]]

    def test_cotangents_of_the_arrays_alone_will_do(self) -> None:
        @mx.custom_function
        def times(x: mx.array, n: int) -> mx.array:
            return x * n

        @times.vjp
        def times(primals: Any, cotangent: mx.array, output: mx.array) -> Any:
            return cotangent * 100

        assert numbers(mx.grad(lambda x: times(x, 3).sum())(mx.array(X))) == [100, 100, 100]

    def test_none_is_no_derivative(self) -> None:
        @mx.custom_function
        def times(x: mx.array, y: mx.array) -> mx.array:
            return x * y

        @times.vjp
        def times(primals: Any, cotangent: mx.array, output: mx.array) -> Any:
            return cotangent, None

        by_x, by_y = mx.grad(lambda x, y: times(x, y).sum(), argnums=(0, 1))(*[mx.array(X)] * 2)
        assert numbers(by_x) == [1, 1, 1]
        assert numbers(by_y) == [0, 0, 0]

    def test_shares_take_the_dtype_of_their_arguments(self) -> None:
        @mx.custom_function
        def half(x: mx.array) -> mx.array:
            return x * 2

        @half.vjp
        def half(x: mx.array, cotangent: mx.array, output: mx.array) -> mx.array:
            return cotangent.astype(mx.float32)

        found = mx.grad(lambda x: half(x).sum())(mx.array(X).astype(mx.float16))
        assert found.dtype == mx.float16


class TestKeywords:
    def function(self) -> Any:
        @mx.custom_function
        def times(x: mx.array, *, y: mx.array, n: int = 1) -> mx.array:
            return x * y * n

        @times.vjp
        def times(x: mx.array, cotangent: mx.array, output: mx.array, **keywords: Any) -> mx.array:
            assert set(keywords) == {"y", "n"}
            return cotangent * keywords["y"] * keywords["n"] * 10

        @times.jvp
        def times(x: mx.array, tangent: mx.array, *, y: mx.array, n: int) -> mx.array:
            return tangent * y * n * 10

        @times.vmap
        def times(x: mx.array, axis: int, *, y: mx.array, n: int) -> Any:
            return x * y * n * 10, axis

        return times

    def test_rules_get_them(self) -> None:
        times = self.function()
        x, y = mx.array(X), mx.array(2.0)
        assert numbers(mx.grad(lambda x: times(x, y=y, n=3).sum())(x)) == [60, 60, 60]
        _, (change,) = mx.jvp(lambda x: times(x, y=y, n=3), [x], [mx.ones((3,))])
        assert numbers(change) == [60, 60, 60]
        mapped = mx.vmap(lambda x: times(x, y=y, n=3))(x)
        np.testing.assert_allclose(numbers(mapped), 60 * X)

    @pytest.mark.parametrize(
        ("call", "message"),
        [
            (
                lambda times, x: mx.grad(lambda y: times(x, y=y, n=1).sum())(x),
                r"the vjp rule gives no cotangents for keyword arguments: pass what is differ",
            ),
            (
                lambda times, x: mx.jvp(lambda y: times(x, y=y, n=1), [x], [x]),
                r"the jvp rule takes no tangents of keyword arguments: pass what is differentiated",
            ),
            (
                lambda times, x: mx.vmap(lambda y: times(x, y=y, n=1))(x),
                r"the vmap rule takes no axes of keyword arguments: pass what is mapped",
            ),
        ],
    )
    def test_they_cannot_be_transformed(self, call: Any, message: str) -> None:
        with pytest.raises(ValueError, match=r"^\[custom_function\] " + message):
            call(self.function(), mx.array(X))


class TestErrors:
    def with_rules(self, **rules: Any) -> Any:
        function = mx.custom_function(lambda x, y: x * y)
        for name, rule in rules.items():
            getattr(function, name)(rule)
        return function

    @pytest.mark.parametrize(
        ("rule", "message"),
        [
            (lambda p, c, o: c, r"must return a cotangent for each of the 2 arrays among the arg"),
            (lambda p, c, o: (c, c, c), r"must return a cotangent for each of the 2 arrays"),
            (lambda p, c, o: (c, c[:2]), r"returned shape \(2\) where an array of shape \(3\)"),
            (lambda p, c, o: "text", r"must return a cotangent for each of the 2 arrays"),
        ],
    )
    def test_vjp(self, rule: Any, message: str) -> None:
        function = self.with_rules(vjp=rule)
        with pytest.raises(ValueError, match=r"^\[custom_function\] the vjp rule " + message):
            mx.grad(lambda x, y: function(x, y).sum(), argnums=(0, 1))(*[mx.array(X)] * 2)

    @pytest.mark.parametrize(
        ("rule", "message"),
        [
            (lambda p, t: None, r"must return 1 arrays, shaped like the outputs, got None"),
            (lambda p, t: t, r"must return 1 arrays, shaped like the outputs"),
            (lambda p, t: t[0].sum(), r"returned shape \(\) where an array of shape \(3\)"),
        ],
    )
    def test_jvp(self, rule: Any, message: str) -> None:
        function = self.with_rules(jvp=rule)
        with pytest.raises(ValueError, match=r"^\[custom_function\] the jvp rule " + message):
            mx.jvp(function, [mx.array(X)] * 2, [mx.array(X)] * 2)

    @pytest.mark.parametrize(
        ("rule", "message"),
        [
            (lambda i, a: i[0], r"must return the outputs and their axes"),
            (lambda i, a: (i, a), r"must return 1 arrays"),
            (lambda i, a: (i[0].sum(1), 0), r"returned shape \(2\) where .* shape \(2, 3\)"),
        ],
    )
    def test_vmap(self, rule: Any, message: str) -> None:
        function = self.with_rules(vmap=rule)
        with pytest.raises(ValueError, match=r"^\[custom_function\] the vmap rule " + message):
            mx.vmap(function)(mx.array(M), mx.array(M))

    @pytest.mark.parametrize("name", ["vjp", "jvp", "vmap"])
    def test_rules_are_functions(self, name: str) -> None:
        with pytest.raises(TypeError, match=rf"\[custom_function.{name}\] expected a function"):
            getattr(mx.custom_function(abs), name)(3)

    def test_so_is_what_they_are_for(self) -> None:
        with pytest.raises(TypeError, match=r"^\[custom_function\] expected a function"):
            mx.custom_function(3)  # type: ignore[arg-type]


def test_compiled() -> None:
    cube = scaled_cube()
    found = mx.compile(mx.grad(lambda x: cube(x).sum()))(mx.array(X))
    np.testing.assert_allclose(numbers(found), 30 * X * X, rtol=1e-6)
