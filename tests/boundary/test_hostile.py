"""Every public function with hostile arguments: it works, or says what is wrong in a sentence.

Of each argument, some hostile values are tried; INGOT_HOSTILE=all tries all of them.
"""

from __future__ import annotations

import inspect
import os
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.boundary import calls, calls_nn
from tests.boundary.hostile import attempts, complaint, environment, evaluate, hostile_values

import ingot.core as mx
import ingot.nn as nn
import ingot.optimizers as optimizers
import ingot.search as search
import ingot.utils as utils

EVERY = os.environ.get("INGOT_HOSTILE") == "all"
KNOWN = environment()
TABLES = (calls.CORE, calls.METHODS, calls.SUBMODULES)
TABLES_NN = (calls_nn.LAYERS, calls_nn.LOSSES, calls_nn.OPTIMIZERS, calls_nn.TREES, calls_nn.SEARCH)
LISTED = [line for table in (*TABLES, *TABLES_NN) for line in calls.lines(table)]


def _elementwise() -> list[str]:
    """Calls of the functions that take arrays and numbers and nothing else."""
    found = []
    for name, function in sorted(vars(mx).items()):
        if name.startswith("_") or not inspect.isroutine(function):
            continue
        parameters = [
            one for one in inspect.signature(function).parameters.values() if one.name != "stream"
        ]
        if parameters and all(one.annotation == "Any" for one in parameters):
            integers = re.search("bitwise|shift", name)
            operands = ["integers" if integers else "floats"] * len(parameters)
            found.append(f"mx.{name}({', '.join(operands)})")
    return [call for call in found if call.partition("(")[0] not in _named(LISTED)]


def _named(expressions: list[str]) -> set[str]:
    return {name for line in expressions for name in re.findall(r"[\w.]*[\w]+(?=\()", line)}


EXPRESSIONS = LISTED + _elementwise()


@pytest.fixture(autouse=True)
def _contained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Files go to a folder of the test's own, and settings are put back."""
    monkeypatch.chdir(tmp_path)
    settings = mx.get_num_threads(), mx.default_stream(mx.cpu), mx.get_printoptions().precision
    memory, cache = mx.set_memory_limit(2**33), mx.set_cache_limit(2**31)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    threads, stream, precision = settings
    mx.set_num_threads(threads)
    mx.set_default_device(mx.cpu)
    mx.set_default_stream(stream)
    mx.set_printoptions(precision)
    mx.set_memory_limit(memory)
    mx.set_cache_limit(cache)
    mx.set_eager_fusion(True)
    mx.enable_compile()
    mx.debug_nans(False)


def outcome(text: str, hostile: str) -> str | None:
    """What is wrong with what a call with a hostile argument does; None if nothing is."""
    known = dict(KNOWN)
    value = eval(hostile, known)
    try:
        evaluate(eval(text, known | {"HOSTILE": value}))
    except Exception as error:
        return complaint(error)
    return None


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_hostile_arguments(expression: str) -> None:
    evaluate(eval(expression, dict(KNOWN)))  # the call as it is listed works
    wrong = []
    for attempt in attempts(expression, KNOWN):
        for hostile in hostile_values(attempt, EVERY):
            found = outcome(attempt.text, hostile)
            if found is not None:
                wrong.append(f"{attempt.text}, HOSTILE = {hostile}\n    {found}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("expression", calls.lines(calls.WITHOUT))
def test_functions_that_cannot_do_anything(expression: str) -> None:
    with pytest.raises((ValueError, RuntimeError)) as caught:
        eval(expression, dict(KNOWN))
    assert complaint(caught.value) is None


MODULES: dict[str, Any] = {
    "mx": mx,
    "mx.linalg": mx.linalg,
    "mx.fft": mx.fft,
    "mx.random": mx.random,
    "mx.fast": mx.fast,
    "mx.distributed": mx.distributed,
    "mx.metal": mx.metal,
    "nn": nn,
    "nn.losses": nn.losses,
    "nn.init": nn.init,
    "optimizers": optimizers,
    "utils": utils,
    "search": search,
}
# Types whose constructors are Python's, or that users do not call.
NOT_CALLED = """
    mx.Dtype mx.distributed.Group mx.ArrayLike mx.attach_functions mx.FunctionExporter
    mx.ArrayIterator
""".split()


@pytest.mark.parametrize("prefix", MODULES)
def test_every_public_function_has_a_call(prefix: str) -> None:
    module: ModuleType = MODULES[prefix]
    public = getattr(module, "__all__", None) or [one for one in vars(module) if one[0] != "_"]
    functions = {f"{prefix}.{name}" for name in public if _takes_arguments(getattr(module, name))}
    called = _named(EXPRESSIONS + calls.lines(calls.WITHOUT))
    assert sorted(functions - called - set(NOT_CALLED)) == []


def _takes_arguments(value: Any) -> bool:
    if not (inspect.isroutine(value) or inspect.isclass(value)):
        return False
    if inspect.isclass(value) and issubclass(value, (Exception, int, mx.CompileMode.__base__)):
        return False
    try:
        return bool(inspect.signature(value).parameters)
    except ValueError:
        return True


def test_every_method_of_arrays_has_a_call() -> None:
    methods = {
        name
        for name, method in vars(mx.array).items()
        if not name.startswith("_") and inspect.isroutine(method) and hasattr(mx.array, name)
    }
    takes = {
        name
        for name in methods
        if len(inspect.signature(getattr(mx.array, name)).parameters) > 2  # the array and a stream
    }
    called = {name.rpartition(".")[2] for name in _named(EXPRESSIONS)}
    assert sorted(takes - called) == []
