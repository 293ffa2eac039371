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
    "dtype_hint",
    "incomplete_error",
    "keyword_error",
    "nearest",
    "raise_not_callable",
    "refusal_hint",
]

DEVICE = "arrays live in the machine's memory and there is one device, so there is nothing to move"
_ASSIGN = "assign to the elements: x[...] = value"
_IN_PLACE = "operators such as += change an array in place"
_RESULT = "functions return new arrays: assign what they return, x = mx.sqrt(x)"
GRADIENT = "gradients are functions of functions: `mx.grad(f)(x)` or `mx.value_and_grad(f)(x)`"

# Functions that are methods of other libraries' arrays.
_UNARY = """
    argsort ceil cosh erf floor isfinite isinf isnan logical_not nan_to_num nonzero
    sigmoid sign sinh tan tanh trace tril triu
""".split()
_BINARY = "inner logical_and logical_or maximum minimum outer".split()
_OPERATORS = {
    **{"add": "+", "div": "/", "eq": "==", "floor_divide": "//", "ge": ">=", "gt": ">", "le": "<="},
    **{"lt": "<", "mul": "*", "ne": "!=", "pow": "**", "remainder": "%", "sub": "-"},
}
_CHANGING = "clamp_ exp_ neg_ relu_ round_ sqrt_ squeeze_ t_ tanh_ transpose_ unsqueeze_".split()

ARRAY = {
    **dict.fromkeys(_CHANGING, _RESULT),
    **{name: f"use `mx.{name}(x)`" for name in _UNARY},
    **{name: f"use `mx.{name}(x, y)`" for name in _BINARY},
    **{name: f"use `x {sign} y`" for name, sign in _OPERATORS.items()},
    "H": "use `mx.conj(x).T`",
    "absolute": "use `mx.abs(x)`",
    "add_": _IN_PLACE,
    "addmm": "use `mx.addmm(x, y, y)`",
    "amax": "use `x.max(axis)`",
    "amin": "use `x.min(axis)`",
    "backward": GRADIENT,
    "block_until_ready": "use `mx.eval(x)`",
    "bmm": "use `x @ y`",
    "bool": "use `x.astype(mx.bool_)`",
    "chunk": "use `mx.split(x, count, axis)`",
    "clamp": "use `mx.clip(x, low, high)`",
    "clip": "use `mx.clip(x, low, high)`",
    "clone": "use `mx.array(x)`; arrays never share later changes",
    "contiguous": "use `mx.contiguous(x)`",
    "copy": "use `mx.array(x)`; arrays never share later changes",
    "copy_": _ASSIGN,
    "cpu": DEVICE,
    "cuda": DEVICE,
    "data": "use the array itself, and `mx.stop_gradient(x)` where it is to be a constant",
    "detach": "use `mx.stop_gradient(x)`",
    "device": DEVICE,
    "devices": DEVICE,
    "dim": "use `x.ndim`",
    "div_": _IN_PLACE,
    "dot": "use `x @ y` or `mx.inner(x, y)`",
    "double": "use `x.astype(mx.float64)`",
    "element_size": "use `x.itemsize`",
    "expand": "use `mx.broadcast_to(x, shape)`",
    "expand_as": "use `mx.broadcast_to(x, y.shape)`",
    "fill": _ASSIGN,
    "fill_": _ASSIGN,
    "flat": "use `x.flatten()`",
    "float": "use `x.astype(mx.float32)`",
    "gather": "use `mx.take_along_axis(x, indices, axis)`",
    "grad": GRADIENT,
    "half": "use `x.astype(mx.float16)`",
    "index_add_": "use `x.at[indices].add(y)`",
    "index_fill_": _ASSIGN,
    "index_put_": _ASSIGN,
    "index_select": "use `mx.take(x, indices, axis)`",
    "int": "use `x.astype(mx.int32)`",
    "is_contiguous": "arrays keep their layout to themselves; `mx.contiguous(x)` copies if it must",
    "is_cuda": DEVICE,
    "long": "use `x.astype(mx.int64)`",
    "masked_fill": "use `mx.where(mask, value, x)`",
    "matmul": "use `x @ y`",
    "mm": "use `x @ y`",
    "mul_": _IN_PLACE,
    "mv": "use `x @ y`",
    "neg": "use `-x`",
    "nelement": "use `x.size`",
    "new_ones": "use `mx.ones(shape, x.dtype)`",
    "new_zeros": "use `mx.zeros(shape, x.dtype)`",
    "norm": "use `mx.linalg.norm(x)`",
    "normal_": "use `mx.random.normal(x.shape)`",
    "numel": "use `x.size`",
    "numpy": "use `np.array(x)`, or `x.tolist()` for Python numbers",
    "permute": "use `x.transpose(axes)`",
    "pin_memory": DEVICE,
    "ptp": "use `x.max() - x.min()`",
    "ravel": "use `x.flatten()`",
    "register_hook": "`mx.custom_function` gives a function a gradient of its own",
    "relu": "use `nn.relu(x)`",
    "repeat": "use `mx.repeat(x, count, axis)` or `mx.tile(x, counts)`",
    "requires_grad": GRADIENT,
    "requires_grad_": GRADIENT,
    "reshape_as": "use `x.reshape(y.shape)`",
    "retain_grad": GRADIENT,
    "scatter_": "use `mx.put_along_axis(x, indices, y, axis)`",
    "scatter_add_": "use `x.at[indices].add(y)`",
    "searchsorted": "use `mx.searchsorted(x[0], y)`",
    "share_memory_": DEVICE,
    "softmax": "use `mx.softmax(x, axis)`",
    "sort": "use `mx.sort(x, axis)`",
    "storage": "use `memoryview(x)`",
    "stride": "arrays keep their layout to themselves; `mx.contiguous(x)` copies if it must",
    "strides": "arrays keep their layout to themselves; `mx.contiguous(x)` copies if it must",
    "sub_": _IN_PLACE,
    "t": "use `x.T`",
    "take": "use `mx.take(x, indices, axis)`",
    "tile": "use `mx.tile(x, counts)`",
    "to": "use `x.astype(dtype)`; " + DEVICE,
    "tobytes": "use `np.array(x).tobytes()`",
    "tofile": "use `np.array(x).tofile`, or `mx.save`",
    "topk": "use `mx.topk(x, k, axis)` for values, `mx.argpartition(x, k, axis)` for indices",
    "type": "use `x.astype(dtype)`",
    "type_as": "use `x.astype(y.dtype)`",
    "uniform_": "use `mx.random.uniform(shape=x.shape)`",
    "unique": "use `mx.unique(x, x.size)`, or `np.unique(x)` for as many as there are",
    "unsqueeze": "use `mx.expand_dims(x, axis)` or `x[None]`",
    "view_as": "use `x.reshape(y.shape)`",
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
    "add_module": "assign it: `self.layer = layer`",
    "append": "layers are in a list: `model.layers.append(layer)`",
    "bfloat16": "use `model.set_dtype(mx.bfloat16)`",
    "buffers": "use `model.parameters()`; frozen ones are not in `model.trainable_parameters()`",
    "compile": "use `mx.compile(function)`, of a step of training for example",
    "cpu": DEVICE,
    "cuda": DEVICE,
    "device": DEVICE,
    "double": "use `model.set_dtype(mx.float64)`",
    "dtype": "arrays have dtypes: `model.weight.dtype`; `model.set_dtype(dtype)` sets all of them",
    "fit": "in a loop, `loss, grads = nn.value_and_grad(model, loss_fn)(x, y)`, then "
    "`optimizer.update(model, grads)`",
    "float": "use `model.set_dtype(mx.float32)`",
    "forward": "define `__call__` and call the module itself, `model(x)`",
    "half": "use `model.set_dtype(mx.float16)`",
    "in_features": "use `layer.weight.shape`",
    "init": "layers have their parameters from the start: `model.parameters()`",
    "load": "use `model.load_weights(file)`",
    "load_state_dict": "use `model.load_weights(file)` or `model.update(tree)`",
    "named_children": "use `model.children()`",
    "named_parameters": "use `ingot.utils.tree_flatten(model.parameters())`",
    "num_parameters": "use `sum(p.size for _, p in ingot.utils.tree_flatten(model.parameters()))`",
    "out_features": "use `layer.weight.shape`",
    "predict": "call the module itself, `model(x)`",
    "register_buffer": "assign the array, then `model.freeze(keys=[name], recurse=False)`",
    "register_forward_hook": "put the layer into a module of your own whose `__call__` does more",
    "register_module": "assign it: `self.layer = layer`",
    "register_parameter": "assign the array: `self.weight = mx.zeros(shape)`",
    "requires_grad": "use `model.freeze()` and `model.unfreeze()`",
    "requires_grad_": "use `model.freeze()` and `model.unfreeze()`",
    "save": "use `model.save_weights(file)`",
    "share_memory": DEVICE,
    "state_dict": "use `model.parameters()`, or `model.save_weights(file)`",
    "summary": "print the model; its parameters are `model.parameters()`",
    "to": "use `model.set_dtype(dtype)`; " + DEVICE,
    "type": "use `model.set_dtype(dtype)`",
    "zero_grad": "gradients are returned, not stored: `nn.value_and_grad(model, loss)`",
}

OPTIMIZER = {
    "add_param_group": "use `optimizers.MultiOptimizer` for groups of parameters",
    "load_state_dict": "assign to `optimizer.state`",
    "lr": "use `optimizer.learning_rate`",
    "minimize": "`nn.value_and_grad(model, loss)` returns the gradients, and "
    "`optimizer.update(model, gradients)` takes a step",
    "param_groups": "use `optimizers.MultiOptimizer` for groups of parameters",
    "state_dict": "use `optimizer.state`",
    "zero_grad": "gradients are returned, not stored: nothing has to be cleared",
}

# Parameters that other libraries name differently; the first name that a function has is meant.
KEYWORDS = {
    "axes": "axis",
    "axis": "axes",
    "d_model": "dims",
    "dim": "axis axes",
    "dim_feedforward": "mlp_dims",
    "dims": "axes axis",
    "embed_dim": "dims",
    "embedding_dim": "dims",
    "in_features": "input_dims",
    "input": "a",
    "keepdim": "keepdims",
    "lr": "learning_rate",
    "max": "a_max",
    "min": "a_min",
    "nhead": "num_heads",
    "normalized_shape": "dims",
    "other": "b",
    "out_features": "output_dims",
    "size": "shape",
}

# Parameters that other libraries need, with the reason why there are none here.
NEEDLESS = {
    "LogSoftmax.dim": "it takes the last axis: `nn.log_softmax(x, axis)` takes any",
    "Softmax.dim": "it takes the last axis: `mx.softmax(x, axis)` takes any",
    "amsgrad": "`optim.AdaMax` and `optim.AdaDelta` are the variants there are",
    "batch_first": "the batch comes first, the features last",
    "bidirectional": "apply a second layer to the reversed sequence, `x[:, ::-1]`",
    "copy": "`mx.array(x)` copies, and `mx.asarray(x)` only if it must",
    "create_graph": GRADIENT,
    "descending": "sort `-x`: `-mx.sort(-x)`, `mx.argsort(-x)`",
    "device": DEVICE,
    "full_matrices": "both are square: keep the first columns and rows, `u[:, :k]` and `vt[:k]`",
    "has_aux": "return a tuple and use `value_and_grad`: the loss is its first item",
    "inplace": "functions never change their inputs",
    "num_layers": "several layers are a list: call one after the other",
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

# What a call that lacks arguments was probably meant to be, by the function's title.
INCOMPLETE = {
    "clip": "`None` stands for a bound that is not there: mx.clip(x, low, None)",
    "full": "the value comes after the shape: mx.full(shape, value)",
    "randint": "the lower bound comes first: mx.random.randint(0, 10, shape)",
    "unique": "the result needs a length: mx.unique(x, size); that of np.unique(x) depends on x",
    "update": "gradients are returned, not stored: optimizer.update(model, gradients)",
    "value_and_grad": "the function comes after the model: nn.value_and_grad(model, loss)",
    "where": "for the indices where it is true, use mx.nonzero(condition)",
}

# What NumPy's functions, such as np.mean(x), pass to methods of the same name.
_OF_NUMPY = ("dtype", "out")


# Functions whose first parameter is a shape, by title.
_SHAPED = frozenset(
    f"[{name}]" for name in "zeros ones full empty normal uniform gumbel laplace".split()
)
_RANDOM = frozenset(f"[{name}]" for name in "normal bernoulli gumbel laplace".split())
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


class ForeignOfArray(Foreign):
    """One of arrays, which have no attributes of their own: assigning to it says the same."""

    def __set__(self, instance: object, value: object) -> NoReturn:
        self.__get__(instance, type(instance))


def add_hints(owner: type, hints: Mapping[str, str]) -> None:
    """Make a class answer names of other libraries with hints; its own names stay as they are."""
    foreign = ForeignOfArray if owner is array else Foreign
    for name, hint in hints.items():
        if not hasattr(owner, name):
            setattr(owner, name, foreign(name, hint))
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
    meant = next((other for other in KEYWORDS.get(name, "").split() if other in there), None)
    hint = f"; it is called {meant!r} here" if meant else nearest(name, there)
    needless = NEEDLESS.get(f"{title}.{name}", NEEDLESS.get(name))
    if needless and not hint:
        hint = f"; {needless}"
    if name in _OF_NUMPY and not hint:
        hint = f"; NumPy's np.{title}(x) passes it on: use mx.{title}(x) or np.{title}(np.array(x))"
    parameters = f" Its parameters are {', '.join(there)}." if there else ""
    end = "" if hint.endswith("?") else "."
    return TypeError(
        f"[{title}] got an unexpected keyword argument {name!r}{hint}{end}{parameters}"
    )


def incomplete_error(title: str, missing: list[str], known: tuple[str, ...]) -> TypeError:
    """The error for a call without arguments that the function needs."""
    there = ", ".join(other for other in known if other != "self")
    hint = f"; {INCOMPLETE[title]}" if title in INCOMPLETE else ""
    plural = "s" if len(missing) > 1 else ""
    names = " and ".join(map(repr, missing))
    return TypeError(
        f"[{title}] missing {len(missing)} required argument{plural}: {names}{hint}. "
        f"Its parameters are {there}."
    )


def refusal_hint(subject: str, value: object) -> str:
    """What was probably meant by a value of the wrong type; empty if nobody knows.

    Args:
        subject: The function and the parameter, "[zeros] dtype".
        value: What was passed.
    """
    title, _, name = subject.partition(" ")
    number = isinstance(value, int) and not isinstance(value, bool)
    if name == "dtype" and (number or isinstance(value, tuple)) and title.endswith("view]"):
        return " To change the shape, use `reshape`."
    if name in ("dtype", "shape") and number and title in _SHAPED:
        return " A shape is one argument, such as (3, 4)."
    if title in _RANDOM and isinstance(value, (array, float, tuple)):
        return " The key is passed by name: key=mx.random.key(0)."
    if name in ("shape", "axes") and number:
        return f" It is one argument, such as ({value},) or ({value}, 2)."
    if name == "dtype":
        return dtype_hint(value)
    if name == "keepdims" and number:
        return " Several axes are one argument, such as axis=(0, 1)."
    if name == "key" and number:
        return f" Use mx.random.key({value})."
    if name == "axis" and title in ("[concatenate]", "[stack]") and isinstance(value, array):
        return " The arrays are one argument, a list or a tuple."
    return _of_modules(title, name, value)


def _of_modules(title: str, name: str, value: object) -> str:
    """`refusal_hint` for layers, optimizers, transforms and files."""
    if name == "learning_rate" and isinstance(value, (dict, list, tuple)):
        return f" There is no list of parameters here: {NEEDLESS['params']}."
    if name == "fun" and title.endswith("grad]") and isinstance(value, array):
        return f" In place of its result: {GRADIENT}."
    if name == "arr" and title == "[save]":
        return (
            " Several are saved by mx.savez(file, **arrays), modules by model.save_weights(file)."
        )
    if name == "modules" and isinstance(value, (list, tuple)):
        return " The modules are arguments of their own: nn.Sequential(*modules)."
    if name == "padding" and isinstance(value, str):
        return " An odd kernel keeps the size with padding=kernel_size // 2."
    if name == "device" and isinstance(value, str):
        return " Use mx.cpu."
    if name == "model" and title.endswith("value_and_grad]") and callable(value):
        return " The model comes first: nn.value_and_grad(model, loss)."
    return ""


def dtype_hint(value: object) -> str:
    """` Use mx.float32.` for a string, a type or another library's dtype that stands for one."""
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
