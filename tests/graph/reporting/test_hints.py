"""Names that other libraries have: the error says what the name is here."""

import copy
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ingot.core as mx
import ingot.nn as nn
import ingot.optimizers as optim
from ingot.graph.reporting.hints import ARRAY, COMPILED, INDEXED, MODULE, OPTIMIZER


class Forward(nn.Module):
    def forward(self, x: mx.array) -> mx.array:
        return x


THINGS: list[tuple[Any, dict[str, str]]] = [
    (mx.ones((2, 3)), ARRAY),
    (mx.ones((2, 3)).at[0], INDEXED),
    (mx.compile(mx.exp), COMPILED),
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
    names: dict[str, Any] = {"nn": nn}
    names |= {"mx": mx, "np": np, "x": x, "y": y, "axis": 0, "axes": (1, 0), "k": 1}
    names |= {"low": 0.0, "high": 1.0, "shape": (2, 2), "indices": mx.array([[0, 1]]), "value": 0.0}
    names |= {"mask": x > 2, "count": 2, "counts": (2, 1), "dtype": mx.float16, "f": mx.sum}
    proposals = {code for hint in ARRAY.values() for code in re.findall("`(.*?)`", hint)}
    for code in proposals:
        eval(code, dict(names))
    assert len(proposals) > 70


def test_assigning_to_what_arrays_of_others_have() -> None:
    x = mx.ones((2,))
    for name in ("data", "requires_grad", "grad"):
        with pytest.raises(
            AttributeError, match=rf"no attribute '{name}': {re.escape(ARRAY[name])}"
        ):
            setattr(x, name, x)


def test_calls_that_lack_arguments() -> None:
    x = mx.ones((2, 3))
    with pytest.raises(TypeError, match=r"\[where\] missing 2 .*'x' and 'y'; .*mx\.nonzero\("):
        mx.where(x > 0)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"\[clip\] missing 1 required argument: 'a_max'; `None`"):
        mx.clip(x, 0)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"\[Linear\] missing .*: 'output_dims'\. Its .* bias\.$"):
        nn.Linear(2)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"\[randint\] .*mx\.random\.randint\(0, 10, shape\)"):
        mx.random.randint(10)  # type: ignore[call-arg]
    assert mx.clip(x, a_min=0.5, a_max=None).shape == (2, 3)


def test_numbered_layers() -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    with pytest.raises(KeyError, match=r"\[Sequential\] .* not 0: use model\.layers\[0\]\."):
        model[0]  # type: ignore[index]
    with pytest.raises(KeyError, match=r"^'nothing'$"):
        model["nothing"]
    assert model.get(0) is None  # type: ignore[call-overload]


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


def test_parameters_are_proposed_for_misspelled_names() -> None:
    assert {"weight", "bias"} <= set(dir(nn.Linear(2, 2)))


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
    with pytest.raises(TypeError, match=r"'in_features'; it is called 'input_dims' here"):
        nn.Linear(in_features=2, out_features=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"'nonsense'\. Its parameters are"):
        mx.softmax(x, nonsense=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"\[roll\] .*'dims'; it is called 'axis' here"):
        mx.roll(x, 1, dims=0)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"\[clip\] .*'min'; it is called 'a_min' here"):
        mx.clip(x, min=0)  # type: ignore[call-arg]


def test_misspelled_gradients() -> None:
    model = nn.Linear(2, 2)
    with pytest.raises(KeyError, match=r"at 'weigth'.*did you mean 'weight'\?"):
        optim.SGD(0.1).update(model, {"weigth": mx.ones((2, 2))})


def test_gradients_that_are_none() -> None:
    """They are refused before the step is counted."""
    model, optimizer = nn.Linear(2, 2), optim.SGD(0.1)
    result = nn.value_and_grad(model, lambda x: model(x).sum())(mx.ones((2, 2)))
    with pytest.raises(TypeError, match=r"got tuple\. With value_and_grad, pass the second of its"):
        optimizer.update(model, result)
    with pytest.raises(TypeError, match=r"got .*Linear\. The model comes first: optimizer\.update"):
        optimizer.update(result[1], model)
    assert list(optimizer.state) == ["step", "learning_rate"]
    assert optimizer.step.item() == 0


def test_missing_file() -> None:
    for name in ("gone.npz", "gone.npy", "gone.safetensors", "gone.gguf"):
        with pytest.raises(FileNotFoundError, match=rf"cannot open .*{name}"):
            mx.load(name)


def test_needless_keywords() -> None:
    with pytest.raises(TypeError, match=r"\[array\] .*'requires_grad'; gradients are functions of"):
        mx.array([1.0], requires_grad=True)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match=r"\[zeros\] .*'device'; arrays live in the machine's"):
        mx.zeros((2,), device="cuda")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"'static_argnums'; arguments that are not arrays are"):
        mx.compile(mx.sum, static_argnums=1)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match=r"missing required argument 'val'"):
        mx.array(dtype=mx.float32)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match=r"\[ReLU\] .*'inplace'; functions never change"):
        nn.ReLU(inplace=True)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"\[Softmax\] .*'dim'; it takes the last axis: `mx"):
        nn.Softmax(dim=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"'descending'; sort `-x`"):
        mx.argsort(mx.ones((2,)), descending=True)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    "given", ["float32", "torch.float32", float, np.float32, np.dtype("float32")]
)
def test_dtypes_of_others(given: Any) -> None:
    with pytest.raises(TypeError, match=r"must be a dtype .*\. Use mx\.float32\.$"):
        mx.ones((2,)).astype(given)
    for call in (
        lambda: mx.array([1.0], given),
        lambda: mx.arange(3, dtype=given),
        lambda: mx.cumsum(mx.ones((2,)), dtype=given),
        lambda: mx.finfo(given),
    ):
        with pytest.raises(TypeError, match=r"dtype.*\. Use mx\.float32\.$"):
            call()


def test_numbers_that_mean_something_else() -> None:
    with pytest.raises(TypeError, match=r"must be True or False, got int: 1\. Several axes are"):
        mx.ones((2, 2)).sum(0, 1)
    with pytest.raises(TypeError, match=r"got int: 7\. Use mx\.random\.key\(7\)\.$"):
        mx.random.normal((2, 2), key=7)  # type: ignore[arg-type]


@pytest.mark.parametrize("given", ["mean", object(), 3.5])
def test_what_is_no_dtype_anywhere_gets_no_hint(given: Any) -> None:
    with pytest.raises(TypeError, match=r"must be a dtype such as mx\.float32") as caught:
        mx.ones((2,)).astype(given)
    assert "Use mx" not in str(caught.value)


def test_arguments_in_the_order_of_others() -> None:
    with pytest.raises(TypeError, match=r"got int: 3\. A shape is one argument, such as \(3, 4\)"):
        mx.zeros(2, 3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"got int: 2\. A shape is one argument"):
        mx.random.normal(2, 3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"To change the shape, use `reshape`"):
        mx.ones((2, 3)).view(3, 2)  # type: ignore[call-arg, arg-type]
    with pytest.raises(TypeError, match=r"To change the shape, use `reshape`"):
        mx.ones((2, 3)).view((3, 2))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"It is one argument, such as \(3,\) or \(3, 2\)\.$"):
        mx.reshape(mx.ones((2, 3)), 3, 2)  # type: ignore[arg-type, call-arg]
    with pytest.raises(TypeError, match=r"The key is passed by name: key=mx\.random\.key\(0\)"):
        mx.random.normal(mx.random.key(0), (3,))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"In place of its result: gradients are functions of"):
        mx.grad(mx.sum(mx.ones((2,))))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"Several are saved by mx\.savez\(file, \*\*arrays\)"):
        mx.save("file", {"a": mx.ones((2,))})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"arguments of their own: nn\.Sequential\(\*modules\)"):
        nn.Sequential([nn.ReLU()])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"padding=kernel_size // 2\.$"):
        nn.Conv2d(3, 8, 3, padding="same")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"passed to `optimizer\.update\(model, gradients\)`"):
        optim.Adam(nn.Linear(2, 2).parameters())  # type: ignore[arg-type]
    for join in (mx.concatenate, mx.stack):
        with pytest.raises(TypeError, match=r"The arrays are one argument, a list or a tuple\.$"):
            join(mx.ones((2,)), mx.ones((2,)))  # type: ignore[operator]
    with pytest.raises(TypeError, match=r"The model comes first: nn\.value_and_grad\(model, loss"):
        nn.value_and_grad(mx.sum, nn.Linear(2, 2))  # type: ignore[arg-type]


@pytest.mark.parametrize("function", [mx.sum, mx.softmax, lambda x: mx.matmul(x, x)])
def test_arrays_of_others(function: Any) -> None:
    with pytest.raises(
        TypeError, match=r"got numpy\.ndarray: .*\. Convert it with mx\.array\(x\)\.$"
    ):
        function(np.ones((2, 2)))
    with pytest.raises(TypeError, match=r"got list: \[1\]\.$"):
        function([1])


def test_array_as_condition() -> None:
    x = mx.ones((2, 3))
    with pytest.raises(ValueError, match=r"\[bool\] .*shape \(2, 3\).*mx\.all\(x\).*x & y"):
        (x > 0) and (x < 2)  # noqa: B018


def test_layers_name_themselves() -> None:
    x = mx.ones((4, 8))
    for layer in (nn.Linear(5, 3), nn.Linear(5, 3, bias=False), nn.LSTM(5, 3), nn.GroupNorm(1, 5)):
        name = type(layer).__name__
        with pytest.raises(ValueError, match=rf"\[{name}\] expected 5 features .* \(4, 8\)\."):
            layer(x)
    # Another error of the same product stays what it is.
    layer = nn.Linear(8, 3)
    layer.bias = mx.ones((7,))
    with pytest.raises(ValueError, match=r"\[addmm\]"):
        layer(x)


def test_channels_first() -> None:
    with pytest.raises(ValueError, match=r"Channels come last.*x\.transpose\(0, 2, 3, 1\)"):
        nn.Conv2d(3, 8, 3)(mx.ones((1, 3, 9, 9)))
    with pytest.raises(ValueError, match=r"read 3 input channels.* has 9\.$"):
        nn.Conv2d(3, 8, 3)(mx.ones((1, 9, 9, 9)))


def test_classes_that_are_no_integers() -> None:
    with pytest.raises(RuntimeError, match=r"\[cross_entropy\] .* integers, got float32"):
        nn.losses.cross_entropy(mx.ones((2, 3)), mx.array([0.0, 1.0]))


def test_misspelled_weights() -> None:
    with pytest.raises(ValueError, match=r"not in the model: weigth; did you mean 'weight'\?$"):
        nn.Linear(2, 2).load_weights([("weigth", mx.ones((2, 2)))])


def test_pickled_weights_and_missing_folders(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"cannot read files of type 'pt'.* run code.*\.safetensors"
    ):
        mx.load(str(tmp_path / "model.pt"))
    with pytest.raises(FileNotFoundError, match=r"there is no folder .*gone"):
        mx.save(str(tmp_path / "gone" / "a.npy"), mx.ones((2,)))
