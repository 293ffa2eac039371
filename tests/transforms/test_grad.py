"""mx.grad and mx.value_and_grad: which arguments, which trees, which results, which errors."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, namedtuple
from typing import Any

import mlx.core as mlx
import numpy as np
import pytest

import ingot.core as mx
from ingot._native import in_tracing

Pair = namedtuple("Pair", "left right")


def vector(module: Any = mx) -> Any:
    return module.array([1.0, 2.0, 3.0])


def plain(tree: Any) -> Any:
    """A tree with numbers instead of arrays and with containers as they are."""
    if isinstance(tree, (mx.array, mlx.array)):
        return tree.tolist()
    if isinstance(tree, dict):
        return {key: plain(item) for key, item in tree.items()}
    if isinstance(tree, tuple):
        items = [plain(item) for item in tree]
        return type(tree)(*items) if hasattr(tree, "_fields") else tuple(items)
    if isinstance(tree, list):
        return [plain(item) for item in tree]
    return tree


def weighted(x: Any, y: Any) -> Any:
    return (x * y * y).sum()


# Each case takes a module and returns a tree; MLX must give the same.
SELECTIONS = {
    "first argument": lambda m: m.grad(weighted)(vector(m), vector(m)),
    "argnums": lambda m: m.grad(weighted, argnums=1)(vector(m), vector(m)),
    "argnums as a list of one": lambda m: m.grad(weighted, argnums=[1])(vector(m), vector(m)),
    "several argnums": lambda m: m.grad(weighted, argnums=(0, 1))(vector(m), vector(m)),
    "argnums out of order": lambda m: m.grad(weighted, argnums=(1, 0))(vector(m), vector(m)),
    "argnames": lambda m: m.grad(weighted, argnames="y")(vector(m), y=vector(m)),
    "several argnames": lambda m: m.grad(weighted, argnames=["y", "x"])(x=vector(m), y=vector(m)),
    "both": lambda m: m.grad(weighted, argnums=0, argnames=["y"])(vector(m), y=vector(m)),
    "both, as a list": lambda m: m.grad(weighted, argnums=[0], argnames="y")(
        vector(m), y=vector(m)
    ),
    "no argnums": lambda m: m.grad(weighted, argnums=[], argnames="y")(vector(m), y=vector(m)),
    "no argnames": lambda m: m.grad(weighted, argnames=[])(vector(m), vector(m)),
    "keyword arguments pass": lambda m: m.grad(weighted)(vector(m), y=vector(m)),
    "the same array twice": lambda m: m.grad(weighted, argnums=(0, 1))(*[vector(m)] * 2),
    "value": lambda m: m.value_and_grad(weighted)(vector(m), vector(m)),
    "value and extra outputs": lambda m: m.value_and_grad(
        lambda x: ((x * x).sum(), {"x": [x, "text", None]}, 3)
    )(vector(m)),
    "value of a tuple of one": lambda m: m.value_and_grad(lambda x: (x.sum(),))(vector(m)),
    "no dependence": lambda m: m.value_and_grad(lambda x: vector(m).sum())(vector(m)),
    "the loss is the argument": lambda m: m.value_and_grad(lambda x: x)(m.array(2.0)),
    "half precision": lambda m: m.grad(lambda x: (x * x).sum())(vector(m).astype(m.float16)),
    "mixed precision": lambda m: m.grad(weighted)(vector(m).astype(m.bfloat16), vector(m)),
    "complex": lambda m: m.value_and_grad(lambda x: m.abs(x * x).sum())(m.array([1 + 2j, 3 - 1j])),
    "complex loss": lambda m: m.value_and_grad(lambda x: (x * x).sum())(m.array([1 + 2j, 3 - 1j])),
    "stop_gradient": lambda m: m.grad(lambda x: (m.stop_gradient(x) * x).sum())(vector(m)),
    "second order": lambda m: m.grad(m.grad(lambda x: x**3))(m.array(2.0)),
    "third order": lambda m: m.grad(m.grad(m.grad(lambda x: m.exp(2 * x))))(m.array(0.5)),
    "control flow on values": lambda m: m.grad(lambda x: (x * x).sum() if x.sum() > 3 else x.sum())(
        vector(m)
    ),
    "loop on values": lambda m: m.grad(_halved_until_small)(m.array(20.0)),
    "item": lambda m: m.grad(lambda x: (x * x.sum().item()).sum())(vector(m)),
    "tolist": lambda m: m.grad(lambda x: (x * len(x.tolist())).sum())(vector(m)),
    "evaluated inside": lambda m: m.grad(_evaluated)(vector(m)),
    "depends": lambda m: m.grad(lambda x, y: m.depends(x, y).sum(), argnums=(0, 1))(
        vector(m), vector(m)
    ),
}


def _halved_until_small(x: Any) -> Any:
    while x > 1:
        x = x * x / 100
    return x


def _evaluated(x: Any) -> Any:
    y = x * x
    np.array(y)
    return y.sum()


@pytest.mark.parametrize("name", SELECTIONS)
def test_selection_equals_mlx(name: str) -> None:
    found, expected = SELECTIONS[name](mx), SELECTIONS[name](mlx)
    assert type(found) is type(expected) or isinstance(found, mx.array)
    leaves, others = leaves_and_keys(found), leaves_and_keys(expected)
    assert len(leaves) == len(others)
    for one, other in zip(leaves, others, strict=True):
        if isinstance(other, mlx.array):
            assert str(one.dtype).rpartition(".")[2] == str(other.dtype).rpartition(".")[2]
            np.testing.assert_allclose(plain(one), plain(other), rtol=1e-3)
        else:
            assert one == other


def leaves_and_keys(tree: Any) -> list[Any]:
    if isinstance(tree, dict):
        return [leaf for key in sorted(tree) for leaf in (key, *leaves_and_keys(tree[key]))]
    if isinstance(tree, (list, tuple)):
        return [leaf for item in tree for leaf in leaves_and_keys(item)]
    return [tree]


class TestTrees:
    def test_nested_containers(self) -> None:
        parameters = {
            "layers": [{"w": vector(), "b": mx.array(1.0)}, (vector(),)],
            "scale": mx.array(2.0),
        }

        def loss(p: Any) -> mx.array:
            first, (last,) = p["layers"]
            return ((first["w"] * last + first["b"]) * p["scale"]).sum()

        assert plain(mx.grad(loss)(parameters)) == {
            "layers": [{"w": [2, 4, 6], "b": 6}, ([2, 4, 6],)],
            "scale": 17,
        }

    def test_named_tuples_keep_their_type(self) -> None:
        found = mx.grad(lambda p: (p.left * p.right).sum())(Pair(vector(), vector() + 1))
        assert isinstance(found, Pair)
        assert plain(found) == Pair([2, 3, 4], [1, 2, 3])

    def test_an_argument_keeps_its_type_and_its_gradient_is_plain(self) -> None:
        class Model(dict):  # type: ignore[type-arg]
            def __init__(self, width: int) -> None:
                super().__init__(weight=mx.ones((width,)))
                self.width = width

            def __call__(self, x: mx.array) -> mx.array:
                return (self["weight"] * x).sum() * self.width

        found = mx.grad(lambda model: model(vector()))(Model(3))
        assert type(found) is dict
        assert plain(found) == {"weight": [3, 6, 9]}

    @pytest.mark.parametrize(
        "tree",
        [OrderedDict(a=1.0), defaultdict(list, a=1.0), {"a": 1.0}],
        ids=lambda tree: type(tree).__name__,
    )
    def test_dicts(self, tree: Any) -> None:
        tree["a"] = vector()
        kinds = []

        def loss(p: Any) -> mx.array:
            kinds.append(type(p))
            return p["a"].sum()

        assert plain(mx.grad(loss)(tree)) == {"a": [1, 1, 1]}
        assert kinds == [type(tree)]

    def test_the_gradient_is_shaped_like_the_tree_before_the_function_changed_it(self) -> None:
        tree = {"a": vector(), "b": [vector()]}

        def loss(p: Any) -> mx.array:
            p["c"] = p["a"] * 2
            p["b"].append(p.pop("a"))
            return (p["c"] * p["b"][0]).sum()

        assert plain(mx.grad(loss)(tree)) == {"a": [2, 4, 6], "b": [[2, 4, 6]]}
        assert plain(tree) == {"b": [[1, 2, 3], [1, 2, 3]], "c": [2, 4, 6]}

    def test_integers_in_a_tree(self) -> None:
        """They have gradients, as in MLX, but not as indices."""
        tree = {"w": vector(), "rows": mx.array([2, 0])}

        def loss(p: Any, rows: Any) -> Any:
            return (p["w"][rows] * p["rows"]).sum()

        found = mx.grad(lambda p: loss(p, mx.stop_gradient(p["rows"])))(tree)
        assert plain(found) == {"w": [0, 0, 2], "rows": [3, 1]}
        assert found["rows"].dtype == mx.int32
        with pytest.raises(ValueError, match="stop_gradient"):
            mx.grad(lambda p: loss(p, p["rows"]))(tree)

    def test_a_tree_that_contains_itself(self) -> None:
        endless: list[Any] = []
        endless.append(endless)
        with pytest.raises(ValueError, match="contains itself"):
            mx.grad(lambda p: vector().sum())(endless)

    def test_a_deep_tree(self) -> None:
        tree: Any = vector()
        for _ in range(200):
            tree = [tree]

        def loss(p: Any) -> mx.array:
            while isinstance(p, list):
                (p,) = p
            return p.sum()

        found = mx.grad(loss)(tree)
        while isinstance(found, list):
            (found,) = found
        assert found.tolist() == [1, 1, 1]


class TestErrors:
    @pytest.mark.parametrize("transform", [mx.grad, mx.value_and_grad])
    @pytest.mark.parametrize(
        ("keywords", "kind", "message"),
        [
            ({"argnums": -1}, ValueError, r"argnums cannot be negative, got -1\."),
            ({"argnums": (0, 0)}, ValueError, r"argnums \(0, 0\) name an argument twice\."),
            ({"argnums": ()}, ValueError, r"argnums is empty: name an argument"),
            ({"argnums": "x"}, TypeError, r"argnums must be an int.* got str: 'x'\."),
            ({"argnums": 0.0}, TypeError, r"argnums must be an int.* got float: 0\.0\."),
            ({"argnums": [0, "x"]}, TypeError, r"argnums must be an int.* got list: \[0, 'x'\]\."),
            (
                {"argnames": None},
                TypeError,
                r"argnames must be a string or .* got NoneType: None\.",
            ),
            ({"argnames": [1]}, TypeError, r"argnames must be a string or .* got list: \[1\]\."),
        ],
    )
    def test_selection(
        self, transform: Any, keywords: Any, kind: type[Exception], message: str
    ) -> None:
        with pytest.raises(kind, match=rf"^\[{transform.__name__}\] {message}"):
            transform(weighted, **keywords)

    @pytest.mark.parametrize("transform", [mx.grad, mx.value_and_grad])
    @pytest.mark.parametrize(
        ("call", "message"),
        [
            (
                lambda t: t(weighted, argnums=2)(vector(), vector()),
                r"cannot differentiate by argument 2: the function was called with 2 positional",
            ),
            (
                lambda t: t(weighted, argnames="z")(vector(), y=vector()),
                r"cannot differentiate by keyword argument 'z': .* keyword arguments \['y'\]\.",
            ),
            (
                lambda t: t(weighted)(3.0, vector()),
                r"argument 0 may hold arrays only, got float",
            ),
            (
                lambda t: t(lambda p: p[0].sum())([vector(), None]),
                r"argument 0 may hold arrays only, got NoneType: None",
            ),
            (lambda t: t(lambda p: vector().sum())({}), r"argument 0 holds no array"),
            (
                lambda t: t(lambda x: x)(vector()),
                r"the loss must be a scalar, but the function returned shape \(3\)\. Reduce it",
            ),
            (
                lambda t: t(lambda x: x.sum(keepdims=True))(vector()),
                r"the loss must be a scalar, but the function returned shape \(1\)",
            ),
            (
                lambda t: t(lambda x: 3.0)(vector()),
                r"the function must return .* got float\. Numbers read from arrays, by \.item\(\)",
            ),
            (lambda t: t(lambda x: [x.sum()])(vector()), r"the function must return .* got list"),
            (lambda t: t(lambda x: None)(vector()), r"the function must return .* got NoneType"),
        ],
    )
    def test_call(self, transform: Any, call: Any, message: str) -> None:
        with pytest.raises(ValueError, match=rf"^\[{transform.__name__}\] {message}"):
            call(transform)

    def test_grad_of_a_tuple_names_value_and_grad(self) -> None:
        with pytest.raises(ValueError, match=r"got tuple\. To return more .* use value_and_grad"):
            mx.grad(lambda x: (x.sum(), x))(vector())  # type: ignore[return-value]

    @pytest.mark.parametrize("value", [(), (1.0, 2.0), {"loss": 1.0}])
    def test_value_without_a_loss(self, value: Any) -> None:
        with pytest.raises(ValueError, match=r"a scalar array, or a tuple that begins with one"):
            mx.value_and_grad(lambda x: value)(vector())

    def test_something_that_is_no_function(self) -> None:
        with pytest.raises(TypeError, match=r"^\[grad\] fun must be a function, got int: 3"):
            mx.grad(3)  # type: ignore[arg-type]

    def test_an_error_inside_leaves_nothing_behind(self) -> None:
        def fails(x: mx.array) -> mx.array:
            raise KeyError("inside")

        for _ in range(3):
            with pytest.raises(KeyError, match="inside"):
                mx.grad(fails)(vector())
        assert not mx.array([1.0])._node.tracer
        assert not in_tracing()


def test_integer_losses() -> None:
    """A cast to integers has derivative 1, as in MLX."""
    value, gradient = mx.value_and_grad(lambda x: x.sum().astype(mx.int32))(vector())
    assert (value.item(), gradient.tolist()) == (6, [1, 1, 1])


def test_names_and_docstrings_are_kept() -> None:
    assert mx.grad(weighted).__name__ == "weighted"
    assert mx.value_and_grad(weighted).__wrapped__ is weighted
    assert mx.grad(mx.grad(mx.sin))(mx.array(0.0)).item() == 0


@pytest.mark.parametrize("look", [mx.eval, np.array, lambda x: x.item()])
def test_what_was_evaluated_inside_lets_go_of_the_graph_later(look: Any) -> None:
    def loss(x: mx.array) -> mx.array:
        total = mx.exp(x).sum()
        total.item()
        return total

    value, _ = mx.value_and_grad(loss)(vector())
    assert value._node.inputs != ()
    look(value)
    assert value._node.inputs == ()


def test_results_do_not_keep_the_graph() -> None:
    kept = []

    def loss(x: mx.array) -> mx.array:
        y = mx.exp(x)
        kept.append(y)
        return y.sum()

    value, gradient = mx.value_and_grad(loss)(vector())
    mx.eval(value, gradient, kept)
    for x in (value, gradient, kept[0]):
        assert x._node.inputs == ()
