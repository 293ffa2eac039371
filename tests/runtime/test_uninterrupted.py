"""Ctrl-C anywhere in the code that handles a user's objects: they stay in order.

Programs are run again and again, and each time a signal comes a bit later in the modules that put
placeholders into models, take them out again and write results back: after a call, at a jump back
or at the beginning of a function, where Python looks for signals.
"""

from __future__ import annotations

import dis
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

import ingot
import ingot.core as mx
import ingot.nn as nn
import ingot.optimizers as optim
from ingot._native import in_tracing
from ingot.runtime.uninterrupted import uninterrupted

PACKAGE = Path(ingot.__file__).parent
WATCHED = tuple(
    str(PACKAGE / name)
    for name in (
        *("compiler/trace", "compiler/call/function.py", "graph/state.py", "nn/substitution.py"),
        *("nn/utils.py", "runtime/uninterrupted.py", "runtime/watched.py", "transforms"),
    )
)


@pytest.fixture(autouse=True)
def default_handler() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


CHECKS = ("CALL", "CALL_KW", "CALL_FUNCTION_EX", "JUMP_BACKWARD", "RESUME")


@cache
def checks_of(code: CodeType) -> set[int]:
    """Where in a function the instructions are that look for signals."""
    return {x.offset for x in dis.get_instructions(code) if x.opname in CHECKS}


def interrupted(run: Callable[[], Any], check: int) -> bool:
    """Runs a function with a signal at the given check of the modules; whether there is one."""

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if not frame.f_code.co_filename.startswith(WATCHED):
            return None
        frame.f_trace_opcodes = True
        checks, before = checks_of(frame.f_code), -1

        def inside(frame: FrameType, event: str, _: Any) -> Any:
            nonlocal check, before
            if event == "opcode":
                check -= before in checks
                if check == 0 and before in checks:
                    signal.raise_signal(signal.SIGINT)
                before = frame.f_lasti
            return inside

        return inside

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)
    return check <= 0


def prepare(run: Callable[[], Any]) -> None:
    """Runs a function without a signal, but traced: since Python 3.12, a function's instructions
    are traced only from the second time on, and a call that is not traced undoes the first.
    """
    if sys.version_info >= (3, 12):
        interrupted(run, 0)
    else:
        run()


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = mx.array([1.0, 2.0])
        self.calls = mx.array(0)
        self.scale = 2.0

    def __call__(self, x: mx.array) -> mx.array:
        self.calls = self.calls + 1
        return x * self.weight * self.scale


class CompiledMethod(Model):
    __call__ = mx.compile(Model.__call__)


def loss(model: Any, x: mx.array) -> mx.array:
    return model(x).sum()


def step(model: Model) -> Callable[[mx.array], mx.array]:
    optimizer = optim.SGD(0.0, momentum=0.5)
    optimizer.init(model.trainable_parameters())
    state = [model.state, optimizer.state]

    def train(x: mx.array) -> mx.array:
        value, gradients = nn.value_and_grad(model, loss)(model, x)
        optimizer.update(model, gradients)
        return value

    return mx.compile(train, inputs=state, outputs=state)


# What is done with a model, as a function of it that gives one of an array.
USES: dict[str, Callable[[Any], Callable[[mx.array], Any]]] = {
    "captured": lambda model: mx.compile(
        lambda x: loss(model, x), inputs=model.state, outputs=model.state
    ),
    "argument": lambda model: partial(mx.compile(lambda model, x: loss(model, x)), model),
    "verified": lambda model: partial(mx.compile(partial(loss), verify=True), model),
    "shapeless": lambda model: partial(mx.compile(partial(loss), shapeless=True), model),
    "method": lambda model: lambda x: CompiledMethod.__call__(model, x).sum(),
    "training step": step,
    "gradient": lambda model: lambda x: nn.value_and_grad(model, loss)(model, x)[0],
    "gradient of a compiled function": lambda model: (
        lambda x: nn.value_and_grad(model, mx.compile(partial(loss)))(model, x)[0]
    ),
    "vmap": lambda model: lambda x: mx.vmap(model)(x[None]).sum(),
    "checkpoint": lambda model: lambda x: nn.utils.checkpoint(model)(x).sum(),
    "pure": lambda model: lambda x: model.apply(model.parameters(), x).sum(),
}

STRIDES = {"training step": 11, "captured": 3, "verified": 5, "shapeless": 5}  # those take longer


@pytest.mark.parametrize("use", USES)
def test_ctrl_c_anywhere(use: str) -> None:
    x = mx.array([1.0, 1.0])
    prepare(lambda: mx.eval(USES[use](CompiledMethod() if use == "method" else Model())(x)))
    values: list[float] = []
    check = 0
    is_there = True
    while is_there:
        check += STRIDES.get(use, 1)
        model = CompiledMethod() if use == "method" else Model()
        weight = model.weight
        called = USES[use](model)
        CompiledMethod.__call__.cache_clear()
        is_there = interrupted(lambda called=called: mx.eval(called(x)), check)  # type: ignore[misc]
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        assert not in_tracing()
        assert not hasattr(nn.Module.__getattribute__, "usual")  # nobody is watched any more
        assert not hasattr(nn.Module.__setattr__, "usual")
        assert model.calls.item() in (0, 1)
        assert weight.tolist() == model.weight.tolist() == [1.0, 2.0]
        assert vars(model).keys() >= {"scale"}
        if check % 5 == 0:
            before = model.calls.item()
            prepare(lambda called=called: values.append(called(x).item()))  # type: ignore[misc]
            assert values.pop() == 6.0
            assert model.calls.item() - before == (use != "pure")
    assert check > 20


def test_a_signal_waits_for_the_end() -> None:
    seen: list[str] = []

    def run() -> None:
        with uninterrupted():
            signal.raise_signal(signal.SIGINT)
            seen.append("went on")

    with pytest.raises(KeyboardInterrupt):
        run()
    assert seen == ["went on"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_functions_that_are_let_through_are_interrupted() -> None:
    seen: list[str] = []

    def function() -> None:
        with uninterrupted():  # also by a signal that waited inside them
            signal.raise_signal(signal.SIGINT)
            seen.append("inner")
        seen.append("never")

    with uninterrupted() as ctrl_c:
        with pytest.raises(KeyboardInterrupt):
            ctrl_c.let_through(function)
        seen.append("cleaning up")
    assert seen == ["inner", "cleaning up"]


def test_the_next_signal_waits_for_the_cleaning_up() -> None:
    seen: list[str] = []

    def run() -> None:
        with uninterrupted() as ctrl_c:
            try:
                ctrl_c.let_through(signal.raise_signal, signal.SIGINT)
            finally:
                signal.raise_signal(signal.SIGINT)
                seen.append("clean")

    with pytest.raises(KeyboardInterrupt):
        run()
    assert seen == ["clean"]


def test_handlers_that_do_not_raise() -> None:
    seen: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: seen.append(number))
    with uninterrupted() as ctrl_c:
        signal.raise_signal(signal.SIGINT)
        assert seen == []
        ctrl_c.let_through(signal.raise_signal, signal.SIGINT)
        assert seen == [signal.SIGINT] * 2
        signal.raise_signal(signal.SIGINT)
    assert seen == [signal.SIGINT] * 3


@pytest.mark.parametrize("handler", [signal.SIG_IGN, signal.SIG_DFL])
def test_no_handler(handler: signal.Handlers) -> None:
    signal.signal(signal.SIGINT, handler)
    with uninterrupted() as ctrl_c:
        assert signal.getsignal(signal.SIGINT) is handler
        assert ctrl_c.let_through(lambda x: x + 1, 2) == 3
    assert signal.getsignal(signal.SIGINT) is handler


def test_a_handler_that_was_set_meanwhile_stays() -> None:
    def mine(number: int, frame: Any) -> None:
        pass

    with uninterrupted() as ctrl_c:
        ctrl_c.let_through(signal.signal, signal.SIGINT, mine)
    assert signal.getsignal(signal.SIGINT) is mine


def test_other_threads_have_no_signals() -> None:
    found: list[Any] = []

    def run() -> None:
        with uninterrupted() as ctrl_c:
            found.append(ctrl_c.let_through(signal.getsignal, signal.SIGINT))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == [signal.default_int_handler]
