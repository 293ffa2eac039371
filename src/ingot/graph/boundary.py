"""Argument checks for public functions, derived from their annotations.

Input: a public module's namespace. Output: the same names, with functions (and the methods of
classes) wrapped in `Checked` objects of the C extension. For arguments of the usual kinds, a check
costs some nanoseconds. Anything else comes here, where an annotation becomes a `Kind` that knows
which values it accepts: convertible values (a NumPy int) are converted, others raise a TypeError
that names the function, the parameter and the value. Code inside the package may rely on the
annotations.

Accepted is what MLX accepts: for ints whatever has `__index__`, for floats any real number or array
of one element, for sequences everything that has a length and items; but not 1 for True.
"""

from __future__ import annotations

import inspect
import operator
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any

import numpy as np

from ingot import _native
from ingot._native import Checked, Dtype, array, class_kind
from ingot.graph.arrays.conversion import item
from ingot.graph.dimension import Dimension
from ingot.graph.dtype import is_complex, is_integer
from ingot.graph.errors import RangeError, type_name, value_text
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.reporting.hints import keyword_error, refusal_hint

__all__ = [
    "Between",
    "Number",
    "Size",
    "at_boundary",
    "attach",
    "check_classes",
    "check_function",
    "check_functions",
]

# Bits of the kinds that C recognises, in the order of the enum in _native/objects/checked.c.
NONE, FLAG, INTEGER, REAL_BIT, TEXT, ARRAY, DTYPE, INTEGERS, FUNCTION, ANYTHING = (
    1 << bit for bit in range(10)
)

# Functions, by title, that build the same graph for the same shapes, dtypes and other arguments:
# they read no value but those of masks, no setting and no random state. C replays equal calls of
# these (`_native/objects/call_memo.c`).
_BY_SHAPES = frozenset(
    (
        "all any argmax argmin argpartition argsort astype broadcast_to clip cumsum dequantize "
        "expand_dims flatten gather_mm gather_qmm logsumexp matmul max mean min moveaxis "
        "quantized_matmul repeat reshape roll softmax sort squeeze sum swapaxes take "
        "take_along_axis tile topk transpose tri tril triu unflatten "
        "layer_norm rms_norm rope scaled_dot_product_attention "
        "array.__getitem__ array.__setitem__ array.reshape array.transpose"
    ).split()
)

# Streams and files are checked where they are used, with the exceptions that MLX raises there.
_UNCHECKED = ("Any", "StreamLike", "File", "object", "None")
_LEAST, _MOST = -(2**63), 2**64 - 1  # ints: int64 and uint64
_LARGEST = int(sys.float_info.max)


@dataclass(frozen=True)
class Between:
    """Bounds in an annotation: `Annotated[int, Between(1)]`."""

    least: int
    most: int = 2**63


Size = Annotated[int, Between(1)]
Number = Annotated[int, Between(1, 2**16)]  # of things that are made one by one


@dataclass(frozen=True)
class Outside:
    """What `Kind.take` returns for an int that is out of bounds."""

    value: int
    limits: Between


REFUSED = object()  # what `Kind.take` returns for a value that the parameter rejects


@dataclass(frozen=True)
class Kind:
    """The values that a parameter accepts.

    Attributes:
        words: Its name in error messages.
        take: Converts a value to the annotated type (a NumPy int to an int), or returns REFUSED.
        bits: Which values C accepts without calling `take`.
        plural: The plural of the name.
    """

    words: str
    take: Callable[[Any], Any]
    bits: int = 0
    plural: str = ""


def _instance(words: str, expected: Any, bits: int, plural: str = "") -> Kind:
    return Kind(
        words, lambda value: value if isinstance(value, expected) else REFUSED, bits, plural
    )


def _take_int(value: Any) -> Any:
    if type(value) is Dimension:
        return value  # reading its value would add a guard
    if isinstance(value, (array, np.ndarray)):
        return _number(value) if value.size == 1 and _holds_ints(value) else REFUSED
    if not hasattr(type(value), "__index__"):
        return REFUSED
    number = operator.index(value)
    return number if _LEAST <= number <= _MOST else REFUSED


def _number(value: array | np.ndarray) -> Any:
    return item(value) if isinstance(value, array) else value.item()


def _holds_ints(value: Any) -> bool:
    return is_integer(value.dtype) if isinstance(value, array) else value.dtype.kind in "iu"


def _take_real(value: Any) -> Any:
    if isinstance(value, (bool, int, float)) or type(value) is Dimension:
        return REFUSED if isinstance(value, int) and abs(value) > _LARGEST else value
    if isinstance(value, array):
        return _number(value) if value.size == 1 and not is_complex(value.dtype) else REFUSED
    if isinstance(value, np.ndarray):
        return value.item() if value.size == 1 and value.dtype.kind in "biuf" else REFUSED
    if isinstance(value, (str, np.complexfloating)) or not hasattr(type(value), "__float__"):
        return REFUSED
    return float(value)


def _take_convertible(value: Any) -> Any:
    if isinstance(value, array):
        return value
    numbers = (bool, int, float, complex, np.ndarray, np.generic)
    return array(value) if isinstance(value, numbers) else REFUSED


def _take_flag(value: Any, kinds: tuple[type, ...] = (bool, np.bool_)) -> Any:
    return bool(value) if isinstance(value, kinds) else REFUSED


_ANYTHING = Kind("anything", lambda value: value, ANYTHING)
_INTEGER = Kind("an int", _take_int, INTEGER, "ints")
_REAL = Kind("a number", _take_real, REAL_BIT | INTEGER | FLAG, "numbers")
_TEXT = _instance("a string", str, TEXT, "strings")
_FUNCTION = Kind(
    "a function", lambda value: value if callable(value) else REFUSED, FUNCTION, "functions"
)

_ARRAY = _instance("an array", array, ARRAY, "arrays")
# Where MLX is written in Python, it takes numbers for arrays and 0 or 1 for flags.
_CONVERTING = {
    array: Kind("an array or a number", _take_convertible, ARRAY, "arrays"),
    bool: Kind("True or False", lambda x: _take_flag(x, (int, np.integer, np.bool_)), FLAG),
}

_PLAIN = {
    Any: _ANYTHING,
    object: _ANYTHING,
    inspect.Parameter.empty: _ANYTHING,
    types.NoneType: _instance("None", types.NoneType, NONE),
    bool: Kind("True or False", _take_flag, FLAG),
    int: _INTEGER,
    typing.SupportsIndex: _INTEGER,
    float: _REAL,
    str: _TEXT,
    array: _ARRAY,
    Dtype: _instance("a dtype such as mx.float32", Dtype, DTYPE, "dtypes"),
}


@lru_cache(maxsize=1024)
def kind_of(annotation: Any, converts: bool = False) -> Kind:
    """The kind for an annotation."""
    if converts and annotation in _CONVERTING:
        return _CONVERTING[annotation]
    if annotation in _PLAIN:
        return _PLAIN[annotation]
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        return _limited(arguments[1])
    if origin in (typing.Union, types.UnionType):
        return _union([kind_of(one, converts) for one in arguments])
    if origin is typing.Literal:
        return _TEXT  # the function itself checks which strings are valid
    if origin is Callable:
        return _FUNCTION
    if origin is tuple and arguments[-1:] != (...,):
        return _tuple([kind_of(one, converts) for one in arguments])
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping(kind_of(arguments[0], converts), kind_of(arguments[1], converts))
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return _sequence(kind_of(arguments[0], converts))
    expected = origin or annotation
    if not isinstance(expected, type) or getattr(expected, "_is_protocol", False):
        return _ANYTHING  # a type variable, a typing alias or a protocol
    name = expected.__name__
    # C recognises what many functions take: streams, and groups of processes.
    bits = class_kind(expected) if expected.__module__.startswith("ingot.graph.") else 0
    return _instance(f"a {name}", expected, bits, f"{name}s")


def _limited(limits: Between) -> Kind:
    def take(value: Any) -> Any:
        number = _take_int(value)
        inside = number is REFUSED or limits.least <= number <= limits.most
        return number if inside else Outside(number, limits)

    return Kind(_INTEGER.words, take, 0, _INTEGER.plural)


def _union(kinds: list[Kind]) -> Kind:
    def take(value: Any) -> Any:
        if isinstance(value, array) and bits & ARRAY:
            return value  # not its number
        return next(
            (taken for kind in kinds if (taken := kind.take(value)) is not REFUSED), REFUSED
        )

    words = [kind.words for kind in kinds]
    if _REAL in kinds and _INTEGER in kinds:
        words.remove(_INTEGER.words)
    bits = 0
    for kind in kinds:
        bits |= kind.bits
    text = f"{', '.join(words[:-1])} or {words[-1]}" if words[1:] else words[0]
    return Kind(text, take, bits)


def _items(value: Any) -> Sequence[Any] | None:
    """The items of a sequence-like value; None if it is not one."""
    if isinstance(value, (list, tuple)):
        return value
    if isinstance(value, (str, bytes, bytearray, memoryview)):
        return None
    if isinstance(value, (array, np.ndarray)):
        return list(value) if value.ndim > 0 else None
    return list(value) if isinstance(value, Sequence) else None


def _first_wrong(taken: Iterable[Any]) -> Any:
    """The first value that was rejected; None if all were accepted."""
    return next((one for one in taken if one is REFUSED or type(one) is Outside), None)


def _sequence(item: Kind) -> Kind:
    def take(value: Any) -> Any:
        items = _items(value)
        if items is None:
            return REFUSED
        taken = [item.take(one) for one in items]
        if (wrong := _first_wrong(taken)) is not None:
            return wrong
        return tuple(taken) if isinstance(items, tuple) else taken

    bits = INTEGERS if item is _INTEGER else 0
    plural = item.plural or "items"
    return Kind(f"a sequence of {plural}", take, bits, f"sequences of {plural}")


def _tuple(kinds: list[Kind]) -> Kind:
    def take(value: Any) -> Any:
        items = _items(value)
        if items is None or len(items) != len(kinds):
            return REFUSED
        taken = tuple(kind.take(one) for kind, one in zip(kinds, items, strict=True))
        wrong = _first_wrong(taken)
        return taken if wrong is None else wrong

    plural = kinds[0].plural if len(set(kinds)) == 1 else "items"
    return Kind(f"a tuple of {len(kinds)} {plural}", take, 0, f"tuples of {len(kinds)} {plural}")


def _mapping(key: Kind, item: Kind) -> Kind:
    def take(value: Any) -> Any:
        if not isinstance(value, Mapping):
            return REFUSED
        refused = any(
            key.take(name) is REFUSED or item.take(one) is REFUSED for name, one in value.items()
        )
        return REFUSED if refused else value

    plural = f" of {item.plural}" if item.plural else ""
    return Kind(f"a dict{plural}", take, 0, f"dicts{plural}")


@dataclass(frozen=True)
class Parameters:
    """The kinds of a function's parameters."""

    names: tuple[str, ...]  # positional ones first
    positions: int
    kinds: tuple[Kind, ...]
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
    positional, keyword = [], []
    rest = ("", _ANYTHING)
    takes_others = False
    for parameter in inspect.signature(function).parameters.values():
        kind = kind_of(_annotation(parameter.annotation, function), converts)
        entry = (parameter.name, kind)
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


def parameter_kinds(checked: Checked) -> tuple[tuple[str, ...], int, tuple[int, ...], int]:
    """The description of a function's parameters for C."""
    found = parameters_of(checked)
    return (
        found.names,
        found.positions,
        tuple(kind.bits for kind in found.kinds),
        found.rest[1].bits,
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
    named = {n: taken(n, kinds.get(n, _ANYTHING), value) for n, value in kwargs.items()}
    return tuple(positional), named


def _refusal(subject: str, kind: Kind, value: Any, taken: Any) -> Exception:
    if isinstance(taken, Outside):
        least, most = taken.limits.least, taken.limits.most
        limit = f"at least {least}" if taken.value < least else f"at most {most}"
        return ValueError(f"{subject} must be {limit}, got {value_text(value)}.")
    if kind.bits & (INTEGER | INTEGERS) and _is_too_large(value):
        return RangeError(f"{subject} does not fit into 64 bits, got {value_text(value)}.")
    return TypeError(
        f"{subject} must be {kind.words}, got {type_name(value)}: {value_text(value)}."
        + refusal_hint(subject, value)
    )


def _is_too_large(value: Any) -> bool:
    numbers = value if isinstance(value, (list, tuple)) else [value]
    found = [number for number in numbers if isinstance(number, int)]
    return len(found) == len(numbers) and any(not _LEAST <= number <= _MOST for number in found)


def _public_name(checked: Checked, args: tuple[Any, ...]) -> str:
    """The name of a function in error messages: the class for a layer's call, else its own."""
    if checked.title in ("__init__", "__call__"):
        return type(args[0]).__name__
    return checked.title


def check_function(function: Any, title: str, converts: bool = False) -> Any:
    """The function with checked arguments; the function itself if no parameter can be checked.

    Args:
        function: A Python function.
        title: Its name in error messages.
        converts: Whether to convert numbers and NumPy arrays, as MLX's Python code does.
    """
    checks = any(
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
        function = namespace[name]
        if isinstance(function, types.FunctionType):
            made = check_function(function, prefix + name, converts)
            if made is not function:
                made.__module__ = namespace["__name__"]  # for pickle
            namespace[name] = made


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
