"""mx.vmap: axes in and out, trees, nesting, functions that MLX can map and some that it cannot."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import mlx.core as mlx
import numpy as np
import pytest

import ingot.core as mx

Pair = namedtuple("Pair", "left right")

MATRIX = np.arange(6, dtype=np.float32).reshape(2, 3) - 2
ROW = np.array([1.0, -2.0, 3.0], np.float32)


def array_of(m: Any, x: np.ndarray = MATRIX) -> Any:
    return m.array(x)


# Each case takes a module; MLX must give the same tree.
CASES = {
    "one argument": lambda m: m.vmap(lambda x: x * 2)(m.array(ROW)),
    "in_axes as a tuple": lambda m: m.vmap(lambda x, y: x * y, in_axes=(0, None))(
        array_of(m), m.array(ROW)
    ),
    "negative axes": lambda m: m.vmap(lambda x, y: x.sum() * y, in_axes=(-1, 0), out_axes=-1)(
        array_of(m), m.array(ROW)
    ),
    "axes 1 to 0": lambda m: m.vmap(lambda x: x, in_axes=1)(array_of(m)),
    "out axis 1": lambda m: m.vmap(m.exp, out_axes=1)(array_of(m)),
    "out axis -2": lambda m: m.vmap(m.exp, out_axes=-2)(array_of(m)),
    "several outputs": lambda m: m.vmap(lambda x: (x, x.sum(), x * 2), out_axes=(0, 0, 1))(
        array_of(m)
    ),
    "dict in": lambda m: m.vmap(lambda d: d["a"] + d["b"], in_axes={"a": 0, "b": None})(
        {"a": array_of(m), "b": m.array(ROW)}
    ),
    "list in": lambda m: m.vmap(lambda a: a[0] + a[1], in_axes=[0, 1])(
        [array_of(m), array_of(m).T]
    ),
    "prefix in": lambda m: m.vmap(lambda a, b: a[0] + a[1]["x"] + b, in_axes=(1, 1))(
        [array_of(m), {"x": array_of(m)}], array_of(m)
    ),
    "dict out": lambda m: m.vmap(lambda x: {"a": x, "b": x * 2}, out_axes={"a": 0, "b": 1})(
        array_of(m)
    ),
    "nested out": lambda m: m.vmap(
        lambda x: (x, [x * 2, {"k": x.sum()}]), out_axes=(0, [1, {"k": 0}])
    )(array_of(m)),
    "prefix out": lambda m: m.vmap(lambda x: (x, [x * 2, x]), out_axes=(0, 1))(array_of(m)),
    "constant out": lambda m: m.vmap(lambda x: m.array(ROW))(array_of(m)),
    "constant out, axis 1": lambda m: m.vmap(lambda x: m.array(ROW), out_axes=1)(array_of(m)),
    "nested": lambda m: m.vmap(m.vmap(lambda x, y: x * y, in_axes=(0, None)), in_axes=(None, 0))(
        m.array(ROW), m.array(ROW)
    ),
    "captured": lambda m: m.vmap(lambda x: x + m.array(ROW))(array_of(m)),
    "no examples": lambda m: m.vmap(lambda x: x * 2)(m.zeros((0, 3))),
    "of grad": lambda m: m.vmap(m.grad(lambda x: x * x * x))(m.array(ROW)),
    "in grad": lambda m: m.grad(lambda x: m.vmap(lambda y: y * y)(x).sum())(m.array(ROW)),
    "per-example gradients": lambda m: m.vmap(
        m.grad(lambda w, x: m.tanh((w * x).sum())), in_axes=(None, 0)
    )(m.array(ROW), array_of(m)),
    "indexing by an example": lambda m: m.vmap(lambda i: m.array(ROW)[i])(m.array([2, 0])),
    "indexing an example": lambda m: m.vmap(lambda x: x[m.array([2, 0, 0])])(array_of(m)),
    "indexing both": lambda m: m.vmap(lambda x, i: x[i])(array_of(m), m.array([[2, 0], [1, 1]])),
    "slicing": lambda m: m.vmap(lambda x: x[1:])(array_of(m)),
    "take": lambda m: m.vmap(lambda x, i: m.take(x, i), in_axes=(None, 0))(
        m.array(ROW), m.array([[2, 0], [1, 1]])
    ),
    "take_along_axis": lambda m: m.vmap(lambda x, i: m.take_along_axis(x, i, 0))(
        array_of(m), m.array([[2, 0], [1, 1]])
    ),
    "matmul": lambda m: m.vmap(lambda w, x: w @ x, in_axes=(None, 1))(array_of(m), array_of(m).T),
    "reductions": lambda m: m.vmap(lambda x: (x.max(), x.mean(), m.softmax(x), m.argmin(x)))(
        array_of(m)
    ),
    "sort and cumsum": lambda m: m.vmap(lambda x: m.cumsum(m.sort(x)), in_axes=1)(array_of(m)),
    "where": lambda m: m.vmap(lambda x, y: m.where(x > 0, x, y), in_axes=(0, None))(
        array_of(m), m.array(ROW)
    ),
    "concatenate": lambda m: m.vmap(lambda x, y: m.concatenate([x, y]), in_axes=(0, None))(
        array_of(m), m.array(ROW)
    ),
    "reshape and transpose": lambda m: m.vmap(
        lambda x: x.reshape(1, 3).transpose(1, 0), out_axes=2
    )(array_of(m)),
}


def leaves(tree: Any) -> list[Any]:
    if isinstance(tree, dict):
        return [leaf for item in tree.values() for leaf in leaves(item)]
    if isinstance(tree, (list, tuple)):
        return [leaf for item in tree for leaf in leaves(item)]
    return [tree]


@pytest.mark.parametrize("name", CASES)
def test_equals_mlx(name: str) -> None:
    found, expected = CASES[name](mx), CASES[name](mlx)
    assert isinstance(found, mx.array) or type(found) is type(expected)
    for one, other in zip(leaves(found), leaves(expected), strict=True):
        assert one.shape == other.shape
        assert str(one.dtype).rpartition(".")[2] == str(other.dtype).rpartition(".")[2]
        np.testing.assert_allclose(np.array(one), np.array(other), rtol=1e-5, atol=1e-6)


class TestBeyondMlx:
    def test_axes_as_a_list_of_one_for_each_argument(self) -> None:
        found = mx.vmap(lambda x, y: x * y, in_axes=[0, None])(array_of(mx), mx.array(ROW))
        np.testing.assert_array_equal(np.array(found), MATRIX * ROW)

    def test_a_tree_within_the_tuple_of_arguments(self) -> None:
        found = mx.vmap(lambda d: d["a"] + d["b"], in_axes=({"a": 0, "b": None},))(
            {"a": array_of(mx), "b": mx.array(ROW)}
        )
        np.testing.assert_array_equal(np.array(found), MATRIX + ROW)

    def test_other_values_pass_with_the_axis_none(self) -> None:
        found = mx.vmap(lambda x, n, text: x * n, in_axes=(0, None, None))(array_of(mx), 3, "text")
        np.testing.assert_array_equal(np.array(found), MATRIX * 3)

    def test_named_tuples(self) -> None:
        found = mx.vmap(lambda p: Pair(p.left * p.right, p.left.sum()))(
            Pair(array_of(mx), array_of(mx))
        )
        assert isinstance(found, Pair)
        np.testing.assert_array_equal(np.array(found.left), MATRIX**2)
        np.testing.assert_array_equal(np.array(found.right), MATRIX.sum(1))

    def test_out_axes_none_for_what_is_the_same(self) -> None:
        found, same = mx.vmap(lambda x: (x, mx.array(ROW)), out_axes=(0, None))(array_of(mx))
        assert found.shape == (2, 3)
        assert same.tolist() == ROW.tolist()

    def test_assignment(self) -> None:
        def update(x: mx.array, i: mx.array, value: mx.array) -> mx.array:
            x[i] = value
            x += 1
            return x

        batch = array_of(mx)
        found = mx.vmap(update, in_axes=(0, 0, None))(batch, mx.array([2, 0]), mx.array(9.0))
        expected = MATRIX.copy()
        expected[0, 2] = expected[1, 0] = 9
        np.testing.assert_array_equal(np.array(found), expected + 1)
        np.testing.assert_array_equal(np.array(batch), MATRIX)

    def test_assignment_to_something_shared(self) -> None:
        def update(x: mx.array) -> mx.array:
            table = mx.zeros((2, 3))
            table[1] = x
            table[:, 0] += x[2]
            return table

        found = mx.vmap(update)(array_of(mx))
        for row, table in zip(MATRIX, np.array(found), strict=True):
            np.testing.assert_array_equal(
                table, [[row[2], 0, 0], [row[0] + row[2], row[1], row[2]]]
            )

    def test_random_numbers_by_keys(self) -> None:
        keys = mx.random.split(mx.random.key(3), 4)
        found = mx.vmap(lambda key: mx.random.normal((2, 3), key=key))(keys)
        looped = [np.array(mx.random.normal((2, 3), key=key)) for key in keys]
        np.testing.assert_array_equal(np.array(found), np.stack(looped))
        assert len({row.tobytes() for row in looped}) == 4

    def test_random_numbers_without_keys_are_the_same_for_all(self) -> None:
        found = np.array(mx.vmap(lambda x: mx.random.uniform(shape=(3,)) + 0 * x)(array_of(mx)))
        np.testing.assert_array_equal(found[0], found[1])


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda x: mx.vmap(3), TypeError, r"fun must be a function, got int"),
        (
            lambda x: mx.vmap(abs, in_axes=None),
            TypeError,
            r"in_axes must be an int or a tree .* None",
        ),
        (lambda x: mx.vmap(abs, out_axes=None), TypeError, r"out_axes must be an int or a tree"),
        (lambda x: mx.vmap(abs, in_axes=(None,))(x), ValueError, r"no argument is mapped"),
        (lambda x: mx.vmap(lambda: x)(), ValueError, r"no argument is mapped"),
        (
            lambda x: mx.vmap(abs, in_axes="a")(x),
            ValueError,
            r"an axis must be an int or None, got 'a'",
        ),
        (
            lambda x: mx.vmap(abs, in_axes=1.0)(x),
            ValueError,
            r"an axis must be an int .* got 1\.0",
        ),
        (lambda x: mx.vmap(abs, in_axes=2)(x), IndexError, r"axis 2 is out of range .* \(2, 3\)"),
        (lambda x: mx.vmap(abs, in_axes=-3)(x), IndexError, r"axis -3 is out of range"),
        (lambda x: mx.vmap(abs)(x.sum()), IndexError, r"axis 0 is out of range .* shape \(\)"),
        (lambda x: mx.vmap(abs, out_axes=2)(x), IndexError, r"out_axes 2 is out of range"),
        (lambda x: mx.vmap(abs, out_axes=-3)(x), IndexError, r"out_axes -3 is out of range"),
        (
            lambda x: mx.vmap(lambda x, y: x)(x, x.T),
            ValueError,
            r"the mapped axes differ in length: 2 and 3",
        ),
        (
            lambda x: mx.vmap(lambda x, y: x, in_axes=(0, 0, 0))(x, x),
            ValueError,
            r"in_axes \(0, 0, 0\) does not match .* of the arguments, which have 2 items there",
        ),
        (
            lambda x: mx.vmap(lambda d: d["a"], in_axes=({"b": 0},))({"a": x}),
            ValueError,
            r"in_axes \{'b': 0\} does not match .* of the arguments, .* a dict of 'a' there",
        ),
        (
            lambda x: mx.vmap(lambda x: (x, x), out_axes=(0, 0, 0))(x),
            ValueError,
            r"out_axes \(0, 0, 0\) does not match the structure",
        ),
        (
            lambda x: mx.vmap(lambda x: (x, x), out_axes=(0, None))(x),
            ValueError,
            r"out_axes is None for a result that differs between the examples",
        ),
        (
            lambda x: mx.vmap(abs)(x=x),
            TypeError,
            r"keyword arguments cannot .* \['x'\]",
        ),
        (
            lambda x: mx.vmap(lambda x, y: x)(x, 3.0),
            ValueError,
            r"only arrays can be mapped, got float: 3\.0\. Give it the axis None",
        ),
        (
            lambda x: mx.vmap(lambda x: (x, 3))(x),
            ValueError,
            r"the results of the function may hold arrays only, got int: 3",
        ),
    ],
)
def test_errors(call: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=r"^\[vmap\] " + message):
        call(array_of(mx))


@pytest.mark.parametrize(
    "function",
    [lambda x: x if x.sum() > 0 else -x, lambda x: x * x.sum().item(), lambda x: x + mx.eval(x)],  # type: ignore[func-returns-value]
)
def test_values_are_not_there_while_a_function_is_mapped(function: Any) -> None:
    with pytest.raises(ValueError, match=r"\[eval\] .*no value"):
        mx.vmap(function)(array_of(mx))
    np.testing.assert_array_equal(np.array(mx.vmap(mx.negative)(array_of(mx))), -MATRIX)


def test_names_are_kept() -> None:
    def named(x: mx.array) -> mx.array:
        """Documented."""
        return x

    assert mx.vmap(named).__name__ == "named"
    assert mx.vmap(named).__doc__ == "Documented."


LOGITS = np.log(np.array([0.2, 0.5, 0.3], np.float32))
COVARIANCE = np.array([[2.0, 0.5], [0.5, 1.0]], np.float32)

RANDOM = {
    "uniform": lambda m, key: m.random.uniform(2, 3, (4,), key=key),
    "normal": lambda m, key: m.random.normal((4,), key=key),
    "bernoulli": lambda m, key: m.random.bernoulli(0.3, (16,), key=key),
    "randint": lambda m, key: m.random.randint(0, 1000, (4,), key=key),
    "truncated_normal": lambda m, key: m.random.truncated_normal(-1.0, 1.0, (4,), key=key),
    "gumbel": lambda m, key: m.random.gumbel((4,), key=key),
    "laplace": lambda m, key: m.random.laplace((4,), key=key),
    "categorical": lambda m, key: m.random.categorical(m.array(LOGITS), shape=(16,), key=key),
    "permutation": lambda m, key: m.random.permutation(m.arange(8), key=key),
    "multivariate_normal": lambda m, key: m.random.multivariate_normal(
        m.zeros((2,)), m.array(COVARIANCE), (3,), key=key
    ),
    "split": lambda m, key: m.random.split(key, 3),
}


@pytest.mark.parametrize("name", RANDOM)
def test_random_functions_by_keys(name: str) -> None:
    draw = RANDOM[name]
    keys = mx.random.split(mx.random.key(5), 6).reshape(2, 3, 2)
    looped = np.stack([[np.array(draw(mx, key)) for key in row] for row in keys])
    assert len({x.tobytes() for row in looped for x in row}) > 3
    found = mx.vmap(mx.vmap(lambda key: draw(mx, key)))(keys)
    np.testing.assert_array_equal(np.array(found), looped)
    found = mx.vmap(mx.vmap(lambda key: draw(mx, key)), in_axes=1, out_axes=1)(keys)
    np.testing.assert_array_equal(np.array(found), looped)


@pytest.mark.parametrize("name", ["uniform", "bernoulli", "randint"])
def test_random_functions_by_parameters(name: str) -> None:
    key = mx.random.key(7)
    highs = mx.array([1.0, 5.0, 50.0]) if name != "bernoulli" else mx.array([0.1, 0.5, 0.9])

    def draw(high: mx.array) -> mx.array:
        if name == "uniform":
            return mx.random.uniform(0, high, (4,), key=key)
        if name == "bernoulli":
            return mx.random.bernoulli(high, (16,), key=key)
        return mx.random.randint(0, high.astype(mx.int32), (4,), key=key)

    looped = [np.array(draw(high)) for high in highs]
    np.testing.assert_array_equal(np.array(mx.vmap(draw)(highs)), np.stack(looped))
