"""`nn.Module` against the real one, its weights, and calls with other parameters than its own."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from tests.nn.both import BOTH, INGOT, flat, numbers

import ingot.core as mx
import ingot.nn as nn
from ingot.utils import tree_flatten, tree_map


def make_model(library: Any) -> Any:
    """A model with everything that a module may hold."""
    mx, nn = library.mx, library.nn

    class Block(nn.Module):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(2, 2)
            self.norm = nn.BatchNorm(2)

    class Model(nn.Module):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.scale = mx.array([2.0])
            self.count = 3
            self.name = "model"
            self.nothing = None
            self._hidden = mx.array([1.0, 2.0])
            self.blocks = [Block(), Block()]
            self.tables = {"a": mx.zeros((2,)), "deep": {"b": nn.Linear(1, 1)}, "no": [3]}
            self.weights = [mx.ones((1,)), [mx.ones((2,))]]
            self.pair = (mx.ones((3,)), nn.Linear(1, 2))
            self.activation = nn.relu
            self.head = nn.Sequential(nn.Linear(2, 1), nn.ReLU())

    library.mx.random.seed(5)
    return Model()


def shapes(library: Any, tree: Any) -> Any:
    """The tree with shapes for arrays and class names for modules."""

    def text(leaf: Any) -> str:
        if isinstance(leaf, library.nn.Module):
            return type(leaf).__name__
        return str(leaf.shape) if isinstance(leaf, library.mx.array) else repr(leaf)

    return library.utils.tree_map(
        text, tree, is_leaf=lambda leaf: isinstance(leaf, library.nn.Module)
    )


def paths(library: Any, tree: Any) -> list[str]:
    return [path for path, _ in library.utils.tree_flatten(tree)]


LOOKS = {
    "parameters": lambda m: m.parameters(),
    "trainable": lambda m: m.trainable_parameters(),
    "children": lambda m: m.children(),
    "leaf_modules": lambda m: m.leaf_modules(),
    "frozen": lambda m: m.freeze().trainable_parameters(),
    "frozen_here": lambda m: m.freeze(recurse=False).trainable_parameters(),
    "frozen_bias": lambda m: m.freeze(keys="bias").trainable_parameters(),
    "frozen_keys": lambda m: m.freeze(keys=["bias", "scale"]).trainable_parameters(),
    "frozen_nested": lambda m: m.freeze(keys=["weights.0", "tables"]).trainable_parameters(),
    "frozen_block": lambda m: m.blocks[0].freeze() and m.trainable_parameters(),
    "thawed": lambda m: m.freeze().unfreeze(keys=["weight"]).trainable_parameters(),
    "thawed_here": lambda m: m.freeze().unfreeze(recurse=False).trainable_parameters(),
    "thawed_head": lambda m: m.freeze() and m.head.unfreeze() and m.trainable_parameters(),
    "strict": lambda m: m.freeze(keys="bias", strict=True).trainable_parameters(),
    "filter": lambda m: m.filter_and_map(
        lambda module, key, value: hasattr(value, "shape") and key != "scale"
    ),
    "map": lambda m: m.filter_and_map(
        m.valid_parameter_filter, lambda x: x.reshape(-1, 1) if x.ndim == 1 else x
    ),
}


@pytest.mark.parametrize("name", LOOKS)
def test_tree_equals_mlx(name: str) -> None:
    ours, theirs = (shapes(library, LOOKS[name](make_model(library))) for library in BOTH)
    assert ours == theirs
    assert list(ours) == list(theirs)


def test_text_equals_mlx() -> None:
    ours, theirs = (repr(make_model(library)) for library in BOTH)
    assert ours == theirs
    assert repr(nn.Module()) == "Module()"


def test_modules_equal_mlx_in_order() -> None:
    ours, theirs = (
        [(path, type(module).__name__) for path, module in make_model(library).named_modules()]
        for library in BOTH
    )
    assert ours == theirs
    model = make_model(INGOT)
    assert model.modules()[0] is model
    assert len(model.modules()) == len(ours)


def test_attributes_that_are_arrays_or_containers_are_items() -> None:
    model = make_model(INGOT)
    assert set(model) == {
        *("scale", "_hidden", "blocks", "tables", "weights", "pair", "head"),
    }
    assert model.state is model
    assert (model.count, model.name, model.nothing) == (3, "model", None)
    model.count = mx.array(1)
    assert "count" in model
    model.count = 5
    assert "count" not in model
    assert model.count == 5
    del model.scale
    del model.count
    for name in ("scale", "count", "unknown"):
        with pytest.raises(AttributeError, match=name):
            getattr(model, name)
    with pytest.raises(AttributeError):
        del model.unknown


def test_update_replaces_what_it_is_given() -> None:
    model = make_model(INGOT)
    kept = model.blocks[0].linear.weight
    new = mx.array([[7.0, 7.0], [7.0, 7.0]])
    assert model.update({"blocks": [{}, {"linear": {"weight": new}}], "scale": new}) is model
    assert model.blocks[1].linear.weight is new
    assert model.scale is new
    assert model.blocks[0].linear.weight is kept


BAD_UPDATES = [
    ({"nothing": {}}, 'no parameter named "nothing" to replace: Model has scale, _hidden'),
    ({"blocks": [{}, {}, {}]}, "no parameter at position 2 .* the list has 2 items"),
    ({"scale": 3.0}, 'expected an array for parameter "scale", got float'),
    ({"weights": [[mx.ones(1)]]}, 'expected an array for parameter "0", got list'),
    ({"blocks": mx.ones((1,))}, "expected a dict or a list of parameters .* got array"),
    ({"head": {"layers": {"0": {}}}}, 'no parameter named "0" .* the list has 2 items'),
    ([mx.ones((1,))], "no parameter at position 0"),
]


@pytest.mark.parametrize(("tree", "message"), BAD_UPDATES)
def test_strict_update_fails_and_changes_nothing(tree: Any, message: str) -> None:
    model = make_model(INGOT)
    before = [value for _, value in tree_flatten(model.parameters())]
    if isinstance(tree, dict):
        tree = {"_hidden": mx.zeros((9,)), **tree}
    with pytest.raises(ValueError, match=message):
        model.update(tree)
    after = [value for _, value in tree_flatten(model.parameters())]
    assert all(a is b for a, b in zip(after, before, strict=True))
    assert model._hidden.shape == (2,)
    model.update({"unknown": 1, "blocks": [{}, {}, {"x": 1}]}, strict=False)


def test_update_modules() -> None:
    model = make_model(INGOT)
    new = nn.Linear(2, 1)
    model.update_modules({"head": {"layers": [new]}, "tables": {"a": {}, "deep": {"b": new}}})
    assert model.head.layers[0] is new
    assert model.tables["deep"]["b"] is new
    model.update_modules(model.leaf_modules())
    model.update_modules({"unknown": new, "blocks": [{}, {}, new]}, strict=False)
    kept = model.head
    for tree, message in (
        ({"head": new, "unknown": new}, 'no module named "unknown"'),
        ({"head": new, "blocks": [{}, {}, new]}, "no module at position 2"),
        ({"head": new, "scale": new}, '"scale", which is not a module, got Linear'),
        ({"head": new, "blocks": 3}, "expected a dict or a list of modules"),
    ):
        with pytest.raises(ValueError, match=message):
            model.update_modules(tree)
        assert model.head is kept


def test_freeze_refuses_unknown_keys_when_strict() -> None:
    model = make_model(INGOT)
    for method in (model.freeze, model.unfreeze):
        method(keys=["bias", "unknown"])
        method(keys="bias", strict=True)
        with pytest.raises(KeyError, match="unknown"):
            method(keys=["bias", "unknown"], strict=True)
        with pytest.raises(KeyError, match="bias"):
            method(keys="bias", strict=True, recurse=False)


def test_training_mode() -> None:
    model = make_model(INGOT)
    assert model.training
    assert model.eval() is model
    assert not any(module.training for module in model.modules())
    model.train()
    assert all(module.training for module in model.modules())


def test_training_mode_goes_through_a_method() -> None:
    class Watched(nn.Module):
        def _set_training_mode(self, mode: bool) -> None:
            super()._set_training_mode(mode)
            self.seen = mode

    model = nn.Sequential(Watched())
    assert model.eval().layers[0].seen is False


def test_apply_maps_parameters() -> None:
    model = make_model(INGOT)
    assert model.apply(lambda x: x.astype(mx.float16)) is model
    assert {x.dtype for _, x in tree_flatten(model.parameters())} == {mx.float16}
    assert model._hidden.dtype == mx.float32
    model.apply(
        lambda x: x + 1,
        filter_fn=lambda module, key, value: key.startswith("_"),
    )
    assert model._hidden.tolist() == [2.0, 3.0]
    model.apply(map_fn=lambda x: x.astype(mx.float32))
    assert model.scale.dtype == mx.float32


def test_set_dtype() -> None:
    model = nn.Linear(2, 2)
    model.number = mx.array([1, 2])
    model.set_dtype(mx.bfloat16)
    assert (model.weight.dtype, model.number.dtype) == (mx.bfloat16, mx.int32)
    model.set_dtype(mx.float32, predicate=None)
    assert model.number.dtype == mx.float32
    model.set_dtype(mx.float16, lambda dtype: dtype == mx.int32)
    assert model.weight.dtype == mx.float32


def test_load_weights_from_pairs() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    other = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    weights = tree_flatten(other.parameters())
    assert model.load_weights(weights) is model
    assert model.layers[1].weight is other.layers[1].weight
    model.load_weights(
        [("layers.0.bias", mx.zeros((5,))), ("layers.7000000000.x", mx.zeros(()))], False
    )
    assert model.layers[0].bias.shape == (5,)
    assert model.load_weights([], strict=False) is model


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda w: {**w, "b.c": 1, "a": 1}, "received 2 parameters not in the model: a, b.c"),
        (
            lambda w: {"layers.0.weight": w["layers.0.weight"]},
            r" 1 parameter of .* layers.0.bias\. With strict=False",
        ),
        (lambda w: {**w, "layers.0.bias": 1}, "expected an array for layers.0.bias, got int"),
        (
            lambda w: {**w, "layers.0.bias": mx.zeros((3,))},
            r"expected shape \(2,\) for layers.0.bias, got \(3,\)",
        ),
    ],
)
def test_strict_load_fails_and_changes_nothing(change: Any, message: str) -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    weight = model.layers[0].weight
    weights = {path: value + 1 for path, value in tree_flatten(model.parameters())}
    with pytest.raises(ValueError, match=message):
        model.load_weights(list(change(weights).items()))
    assert model.layers[0].weight is weight


@pytest.mark.parametrize("ending", ["npz", "safetensors"])
def test_weights_survive_a_file(ending: str, tmp_path: Any) -> None:
    model = make_model(INGOT)
    path = tmp_path / f"weights.{ending}"
    model.save_weights(str(path))
    before = flat(INGOT, model.parameters())
    model.apply(lambda x: x * 0)
    model.load_weights(path)
    after = flat(INGOT, model.parameters())
    assert list(after) == list(before)
    for name, value in after.items():
        np.testing.assert_array_equal(value, before[name])


def test_weights_are_not_saved_in_unknown_formats() -> None:
    with pytest.raises(ValueError, match=r"cannot tell the format from 'weights.pt'"):
        nn.Linear(1, 1).save_weights("weights.pt")


def test_modules_can_be_copied_and_pickled() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm(2))
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert repr(other) == repr(model)
        assert other.layers[1]._no_grad == {"running_mean", "running_var"}
        assert other.layers[0].weight.tolist() == model.layers[0].weight.tolist()
        other.update({"layers": [{"bias": mx.zeros((9,))}]})
        assert model.layers[0].bias.shape == (2,)


# Calls with other parameters


class Counting(nn.Module):
    """A model that changes itself when it is called, in place and otherwise."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = [nn.Linear(3, 3), nn.BatchNorm(3)]
        self.calls = mx.array(0)
        self.note: Any = None

    def __call__(self, x: mx.array, factor: float = 1.0, fail: bool = False) -> mx.array:
        self.calls += 1
        self.note = x
        self.extra = [x]
        self.layers.append(nn.ReLU())
        self.layers[0].weight *= 1.0
        if fail:
            raise RuntimeError("asked for")
        return self.layers[1](self.layers[0](x)) * factor


def snapshot(model: Any) -> Any:
    return (
        repr(model),
        dict(model),
        dict(vars(model)),
        [(path, id(value)) for path, value in tree_flatten(dict(model))],
        {path: value.tolist() for path, value in tree_flatten(model.parameters())},
    )


@pytest.mark.parametrize("fail", [False, True])
def test_apply_calls_with_other_parameters_purely(fail: bool) -> None:
    model = Counting()
    x = mx.array(numbers(4, 3))
    parameters = tree_map(lambda p: p + 1, model.parameters())
    values = {path: value.tolist() for path, value in tree_flatten(parameters)}
    before = snapshot(model)
    if fail:
        with pytest.raises(RuntimeError, match="asked for"):
            model.apply(parameters, x, fail=True)
    else:
        result = model.apply(parameters, x, factor=2.0)
        expected = Counting().update(parameters)(x, factor=2.0)
        np.testing.assert_allclose(np.array(result), np.array(expected), rtol=1e-6)
    assert snapshot(model)[0] == before[0]
    assert snapshot(model)[3:] == before[3:]
    assert vars(model) == before[2]
    parameters["calls"] = mx.array(1)  # the copy in the expected model counted in place
    values["calls"] = 1
    assert {path: value.tolist() for path, value in tree_flatten(parameters)} == values


def test_apply_takes_a_part_of_the_parameters() -> None:
    model = nn.Linear(3, 2)
    x = mx.array(numbers(4, 3))
    result = model.apply({"bias": mx.array([5.0, 6.0])}, x)
    expected = np.array(x) @ np.array(model.weight).T + np.array([5.0, 6.0])
    np.testing.assert_allclose(np.array(result), expected, rtol=1e-5)


def test_apply_refuses_unknown_parameters() -> None:
    model = nn.Linear(3, 2)
    weight = model.weight
    with pytest.raises(ValueError, match='no parameter named "wheight"'):
        model.apply({"weight": weight + 1, "wheight": weight}, mx.zeros((3,)))
    assert model.weight is weight


def test_apply_under_transforms() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.0), nn.Tanh(), nn.Linear(4, 1))
    x = mx.array(numbers(5, 3))
    parameters = model.parameters()

    def loss(parameters: Any, x: mx.array) -> mx.array:
        return mx.square(model.apply(parameters, x)).mean()

    gradients = mx.grad(loss)(parameters, x)
    expected = nn.value_and_grad(model, lambda x: mx.square(model(x)).mean())(x)[1]
    assert_close(gradients, expected)
    assert_close(mx.compile(mx.grad(loss))(parameters, x), expected)
    assert_close(mx.grad(mx.compile(loss))(parameters, x), expected)

    ensemble = tree_map(lambda p: mx.stack([p, 2 * p, -p]), parameters)
    together = mx.vmap(model.apply, in_axes=(0, None))(ensemble, x)
    for index, factor in enumerate([1, 2, -1]):
        scaled = tree_map(lambda p, factor=factor: factor * p, parameters)
        np.testing.assert_allclose(
            np.array(together[index]), np.array(model.apply(scaled, x)), rtol=1e-5, atol=1e-6
        )
    each = mx.vmap(mx.grad(loss), in_axes=(None, 0))(parameters, x)
    assert_close(tree_map(lambda g: g.mean(axis=0), each), expected)
    assert all(
        a is b
        for (_, a), (_, b) in zip(*map(tree_flatten, (model.parameters(), parameters)), strict=True)
    )


def assert_close(tree: Any, expected: Any) -> None:
    ours, theirs = flat(INGOT, tree), flat(INGOT, expected)
    assert list(ours) == list(theirs)
    for path, value in ours.items():
        np.testing.assert_allclose(value, theirs[path], rtol=1e-4, atol=1e-6, err_msg=path)


@pytest.mark.parametrize("name", ["keys", "values", "items", "update"])
def test_names_of_methods_are_refused_with_a_sentence(name: str) -> None:
    for library in BOTH:
        with pytest.raises(AttributeError, match=name):
            setattr(library.nn.Module(), name, library.nn.Linear(2, 2))
    with pytest.raises(AttributeError, match="is a method of modules, which are dicts"):
        setattr(nn.Module(), name, mx.ones(2))
