"""The array type as a whole: its methods and their types, assignment, operands, deep graphs."""

from __future__ import annotations

import ast
import gc
import importlib
import inspect
import weakref
from pathlib import Path
from typing import Any

import mlx.core as mlx
import numpy as np
import pytest

import ingot
import ingot.core as mx

# By its full name: in the package, the class has this name.
array_module = importlib.import_module("ingot.core.array")

STUB = Path(ingot.__file__).with_name("_native.pyi")

# What MLX's binding has for its own sake.
BINDING = {"__getstate__", "__setstate__", "__init__", "__sizeof__", "__doc__", "__module__"}
BINDING |= {"__release_buffer__"}  # of nanobind's buffers, from Python 3.12 on


def stub_of_array() -> dict[str, ast.FunctionDef]:
    tree = ast.parse(STUB.read_text())
    (stub,) = (
        item for item in tree.body if isinstance(item, ast.ClassDef) and item.name == "array"
    )
    return {item.name: item for item in stub.body if isinstance(item, ast.FunctionDef)}


def test_array_has_all_that_mlx_has() -> None:
    missing = {name for name in vars(mlx.array) if name not in dir(mx.array)}
    assert missing - BINDING == set()


def test_the_types_list_all_methods() -> None:
    stub = stub_of_array()
    public = {
        name for name in vars(mx.array) if not name.startswith("_") and hasattr(mx.array, name)
    }
    assert public == {name for name in stub if not name.startswith("_")}
    attached = {*array_module.OWN, *array_module.SHARED}
    assert attached <= set(stub)
    for name in stub:
        assert hasattr(mx.array, name) or name == "__buffer__", name


@pytest.mark.parametrize("name", sorted({*array_module.OWN, *array_module.SHARED} - {"_stack"}))
def test_the_types_have_the_signatures_of_the_methods(name: str) -> None:
    method = inspect.getattr_static(mx.array, name)
    if isinstance(method, property) or not inspect.isfunction(inspect.unwrap(method)):
        return
    stub = stub_of_array()[name].args
    parameters = list(inspect.signature(method).parameters.values())[1:]
    kinds = {
        "positional": [argument.arg for argument in [*stub.posonlyargs, *stub.args]][1:],
        "variable": [stub.vararg.arg] if stub.vararg else [],
        "keyword": [argument.arg for argument in stub.kwonlyargs],
    }
    names = {
        "positional": [
            parameter.name
            for parameter in parameters
            if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        ],
        "variable": [p.name for p in parameters if p.kind is p.VAR_POSITIONAL],
        "keyword": [p.name for p in parameters if p.kind is p.KEYWORD_ONLY],
    }
    assert names == kinds
    defaults = [ast.unparse(value) for value in [*stub.defaults, *filter(None, stub.kw_defaults)]]
    assert defaults == [repr(p.default) for p in parameters if p.default is not p.empty]


@pytest.mark.parametrize("name", array_module.SHARED)
def test_a_method_is_the_function(name: str) -> None:
    assert getattr(mx.array, name) is getattr(mx, name)


def test_a_missing_function_is_an_import_error() -> None:
    names = {name: None for name in array_module.SHARED if name != "exp"}
    with pytest.raises(ImportError, match="array needs: exp"):
        array_module.attach_functions(names)


def test_properties() -> None:
    array = mx.arange(6).reshape(2, 3)
    assert (array.shape, array.ndim, array.size) == ((2, 3), 2, 6)
    assert (array.itemsize, array.nbytes, array.dtype) == (4, 24, mx.int32)
    assert array.T.tolist() == array.mT.tolist() == [[0, 3], [1, 4], [2, 5]]
    assert mx.zeros((2, 3, 4)).T.shape == (4, 3, 2)
    assert mx.zeros((2, 3, 4)).mT.shape == (2, 4, 3)
    number = mx.array([1 + 2j])
    assert (number.real.item(), number.imag.item()) == (1, 2)
    assert array.at[0].add(1).tolist() == [[1, 2, 3], [3, 4, 5]]
    assert array.reshape(3, 2).tolist() == array.reshape([3, 2]).tolist()
    assert array.transpose(1, 0).tolist() == array.transpose().tolist()
    with pytest.raises(AttributeError):
        array.shape = (3, 2)  # type: ignore[misc]
    with pytest.raises(AttributeError):
        array.color = "red"  # type: ignore[attr-defined]
    with pytest.raises(AttributeError):
        _ = array.strides  # type: ignore[attr-defined]


def test_assignment_in_place_is_seen_through_all_references() -> None:
    array = mx.array([1, 2, 3])
    same = array
    built_before = array * 10
    array += 1
    assert same is array
    assert same.tolist() == [2, 3, 4]
    array[0] = 9
    assert same.tolist() == [9, 3, 4]
    assert built_before.tolist() == [10, 20, 30]


@pytest.mark.parametrize(
    "statement",
    ["a += b", "a -= b", "a *= b", "a /= b", "a //= b", "a %= b", "a **= b"]
    + ["a @= b", "a[0] = b", "a[...] += b"],
)
def test_every_assignment_in_place(statement: str) -> None:
    outcomes = []
    for library in (mx, mlx):
        a = library.array([1.0, 2.0, 3.0])
        same, before = a, a + 0
        exec(
            statement,
            {"a": a, "b": library.array([2.0, 3.0, 4.0])[: 3 if "[0]" not in statement else 1]},
        )
        outcomes.append((same.tolist(), before.tolist()))
    assert outcomes[0] == outcomes[1]
    assert outcomes[0][1] == [1, 2, 3]


def test_quotients_do_not_fit_into_integers() -> None:
    array = mx.array([1, 2])
    with pytest.raises(ValueError, match="a quotient does not fit into"):
        array /= 2
    assert array.tolist() == [1, 2]


@pytest.mark.parametrize("statement", ["a &= b", "a |= b", "a ^= b", "a <<= b", "a >>= b"])
def test_every_assignment_of_bits_in_place(statement: str) -> None:
    outcomes = []
    for library in (mx, mlx):
        a = library.array([5, 6])
        same = a
        exec(statement, {"a": a, "b": library.array([1, 2])})
        outcomes.append(same.tolist())
    assert outcomes[0] == outcomes[1]


OPERATORS = ["+", "-", "*", "/", "//", "%", "**", "<", "<=", ">", ">="]


@pytest.mark.parametrize("operator", OPERATORS)
def test_operands_that_are_no_numbers(operator: str) -> None:
    names = {"a": mx.array([1, 2]), "object": object()}
    for other in ("'x'", "[1, 2]", "(1, 2)", "{}", "object", "range(2)"):
        with pytest.raises(ValueError, match="an operand is an array or a number"):
            eval(f"a {operator} {other}", names)
    with pytest.raises(TypeError, match="cannot be applied to array and NoneType"):
        eval(f"a {operator} None", names)
    with pytest.raises((TypeError, ValueError)):
        eval(f"None {operator} a", names)


def test_arrays_equal_no_strings() -> None:
    array = mx.array([1, 2])
    others: list[Any] = ["x", [1, 2], None, object(), {}]
    for other in others:
        equal: Any = array == other
        different: Any = array != other
        assert (equal, different) == (False, True)
    assert {array: 1}[array] == 1
    assert array in [array]


def test_subclasses() -> None:
    class Named(mx.array):
        """An array with a name."""

    named = Named([1.0, 2.0])
    named.name = "weights"  # type: ignore[attr-defined]
    assert isinstance(named, mx.array)
    assert (named + 1).tolist() == [2, 3]
    assert mx.exp(named).shape == (2,)
    assert named.name == "weights"  # type: ignore[attr-defined]
    reference = weakref.ref(named)
    del named
    gc.collect()
    assert reference() is None


def test_arrays_can_be_referred_to_weakly() -> None:
    array = mx.array([1.0])
    reference = weakref.ref(array)
    assert reference() is array
    del array
    assert reference() is None


def test_a_chain_of_a_million_nodes() -> None:
    """It is built, evaluated and destroyed without recursion."""
    start = mx.array([0.0])
    array = start
    for _ in range(1_000_000):
        array = array + 1
    unevaluated = array + 1
    assert array.item() == 1_000_000
    assert unevaluated.item() == 1_000_001
    array = start
    for _ in range(1_000_000):
        array = array + 1
    del array
    gc.collect()


def test_a_graph_that_shares_its_nodes() -> None:
    array = mx.array([1.0])
    for _ in range(60):
        array = array + array
    assert array.item() == 2.0**60


def test_evaluated_arrays_forget_their_graphs() -> None:
    first = mx.array(np.zeros(1000, np.float32))
    node = weakref.ref(first)
    last = first + 1
    mx.eval(last)
    del first
    assert node() is None
    assert last._node.inputs == ()


@pytest.mark.parametrize(
    "function",
    [
        mx.positive,
        mx.conj,
        mx.trunc,
        mx.nan_to_num,
        lambda a: +a,
        lambda a: a.conj(),
        lambda a: mx.round(a, 2),
        lambda a: mx.round(a),
        lambda a: mx.floor(a),
        lambda a: mx.real(a),
        lambda a: mx.stop_gradient(a),
        lambda a: mx.contiguous(a),
        lambda a: a.astype(a.dtype),
        lambda a: a[...],
        lambda a: mx.roll(a, 0),
        lambda a: mx.pad(a, 0),
        lambda a: mx.tile(a, 1),
        lambda a: mx.sum(a, axis=()),
    ],
)
def test_results_without_work_do_not_share_the_handle(function: Any) -> None:
    a = mx.array([1, 2, 3])
    b = function(a)
    b += 1
    assert a.tolist() == [1, 2, 3]
    assert b.tolist() == [2, 3, 4]


def test_negative_numbers_beside_uint64_wrap_around_as_in_mlx() -> None:
    for each in (mx, mlx):
        a = each.array([3, 2**63 - 1], dtype=each.uint64)
        assert (a + (-1)).tolist() == (a - 1).tolist() == [2, 2**63 - 2]
        assert (a * -1).tolist() == [2**64 - 3, 2**63 + 1]
        assert (a == -1).tolist() == [False, False]
        with pytest.raises(ValueError, match="-1"):
            each.array([3], dtype=each.uint32) + (-1)
