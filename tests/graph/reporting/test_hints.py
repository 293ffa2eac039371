"""Names that other libraries have: the error says what the name is here."""

import copy
import pickle
import re
from typing import Any

import numpy as np
import pytest

import ingot.core as mx
import ingot.nn as nn
import ingot.optimizers as optim
from ingot.graph.reporting.hints import ARRAY, INDEXED, MODULE, OPTIMIZER


class Forward(nn.Module):
    def forward(self, x: mx.array) -> mx.array:
        return x


THINGS: list[tuple[Any, dict[str, str]]] = [
    (mx.ones((2, 3)), ARRAY),
    (mx.ones((2, 3)).at[0], INDEXED),
    (nn.Linear(2, 3), MODULE),
    (optim.SGD(0.1), OPTIMIZER),
]


@pytest.mark.parametrize(("thing", "hints"), THINGS)
def test_every_hint(thing: Any, hints: dict[str, str]) -> None:
    for name, hint in hints.items():
        assert not hasattr(thing, name)
        assert name not in dir(thing)
        with pytest.raises(AttributeError) as caught:
            getattr(thing, name)
        assert str(caught.value).endswith(f"has no attribute {name!r}: {hint}.")


def test_hinted_calls_run() -> None:
    """What the hints for arrays propose is valid."""
    x, y = mx.array([[1.0, 2.0], [4.0, 3.0]]), mx.ones((2, 2))
    names: dict[str, Any] = {"mx": mx, "np": np, "x": x, "y": y, "axis": 0, "axes": (1, 0), "k": 1}
    names |= {"low": 0.0, "high": 1.0, "shape": (2, 2), "indices": mx.array([[0, 1]]), "value": 0.0}
    names |= {"mask": x > 2, "count": 2, "counts": (2, 1), "dtype": mx.float16, "f": mx.sum}
    proposals = {code for hint in ARRAY.values() for code in re.findall("`(.*?)`", hint)}
    for code in proposals:
        eval(code, dict(names))
    assert len(proposals) > 30


def test_names_that_a_class_defines() -> None:
    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.to = mx.ones((2,))
            self.half = nn.Linear(2, 2)
            self.cuda = "plain"

        def forward(self) -> str:
            return "forward"

    named = Named()
    assert named.to.tolist() == [1.0, 1.0]
    assert named.cuda == "plain"
    assert named.forward() == "forward"
    assert set(named.parameters()) == {"to", "half"}
    for copied in (copy.deepcopy(named.half), pickle.loads(pickle.dumps(named.half))):
        assert mx.array_equal(copied.weight, named.half.weight)


def test_module_without_call() -> None:
    with pytest.raises(TypeError, match=r"'Forward' object is not callable.*`forward` is named"):
        Forward()(mx.ones((2,)))
    with pytest.raises(TypeError, match=r"'Module' object is not callable: it defines no"):
        nn.Module()(mx.ones((2,)))


def test_keywords() -> None:
    x = mx.ones((2, 3))
    with pytest.raises(TypeError, match=r"keyword argument 'dim'; it is called 'axis' here\. Its"):
        mx.sum(x, dim=1)
    with pytest.raises(TypeError, match=r"\[sum\] .*'keepdim'; it is called 'keepdims' here"):
        x.sum(axis=0, keepdim=True)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"\[Adam\] .* 'lr'; it is called 'learning_rate' here"):
        optim.Adam(lr=0.1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"\[Linear\] .*'bais'; did you mean 'bias'\? Its"):
        nn.Linear(2, 3, bais=False)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"'nonsense'\. Its parameters are"):
        mx.softmax(x, nonsense=1)  # type: ignore[call-arg]


def test_misspelled_gradients() -> None:
    model = nn.Linear(2, 2)
    with pytest.raises(KeyError, match=r"at 'weigth'.*did you mean 'weight'\?"):
        optim.SGD(0.1).update(model, {"weigth": mx.ones((2, 2))})


def test_missing_file() -> None:
    for name in ("gone.npz", "gone.npy", "gone.safetensors", "gone.gguf"):
        with pytest.raises(FileNotFoundError, match=rf"cannot open .*{name}"):
            mx.load(name)
