"""Reading attributes of modules, whose items are attributes too, against MLX."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest
from tests.nn.both import BOTH, INGOT, MLX

import ingot.core as mx
import ingot.nn as nn

Story = Callable[[Any], Any]


def found(module: Any, *names: str) -> list[Any]:
    """What attributes are, or the error that reading them raises; arrays as lists."""
    values: list[Any] = []
    for name in names:
        try:
            value = getattr(module, name)
        except AttributeError as error:
            value = f"AttributeError: {error}"
        values.append(value.tolist() if hasattr(value, "tolist") else value)
    return values


def plain(library: Any) -> Any:
    module = library.nn.Module()
    module.items_too = library.mx.array([1, 2])
    module.number = 3
    module["direct"] = 4
    module["nothing"] = None
    module.none = None
    return found(module, "items_too", "number", "direct", "nothing", "none", "missing", "training")


def shadowed(library: Any) -> Any:
    """Attributes of the instance and of the class come before items."""

    class Model(library.nn.Module):  # type: ignore[name-defined]
        constant = "class"
        method = len

        @property
        def computed(self) -> str:
            return "computed"

        @property
        def failing(self) -> Any:
            return self.missing

    module = Model()
    module.own = "instance"
    for name in ("own", "constant", "computed", "failing", "method", "other"):
        module[name] = f"item {name}"
    before = found(module, "own", "constant", "computed", "failing", "other")
    del module["failing"]
    method: Any = module.method
    return before, found(module, "failing"), method is len


def overridden(library: Any) -> Any:
    """Subclasses that override `__getattr__`, and their subclasses."""

    class Wrapper(library.nn.Module):  # type: ignore[name-defined]
        def __getattr__(self, name: str) -> Any:
            try:
                return super().__getattr__(name)
            except AttributeError:
                return f"wrapped {name}"

    class Child(Wrapper):
        pass

    results = []
    for kind in (Wrapper, Child):
        module = kind()
        module["weight"] = library.mx.array([1])
        results.append(found(module, "weight", "anything", "training"))
    return results


def intercepted(library: Any) -> Any:
    """Subclasses that override `__getattribute__`."""
    names = []

    class Noisy(library.nn.Module):  # type: ignore[name-defined]
        def __getattribute__(self, name: str) -> Any:
            if not name.startswith("_"):
                names.append(name)
            return super().__getattribute__(name)

    module = Noisy()
    module.weight = library.mx.array([1])
    names.clear()
    return found(module, "weight", "missing"), [name for name in names if name != "get"]


def mixed(library: Any) -> Any:
    """Classes that come before Module in the order of bases."""

    class Loose:
        def __getattr__(self, name: str) -> Any:
            return f"loose {name}"

    class Model(Loose, library.nn.Module):  # type: ignore[name-defined]
        pass

    module = Model()
    module["weight"] = library.mx.array([1])
    return found(module, "weight", "number", "training")


def changed(library: Any) -> Any:
    """Methods that a class gets and loses while it has instances."""

    class Model(library.nn.Module):  # type: ignore[name-defined]
        pass

    class Child(Model):
        pass

    module = Child()
    module.weight = library.mx.array([1])
    names = ("weight", "missing", "training")
    results = [found(module, *names), found(module, *names)]
    for attribute, rule in (
        ("__getattr__", lambda self, name: f"fallback {name}"),
        ("__getattribute__", lambda self, name: f"all {name}"),
    ):
        for kind in (Model, Child):
            setattr(kind, attribute, rule)
            results.append(found(module, *names))
            delattr(kind, attribute)
            results.append(found(module, *names))
    Model.missing = "class"
    return results, found(module, *names)


def presence(library: Any) -> Any:
    module = library.nn.Linear(2, 2)
    module["none"] = None
    default = getattr(module, "missing", "default")
    return [hasattr(module, name) for name in ("weight", "missing", "none", "__call__")], default


@pytest.mark.parametrize(
    "story", [plain, shadowed, overridden, intercepted, mixed, changed, presence]
)
def test_attributes_equal_mlx(story: Story) -> None:
    assert story(INGOT) == story(MLX)


def test_methods_can_be_called_by_name() -> None:
    for library in BOTH:
        module = library.nn.Linear(2, 3)
        assert library.nn.Module.__getattr__(module, "weight").shape == (3, 2)
        assert library.nn.Module.__getattribute__(module, "training") is True
        assert object.__getattribute__(module, "training") is True
        with pytest.raises(AttributeError, match="has no attribute 'weight'"):
            object.__getattribute__(module, "weight")
    with pytest.raises(TypeError, match="'dict' objects"):
        nn.Module.__getattr__(3, "real")


def test_attributes_during_a_trace_and_after_it() -> None:
    model = nn.Linear(2, 2, bias=False)
    model.factor = 2.0
    calls = []

    @mx.compile
    def scaled(x: mx.array) -> mx.array:
        calls.append(1)
        return model(x) * model.factor

    x = mx.ones((1, 2))
    first = scaled(x).tolist()
    assert model.weight.shape == (2, 2)
    assert scaled(x).tolist() == first
    assert len(calls) == 1
    model.factor = 3.0
    assert scaled(x).tolist() == [[pytest.approx(value * 1.5) for value in first[0]]]
    assert len(calls) == 2


def test_every_protocol_of_pickle() -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        other = pickle.loads(pickle.dumps(model, protocol))
        assert type(other) is nn.Sequential
        assert other.layers[0].weight.tolist() == model.layers[0].weight.tolist()
    assert nn.Module.__mro__ == (nn.Module, dict, object)
