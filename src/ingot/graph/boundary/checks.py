"""Public functions with checked arguments.

Input: a public module's namespace. Output: the same names, with functions (and the methods of
classes) wrapped in `Checked` objects of the C extension. For arguments of the usual kinds, a check
costs some nanoseconds. Anything else comes here: convertible values (a NumPy int) are converted,
others raise a TypeError that names the function, the parameter and the value.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterable, Mapping
from typing import Any

from ingot import _native
from ingot._native import Checked, array
from ingot.graph.boundary.kinds import (
    ANY_VALUE,
    ARRAY,
    INTEGER,
    INTEGERS,
    MAX_INT,
    MIN_INT,
    REFUSED,
    Kind,
    Outside,
    kind_of,
)
from ingot.graph.errors import RangeError, type_name, value_text
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.reporting.hints import incomplete_error, keyword_error, refusal_hint

__all__ = [
    "at_boundary",
    "attach",
    "check_classes",
    "check_function",
    "check_functions",
    "checked",
    "parameters_of",
]

# Functions, by title, that build the same graph for the same shapes, dtypes and other arguments:
# they read no value but those of masks, no setting and no random state. C replays equal calls of
# these (`_native/objects/call_memo.c`).
_BY_SHAPES = frozenset(
    (
        "all any argmax argmin argpartition argsort astype broadcast_to clip conv1d conv2d cumsum "
        "dequantize expand_dims flatten gather_mm gather_qmm logsumexp matmul max mean min "
        "moveaxis quantized_matmul repeat reshape roll softmax sort squeeze sum swapaxes take "
        "take_along_axis tile topk transpose tri tril triu unflatten where "
        "layer_norm rms_norm rope scaled_dot_product_attention "
        "array.__getitem__ array.__setitem__ array.T array.mT array.reshape array.transpose"
    ).split()
)

# Streams and files are checked where they are used, with the exceptions that MLX raises there.
_UNCHECKED = ("Any", "StreamLike", "File", "object", "None")


@dataclass(frozen=True)
class Parameters:
    """The kinds of a function's parameters."""

    names: tuple[str, ...]  # positional ones first
    positions: int
    kinds: tuple[Kind, ...]
    required: tuple[str, ...]  # those without a default
    rest: tuple[str, Kind]  # the name and the kind of *args
    takes_others: bool  # has **kwargs


def parameters_of(checked: Checked) -> Parameters:
    """The kinds of a function's parameters, from its annotations; computed once."""
    found: Parameters | None = checked.__dict__.get("parameters")
    if found is None:
        found = _read_parameters(checked.__wrapped__, checked.converts)
        checked.__dict__["parameters"] = found
    return found


def _read_parameters(function: types.FunctionType, converts: bool) -> Parameters:
    positional, keyword, required = [], [], []
    rest = ("", ANY_VALUE)
    takes_others = False
    for parameter in inspect.signature(function).parameters.values():
        kind = kind_of(_annotation(parameter.annotation, function), converts)
        entry = (parameter.name, kind)
        variadic = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        if parameter.default is parameter.empty and not variadic:
            required.append(parameter.name)
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            positional.append(entry)
        elif parameter.kind is parameter.KEYWORD_ONLY:
            keyword.append(entry)
        elif parameter.kind is parameter.VAR_POSITIONAL and parameter.annotation != "array":
            rest = entry  # functions of *arrays check them themselves, with MLX's exceptions
        elif parameter.kind is parameter.VAR_KEYWORD:
            takes_others = True
    entries = positional + keyword
    return Parameters(
        tuple(name for name, _ in entries),
        len(positional),
        tuple(kind for _, kind in entries),
        tuple(required),
        rest,
        takes_others,
    )


def _annotation(written: Any, function: types.FunctionType) -> Any:
    """Evaluate an annotation, which may be a string."""
    if not isinstance(written, str):
        return written
    if written in _UNCHECKED:
        return Any
    try:
        return eval(written, function.__globals__)
    except NameError:  # a name that is imported only under TYPE_CHECKING
        return Any


def parameter_kinds(checked: Checked) -> tuple[tuple[str, ...], int, tuple[int, ...], int, int]:
    """The description of a function's parameters for C."""
    found = parameters_of(checked)
    return (
        found.names,
        found.positions,
        tuple(kind.bits for kind in found.kinds),
        found.rest[1].bits,
        len(found.required),
    )


def taken_arguments(
    checked: Checked, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments converted to their annotations; TypeError for the first that cannot be."""
    found = parameters_of(checked)
    kinds = dict(zip(found.names, found.kinds, strict=True))

    def taken(name: str, kind: Kind, value: Any) -> Any:
        result = kind.take(value)
        if result is REFUSED or type(result) is Outside:
            raise _refusal(f"[{_public_name(checked, args)}] {name}", kind, value, result)
        return result

    first = zip(found.names, found.kinds, args[: found.positions], strict=False)
    rest = args[found.positions :]
    positional = [taken(*one) for one in first] + [taken(*found.rest, value) for value in rest]
    unknown = next((name for name in kwargs if name not in kinds), None)
    if unknown is not None and not found.takes_others:
        raise keyword_error(_public_name(checked, args), unknown, found.names)
    missing = [n for n in found.required if n not in {*found.names[: len(args)], *kwargs}]
    if missing:
        raise incomplete_error(_public_name(checked, args), missing, found.names)
    named = {n: taken(n, kinds.get(n, ANY_VALUE), value) for n, value in kwargs.items()}
    return tuple(positional), named


def _refusal(subject: str, kind: Kind, value: Any, taken: Any) -> Exception:
    if isinstance(taken, Outside):
        least, most = taken.limits.least, taken.limits.most
        limit = f"at least {least}" if taken.value < least else f"at most {most}"
        return ValueError(f"{subject} must be {limit}, got {value_text(value)}.")
    if kind.bits & (INTEGER | INTEGERS) and _is_too_large(value):
        return RangeError(f"{subject} does not fit into 64 bits, got {value_text(value)}.")
    hint = refusal_hint(subject, value)
    if not hint and kind.bits & ARRAY and hasattr(type(value), "__array__"):
        hint = " Convert it with mx.array(x)."
    return TypeError(
        f"{subject} must be {kind.words}, got {type_name(value)}: {value_text(value)}.{hint}"
    )


def _is_too_large(value: Any) -> bool:
    numbers = value if isinstance(value, (list, tuple)) else [value]
    found = [number for number in numbers if isinstance(number, int)]
    return len(found) == len(numbers) and any(not MIN_INT <= number <= MAX_INT for number in found)


def _public_name(checked: Checked, args: tuple[Any, ...]) -> str:
    """The name of a function in error messages: the class for a layer's call, else its own."""
    if checked.title in ("__init__", "__call__"):
        return type(args[0]).__name__
    return checked.title


def check_function(function: Any, title: str, converts: bool = False) -> Any:
    """The function with checked arguments; the function itself if no parameter can be checked and
    no call replayed.

    Args:
        function: A Python function.
        title: Its name in error messages.
        converts: Whether to convert numbers and NumPy arrays, as MLX's Python code does.
    """
    checks = title in _BY_SHAPES or any(
        text not in _UNCHECKED
        for name, text in function.__annotations__.items()
        if name != "return"
    )
    return at_boundary(function, title, converts) if checks else function


def at_boundary(function: Any, title: str, converts: bool = False) -> Any:
    """The function as users call it, whether or not it has parameters to check."""
    made = Checked(function)
    made.__dict__.update(
        __module__=function.__module__,
        __name__=function.__name__,
        __qualname__=function.__qualname__,
        __doc__=function.__doc__,
        __annotations__=function.__annotations__,
        title=title,
        converts=converts,
    )
    made.by_shapes = title in _BY_SHAPES and not converts
    made.subscripts = title in ("array.__getitem__", "array.__setitem__")
    made.sets_item = title == "array.__setitem__"
    return made


def attach(**methods: Any) -> None:
    """Add methods to the array type, which is defined in C."""
    for name, method in methods.items():
        setattr(array, name, method)


def check_functions(
    namespace: dict[str, Any], names: Iterable[str], prefix: str = "", converts: bool = False
) -> None:
    """Wrap the functions of a public module in argument checks.

    Args:
        namespace: The module's.
        names: Those of its public names that may be functions.
        prefix: The prefix of their names in error messages.
        converts: As for `check_function`.
    """
    for name in names:
        namespace[name] = checked(namespace[name], prefix + name, namespace["__name__"], converts)


def checked(value: Any, title: str, module: str, converts: bool = False) -> Any:
    """A public value of a module: with checked arguments if it is a function.

    Args:
        value: Any value.
        title: Its name in error messages.
        module: The name of the public module.
        converts: As for `check_function`.
    """
    if not isinstance(value, types.FunctionType):
        return value
    made = check_function(value, title, converts)
    if made is not value:
        made.__module__ = module  # for pickle
    return made


def check_classes(
    namespace: Mapping[str, Any], names: Iterable[str], methods: str, converts: bool = False
) -> None:
    """Wrap the methods of public classes and of their bases in argument checks."""
    for name in names:
        if not isinstance(namespace[name], type):
            continue
        for owner in namespace[name].__mro__:
            if not owner.__module__.startswith("ingot."):
                continue
            for method in methods.split():
                function = vars(owner).get(method)
                if isinstance(function, types.FunctionType):
                    setattr(owner, method, check_function(function, method, converts))


_native.register_constant_type(Checked)  # so that compile treats them like functions
_native.set_callbacks(parameter_kinds=parameter_kinds, taken_arguments=taken_arguments)
