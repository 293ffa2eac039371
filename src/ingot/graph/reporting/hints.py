"""Hints for names that other libraries have: `x.numpy()`, `model.forward(x)`, `sum(x, dim=1)`.

A `Foreign` is a class attribute that is not there: reading it raises an AttributeError with the
hint, so `hasattr` is False. Unlike `__getattr__` on the class, it costs other attributes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NoReturn

from ingot._native import array
from ingot.graph.libraries import diff_library

__all__ = [
    "DEVICE",
    "GRADIENT",
    "add_hints",
    "keyword_error",
    "nearest",
    "raise_not_callable",
    "refusal_hint",
]

DEVICE = "arrays live in the machine's memory and there is one device, so there is nothing to move"
_ASSIGN = "assign to the elements: x[...] = value"
_IN_PLACE = "operators such as += change an array in place"
GRADIENT = "gradients are functions of functions: `mx.grad(f)(x)` or `mx.value_and_grad(f)(x)`"

ARRAY = {
    "add_": _IN_PLACE,
    "backward": GRADIENT,
    "block_until_ready": "use `mx.eval(x)`",
    "bool": "use `x.astype(mx.bool_)`",
    "clamp": "use `mx.clip(x, low, high)`",
    "clip": "use `mx.clip(x, low, high)`",
    "clone": "use `mx.array(x)`; arrays never share later changes",
    "contiguous": "use `mx.contiguous(x)`",
    "copy": "use `mx.array(x)`; arrays never share later changes",
    "copy_": _ASSIGN,
    "cpu": DEVICE,
    "cuda": DEVICE,
    "detach": "use `mx.stop_gradient(x)`",
    "device": DEVICE,
    "dim": "use `x.ndim`",
    "div_": _IN_PLACE,
    "dot": "use `x @ y` or `mx.inner(x, y)`",
    "double": "use `x.astype(mx.float64)`",
    "expand": "use `mx.broadcast_to(x, shape)`",
    "fill_": _ASSIGN,
    "float": "use `x.astype(mx.float32)`",
    "gather": "use `mx.take_along_axis(x, indices, axis)`",
    "grad": GRADIENT,
    "half": "use `x.astype(mx.float16)`",
    "index_select": "use `mx.take(x, indices, axis)`",
    "int": "use `x.astype(mx.int32)`",
    "long": "use `x.astype(mx.int64)`",
    "masked_fill": "use `mx.where(mask, value, x)`",
    "matmul": "use `x @ y`",
    "mm": "use `x @ y`",
    "mul_": _IN_PLACE,
    "norm": "use `mx.linalg.norm(x)`",
    "numel": "use `x.size`",
    "numpy": "use `np.array(x)`, or `x.tolist()` for Python numbers",
    "permute": "use `x.transpose(axes)`",
    "ravel": "use `x.flatten()`",
    "repeat": "use `mx.repeat(x, count, axis)` or `mx.tile(x, counts)`",
    "requires_grad": GRADIENT,
    "requires_grad_": GRADIENT,
    "softmax": "use `mx.softmax(x, axis)`",
    "sort": "use `mx.sort(x, axis)`",
    "sub_": _IN_PLACE,
    "t": "use `x.T`",
    "to": "use `x.astype(dtype)`; " + DEVICE,
    "topk": "use `mx.topk(x, k, axis)` for values, `mx.argpartition(x, k, axis)` for indices",
    "type": "use `x.astype(dtype)`",
    "unsqueeze": "use `mx.expand_dims(x, axis)` or `x[None]`",
    "zero_": _ASSIGN,
}

COMPILED = {
    "compile": "it compiles itself when it is called",
    "eval_shape": "use `f.explain(x)`",
    "lower": "use `f.explain(x)`, which shows every stage down to machine code",
    "trace": "use `f.explain(x)`, which shows every stage",
}

INDEXED = {
    "apply": "use `x[i] = f(x[i])`",
    "get": "use `x[i]`",
    "set": "use `x[i] = value`",
}

MODULE = {
    "bfloat16": "use `model.set_dtype(mx.bfloat16)`",
    "cpu": DEVICE,
    "cuda": DEVICE,
    "double": "use `model.set_dtype(mx.float64)`",
    "float": "use `model.set_dtype(mx.float32)`",
    "forward": "define `__call__` and call the module itself, `model(x)`",
    "half": "use `model.set_dtype(mx.float16)`",
    "load_state_dict": "use `model.load_weights(file)` or `model.update(tree)`",
    "named_parameters": "use `ingot.utils.tree_flatten(model.parameters())`",
    "register_buffer": "assign the array, then `model.freeze(keys=[name], recurse=False)`",
    "register_parameter": "assign the array: `self.weight = mx.zeros(shape)`",
    "requires_grad_": "use `model.freeze()` and `model.unfreeze()`",
    "state_dict": "use `model.parameters()`, or `model.save_weights(file)`",
    "to": "use `model.set_dtype(dtype)`; " + DEVICE,
    "zero_grad": "gradients are returned, not stored: `nn.value_and_grad(model, loss)`",
}

OPTIMIZER = {
    "load_state_dict": "assign to `optimizer.state`",
    "param_groups": "use `optimizers.MultiOptimizer` for groups of parameters",
    "state_dict": "use `optimizer.state`",
    "zero_grad": "gradients are returned, not stored: nothing has to be cleared",
}

# Parameters that other libraries name differently.
KEYWORDS = {
    "axes": "axis",
    "axis": "axes",
    "dim": "axis",
    "dims": "axes",
    "embed_dim": "dims",
    "embedding_dim": "dims",
    "in_features": "input_dims",
    "input": "a",
    "keepdim": "keepdims",
    "lr": "learning_rate",
    "normalized_shape": "dims",
    "other": "b",
    "out_features": "output_dims",
    "size": "shape",
}

# Parameters that other libraries need, with the reason why there are none here.
NEEDLESS = {
    "copy": "`mx.array(x)` copies, and `mx.asarray(x)` only if it must",
    "create_graph": GRADIENT,
    "device": DEVICE,
    "has_aux": "return a tuple and use `value_and_grad`: the loss is its first item",
    "inplace": "functions never change their inputs",
    "params": "parameters are passed to `optimizer.update(model, gradients)`",
    "requires_grad": GRADIENT,
    "static_argnames": "arguments that are not arrays are constants",
    "static_argnums": "arguments that are not arrays are constants",
}

# Dtypes that other libraries and Python name differently.
DTYPES = {
    "bool": "bool_",
    "complex": "complex64",
    "double": "float64",
    "float": "float32",
    "half": "float16",
    "int": "int32",
    "long": "int64",
}

# What NumPy's functions, such as np.mean(x), pass to methods of the same name.
_OF_NUMPY = ("dtype", "out")


# Functions whose first parameter is a shape, by title.
_SHAPED = frozenset(
    f"[{name}]" for name in "zeros ones full empty normal uniform gumbel laplace".split()
)
_DTYPE_NAME = "bool_|u?int(8|16|32|64)|b?float16|float(32|64)|complex64"


class Foreign:
    """An attribute that arrays or modules of other libraries have, and these have not."""

    def __init__(self, name: str, hint: str) -> None:
        self.name = name
        self.hint = hint

    def __get__(self, instance: object, owner: type) -> NoReturn:
        kind = "class" if instance is None else "object"
        raise AttributeError(
            f"{owner.__name__!r} {kind} has no attribute {self.name!r}: {self.hint}."
        )


def add_hints(owner: type, hints: Mapping[str, str]) -> None:
    """Make a class answer names of other libraries with hints; its own names stay as they are."""
    for name, hint in hints.items():
        if not hasattr(owner, name):
            setattr(owner, name, Foreign(name, hint))
    setattr(owner, "__dir__", _names_without_hints)  # noqa: B010


def _names_without_hints(self: object) -> list[str]:
    foreign = {
        name
        for owner in type(self).__mro__
        for name, value in vars(owner).items()
        if isinstance(value, Foreign)
    }
    # The items of a module are its attributes: Python proposes them for misspelled ones.
    items = [name for name in self if isinstance(name, str)] if isinstance(self, dict) else []
    return [name for name in object.__dir__(self) if name not in foreign] + items


def raise_not_callable(module: object, *args: object, **kwargs: object) -> NoReturn:
    """The call of a module whose class defines none."""
    name = type(module).__name__
    hint = "; `forward` is named `__call__` here" if hasattr(module, "forward") else ""
    raise TypeError(f"{name!r} object is not callable: it defines no `__call__`{hint}.")


def nearest(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'weight'?` for a misspelled name, or nothing."""
    found = diff_library().get_close_matches(name, known, n=1)
    return f"; did you mean {found[0]!r}?" if found else ""


def keyword_error(title: str, name: str, known: tuple[str, ...]) -> TypeError:
    """The error for an argument whose name the function does not have."""
    there = [other for other in known if other != "self"]
    meant = KEYWORDS.get(name)
    hint = f"; it is called {meant!r} here" if meant in there else nearest(name, there)
    if name in NEEDLESS and not hint:
        hint = f"; {NEEDLESS[name]}"
    if name in _OF_NUMPY and not hint:
        hint = f"; NumPy's np.{title}(x) passes it on: use mx.{title}(x) or np.{title}(np.array(x))"
    parameters = f" Its parameters are {', '.join(there)}." if there else ""
    end = "" if hint.endswith("?") else "."
    return TypeError(
        f"[{title}] got an unexpected keyword argument {name!r}{hint}{end}{parameters}"
    )


def refusal_hint(subject: str, value: object) -> str:
    """What was probably meant by a value of the wrong type; empty if nobody knows.

    Args:
        subject: The function and the parameter, "[zeros] dtype".
        value: What was passed.
    """
    title, _, name = subject.partition(" ")
    number = isinstance(value, int) and not isinstance(value, bool)
    if name == "dtype" and number and title.endswith("view]"):
        return " To change the shape, use `reshape`."
    if name in ("dtype", "shape") and number and title in _SHAPED:
        return " A shape is one argument, such as (3, 4)."
    if name == "dtype":
        return _dtype_hint(value)
    if name == "keepdims" and number:
        return " Several axes are one argument, such as axis=(0, 1)."
    if name == "key" and number:
        return f" Use mx.random.key({value})."
    if name == "axis" and title in ("[concatenate]", "[stack]") and isinstance(value, array):
        return " The arrays are one argument, a list or a tuple."
    if name == "learning_rate" and isinstance(value, (dict, list, tuple)):
        return f" There is no list of parameters here: {NEEDLESS['params']}."
    if name == "model" and title.endswith("value_and_grad]") and callable(value):
        return " The model comes first: nn.value_and_grad(model, loss)."
    return ""


def _dtype_hint(value: object) -> str:
    """The dtype that a string, a type of Python or NumPy or another library's dtype stands for."""
    if isinstance(value, str):
        text = value
    elif isinstance(value, type):
        text = value.__name__
    elif type(value).__name__.lower().endswith("dtype"):
        text = str(value)
    else:
        return ""  # the text of any object may be endless
    name = text.rpartition(".")[2]
    name = DTYPES.get(name, name)
    return f" Use mx.{name}." if re.fullmatch(_DTYPE_NAME, name) else ""
