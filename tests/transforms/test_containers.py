"""Containers as arguments of differentiated functions: the caller sees what happens to them."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

import mlx.core as mlx
import numpy as np
import pytest

import ingot.core as mx
import ingot.nn as nn
from ingot import optimizers, utils


class Pair(NamedTuple):
    a: Any
    b: Any


class Narrow(Pair):
    """A named tuple whose constructor takes something else than its fields."""

    def __new__(cls, both: Any) -> Any:
        return super().__new__(cls, both, both)


class Tagged(tuple[Any, ...]):
    """A tuple with a constructor and an attribute of its own."""

    def __new__(cls, a: Any, b: Any, tag: str = "first") -> Any:
        made = super().__new__(cls, (a, b))
        made.tag = tag  # type: ignore[attr-defined]
        return made


class Plain(tuple[Any, ...]):
    pass


class Listed(list[Any]):
    pass


def vector(m: Any, start: float = 1) -> Any:
    return m.array([float(start), start + 1.0, start + 2.0])


def plain(tree: Any) -> Any:
    """The tree with lists of numbers in place of arrays, and the names of its containers."""
    if isinstance(tree, (mx.array, mlx.array)):
        return tree.tolist()
    if isinstance(tree, dict):
        return type(tree).__name__, [(key, plain(value)) for key, value in tree.items()]
    if isinstance(tree, (list, tuple)):
        return type(tree).__name__, [plain(value) for value in tree]
    return tree


# Functions of a module like mlx.core: an argument, and a loss that changes it.


def replaces_items(m: Any) -> tuple[Any, Callable[[Any], Any]]:
    def loss(tree: Any) -> Any:
        value = (tree["w"] * tree["list"][0]).sum()
        tree["w"] = tree["w"] * 2
        tree["list"][0] = tree["w"] + 1
        return value

    return {"w": vector(m), "list": [vector(m, 3)]}, loss


def replaces_a_list(m: Any) -> tuple[Any, Callable[[Any], Any]]:
    def loss(tree: Any) -> Any:
        tree["w"] += 1
        tree["list"] = [tree["w"]]
        return (tree["w"] * tree["list"][0]).sum()

    return {"w": vector(m), "list": [vector(m, 3)]}, loss


def updates_in_place(m: Any) -> tuple[Any, Callable[[Any], Any]]:
    def loss(tree: Any) -> Any:
        tree[0][1] = 7.0
        tree[1] -= tree[0]
        return (tree[0] * tree[1]).sum()

    return [vector(m), vector(m, 2)], loss


def changes_a_list_in_a_named_tuple(m: Any) -> tuple[Any, Callable[[Any], Any]]:
    def loss(tree: Any) -> Any:
        tree.b[0] = tree.a * 5
        return (tree.a * tree.b[0]).sum()

    return Pair(vector(m), [vector(m, 4)]), loss


def changes_a_subclass_of_list(m: Any) -> tuple[Any, Callable[[Any], Any]]:
    def loss(tree: Any) -> Any:
        assert type(tree) is Listed
        tree[1] = tree[0] * tree[1]
        return (tree[0] * tree[1]).sum()

    return Listed([vector(m), vector(m, 2)]), loss


def swaps(m: Any) -> tuple[Any, Callable[[Any], Any]]:
    def loss(tree: Any) -> Any:
        value = (tree["x"] * tree["y"] * tree["y"]).sum()
        tree["x"], tree["y"] = tree["y"] * 1, tree["x"] * 1
        return value

    return OrderedDict(x=vector(m), y=vector(m, 2)), loss


BOTH = [
    replaces_items,
    replaces_a_list,
    updates_in_place,
    changes_a_list_in_a_named_tuple,
    changes_a_subclass_of_list,
    swaps,
]


@pytest.mark.parametrize("example", BOTH)
@pytest.mark.parametrize("form", ["grad", "value_and_grad", "argnames", "raises"])
def test_the_caller_sees_changes_as_with_mlx(example: Any, form: str) -> None:
    def run(m: Any) -> Any:
        tree, loss = example(m)
        if form == "grad":
            return plain((m.grad(loss)(tree), tree))
        if form == "value_and_grad":
            return plain((m.value_and_grad(loss)(tree), tree))
        if form == "argnames":
            found = m.grad(lambda given: loss(given), argnames="given")(given=tree)
            return plain((found[1], tree))

        def failing(given: Any) -> Any:
            loss(given)
            raise KeyError("no")

        with pytest.raises(KeyError):
            m.grad(failing)(tree)
        return plain(tree)

    assert run(mx) == run(mlx)


# MLX 0.3x crashes for these: what is right is what the function does when it is called as it is.


def appends(m: Any) -> tuple[Any, Callable[[Any], Any]]:
    def loss(tree: Any) -> Any:
        tree["new"] = tree["w"] + 1
        tree["list"].append(tree["new"] * tree["w"])
        tree["inner"] = {"w": tree["w"], "pair": Pair(tree["w"], [tree["list"][0]])}
        tree["count"] = 3
        return (tree["w"] * tree["list"][-1]).sum()

    return {"w": vector(m), "list": [vector(m, 3)]}, loss


def removes(m: Any) -> tuple[Any, Callable[[Any], Any]]:
    def loss(tree: Any) -> Any:
        gone = tree.pop("w")
        tree["list"] = tree["list"] * 2
        tree["w"] = gone * 2
        return (gone * tree["list"][1]).sum()

    return {"w": vector(m), "list": [vector(m, 3)]}, loss


def changes_a_named_tuple_in_a_dict(m: Any) -> tuple[Any, Callable[[Any], Any]]:
    def loss(tree: Any) -> Any:
        tree["pair"] = tree["pair"]._replace(a=tree["pair"].a * tree["pair"].b)
        tree["same"] = tree["other"]
        return (tree["pair"].a * tree["pair"].b).sum()

    return {"pair": Pair(vector(m), vector(m, 3)), "other": Plain([vector(m)])}, loss


@pytest.mark.parametrize("example", [*BOTH, appends, removes, changes_a_named_tuple_in_a_dict])
def test_the_caller_sees_what_a_plain_call_does(example: Any) -> None:
    tree, loss = example(mx)
    expected_value = loss(tree)
    for transform in ("value_and_grad", "vjp", "jvp", "nested", "compiled"):
        given, loss = example(mx)
        if transform == "value_and_grad":
            value, _ = mx.value_and_grad(loss)(given)
        elif transform == "vjp":
            (value,), _ = mx.vjp(loss, [given], [mx.array(1.0)])
        elif transform == "jvp":
            (value,), _ = mx.jvp(loss, [given], [given])
        elif transform == "nested":
            value, _ = mx.value_and_grad(lambda g, f=loss: mx.value_and_grad(f)(g)[0])(given)
        else:

            @mx.compile
            def both(scale: mx.array, example: Any = example) -> Any:
                inner, inner_loss = example(mx)
                inner_value, _ = mx.value_and_grad(inner_loss)(inner)
                return inner_value * scale, inner

            value, given = both(mx.array(1.0))
        assert value.item() == expected_value.item(), transform
        assert plain(given) == plain(tree), transform


def test_what_is_not_changed_keeps_its_identity() -> None:
    tree = {"w": vector(mx), "list": [vector(mx)], "pair": Pair(vector(mx), [vector(mx)])}
    before = dict(tree)
    first, inner = tree["list"][0], tree["pair"].b

    def loss(p: Any) -> Any:
        p["more"] = [p["w"], p["list"], p["pair"]]
        p["w"] = p["w"] * 2
        return p["w"].sum()

    mx.grad(loss)(tree)
    assert tree["list"] is before["list"]
    assert tree["list"][0] is first
    assert tree["pair"] is before["pair"]
    assert tree["pair"].b is inner
    assert tree["w"] is not before["w"]
    for item, key in zip(tree["more"], ["w", "list", "pair"], strict=True):
        assert item is before[key]


def test_a_module_keeps_what_the_loss_sets() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    first = model.layers[0]

    def loss(given: Any, x: mx.array) -> mx.array:
        assert type(given) is nn.Sequential
        value = given(x).sum()
        given.layers[1] = nn.Linear(3, 2, bias=False)
        given.layers[0].scale = given.layers[0].weight.sum()
        given.layers[0].calls = 4
        return value

    gradients = mx.grad(loss)(model, mx.ones((1, 2)))
    assert gradients["layers"][1]["weight"].shape == (1, 3)
    assert model.layers[0] is first
    assert first.calls == 4
    assert "bias" not in model.layers[1]
    assert model.layers[1].weight.shape == (2, 3)
    np.testing.assert_allclose(first.scale.item(), np.array(first.weight).sum(), rtol=1e-5)


def test_new_values_belong_to_the_enclosing_transform() -> None:
    def outer(x: mx.array) -> mx.array:
        tree = {"w": x}

        def inner(p: Any) -> mx.array:
            p["square"] = p["w"] * p["w"]
            return p["square"].sum()

        gradient = mx.grad(inner)(tree)["w"]
        return (tree["square"] * gradient).sum()  # x**2 * 2x

    found = mx.grad(outer)(mx.array([1.0, 2.0]))
    np.testing.assert_allclose(np.array(found), [6, 24])


def test_a_container_that_is_there_twice_is_refused_if_it_is_changed() -> None:
    shared = [vector(mx)]

    def reads(tree: Any) -> mx.array:
        return (tree["p"][0] * tree["q"][0]).sum()

    def changes(tree: Any) -> mx.array:
        tree["p"].append(tree["q"][0])
        return reads(tree)

    found = mx.grad(reads)({"p": shared, "q": shared})
    assert plain(found) == ("dict", [("p", ("list", [[1, 2, 3]])), ("q", ("list", [[1, 2, 3]]))])
    with pytest.raises(ValueError, match=r"\[grad\] the function changes a list that is 2 times"):
        mx.grad(changes)({"p": shared, "q": shared})
    with pytest.raises(ValueError, match=r"\[vjp\] the function changes a list"):
        mx.vjp(lambda p, q: changes({"p": p, "q": q}), [shared, shared], [mx.array(1.0)])
    assert len(shared) == 1


def test_threads_that_share_containers_do_not_meet() -> None:
    parameters = {"w": vector(mx), "list": [vector(mx, 3)]}
    start = threading.Barrier(4)
    found: list[Any] = []

    def loss(p: Any, scale: float) -> mx.array:
        p["w"] * scale
        time.sleep(0.002)  # others are in their losses meanwhile
        return (p["w"] * p["list"][0] * scale).sum()

    def work(scale: float) -> None:
        start.wait()
        for _ in range(5):
            gradient = mx.grad(loss)(parameters, scale)
            found.append((scale, gradient["w"].tolist(), gradient["list"][0].tolist()))

    threads = [threading.Thread(target=work, args=(float(n + 1),)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 20
    for scale, first, second in found:
        assert first == [3 * scale, 4 * scale, 5 * scale]
        assert second == [scale, 2 * scale, 3 * scale]
    assert plain(parameters) == ("dict", [("w", [1, 2, 3]), ("list", ("list", [[3, 4, 5]]))])


# Named tuples and other tuples come back as what they were


TUPLES = [
    lambda: Pair(vector(mx), vector(mx, 2)),
    lambda: Narrow(vector(mx)),
    lambda: Plain([vector(mx), vector(mx, 2)]),
    lambda: Tagged(vector(mx), vector(mx, 2), tag="mine"),
]


def through_grad(given: Any) -> Any:
    return mx.grad(lambda p: (p[0] * p[1]).sum())(given)


def through_value_and_grad(given: Any) -> Any:
    (_, seen), gradient = mx.value_and_grad(lambda p: ((p[0] * p[1]).sum(), p))(given)
    assert type(seen) is type(given)
    return gradient


def through_argnames(given: Any) -> Any:
    return mx.grad(lambda p: (p[0] * p[1]).sum(), argnames="p")(p=given)[1]["p"]


def through_vjp(given: Any) -> Any:
    return mx.vjp(lambda p: (p[0] * p[1]).sum(), [given], [mx.array(1.0)])[1][0]


def through_vmap(given: Any) -> Any:
    return mx.vmap(lambda p: p)(given)


def through_vmap_axes(given: Any) -> Any:
    axes = utils.tree_map(lambda _: 0, given)
    return mx.vmap(lambda p: p, in_axes=(axes,), out_axes=axes)(given)


def through_checkpoint(given: Any) -> Any:
    return mx.checkpoint(lambda p: p)(given)


def through_compile(given: Any) -> Any:
    return mx.compile(lambda p: p)(given)


def through_captured_state(given: Any) -> Any:
    state = {"p": given}

    def step(x: mx.array) -> mx.array:
        state["p"] = utils.tree_map(lambda y: y * x, state["p"])
        return x

    mx.compile(step, inputs=state, outputs=state)(mx.array(2.0))
    return state["p"]


def through_tree_map(given: Any) -> Any:
    return utils.tree_map(lambda x: x * 2, given)


def through_tree_merge(given: Any) -> Any:
    return utils.tree_merge(given, given, lambda a, b: a)


def through_an_optimizer(given: Any) -> Any:
    return optimizers.SGD(0.1, momentum=0.9).update(given, given)


@pytest.mark.parametrize("make", TUPLES)
@pytest.mark.parametrize(
    "through",
    [
        through_grad,
        through_value_and_grad,
        through_argnames,
        through_vjp,
        through_vmap,
        through_vmap_axes,
        through_checkpoint,
        through_compile,
        through_captured_state,
        through_tree_map,
        through_tree_merge,
        through_an_optimizer,
    ],
)
def test_tuples_come_back_as_what_they_were(make: Any, through: Any) -> None:
    given = make()
    found = through(given)
    assert type(found) is type(given)
    assert getattr(found, "tag", None) == getattr(given, "tag", None)
    assert [x.shape for x in found] == [(3,), (3,)]


@pytest.mark.parametrize("kind", [Pair._make, Plain])
def test_tuples_come_back_from_mlx_likewise(kind: Any) -> None:
    def run(m: Any) -> Any:
        given = kind([vector(m), vector(m, 2)])
        return plain(m.value_and_grad(lambda p: ((p[0] * p[1]).sum(), p))(given))

    assert run(mx) == run(mlx)


def test_tuples_of_types_in_c_are_trees_too() -> None:
    moment = time.gmtime(0)
    assert type(utils.tree_map(lambda x: x, moment)) is time.struct_time


# Trees in vjp and jvp


def test_vjp_and_jvp_of_trees_equal_those_of_arrays() -> None:
    def of_arrays(a: mx.array, b: mx.array, c: mx.array) -> list[mx.array]:
        return [a * b + c, (a * c).sum()]

    def of_trees(tree: Any, c: mx.array) -> list[mx.array]:
        return of_arrays(tree["a"], tree["list"][0], c)

    a, b, c = vector(mx), vector(mx, 2), vector(mx, 4)
    cotangents = [vector(mx, -1), mx.array(2.0)]
    expected, products = mx.vjp(of_arrays, [a, b, c], cotangents)
    found, trees = mx.vjp(of_trees, [{"a": a, "list": [b]}, c], cotangents)
    assert plain(found) == plain(expected)
    assert plain(trees) == plain([{"a": products[0], "list": [products[1]]}, products[2]])
    expected, products = mx.jvp(of_arrays, [a, b, c], [c, a, b])
    found, pushed = mx.jvp(of_trees, [{"a": a, "list": [b]}, c], [{"a": c, "list": [a]}, b])
    assert plain((found, pushed)) == plain((expected, products))


def test_tangents_must_be_shaped_like_the_primals() -> None:
    with pytest.raises(ValueError, match=r"\[jvp\] a primal with arrays like \{'a': None\}"):
        mx.jvp(lambda t: t["a"], [{"a": vector(mx)}], [[vector(mx)]])
    with pytest.raises(TypeError, match=r"\[vjp\] the primals may hold arrays only, got int: 3"):
        mx.vjp(lambda t: t["a"], [{"a": 3}], [vector(mx)])
