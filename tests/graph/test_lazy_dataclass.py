"""Dataclasses that are completed late are what `dataclasses` makes."""

from __future__ import annotations

import copy
import dataclasses
import gc
import inspect
import pickle
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from ingot._native import FieldInit
from ingot.graph.lazy_dataclass import dataclass as lazy

DECORATORS = [lazy, dataclasses.dataclass]


def family(decorate: Callable[..., Any]) -> tuple[type, type, type]:
    @decorate(frozen=True)
    class Base:
        a: int
        b: float = 2.0

        def __post_init__(self) -> None:
            if self.a < 0:
                raise ValueError("negative")

        def area(self) -> float:
            return self.a * self.b

    class Plain(Base):
        def __init__(self, a: int) -> None:
            super().__init__(a, 5.0)

    @decorate(frozen=True)
    class Derived(Base):
        c: tuple[int, ...] = dataclasses.field(default=(1,))

        def __repr__(self) -> str:
            return "mine"

    return Base, Plain, Derived


@pytest.mark.parametrize("decorate", DECORATORS, ids=["lazy", "dataclasses"])
def test_families(decorate: Callable[..., Any]) -> None:
    base, plain, derived = family(decorate)
    made = derived(3, c=(4,))  # the base is completed by the way
    assert [x.name for x in dataclasses.fields(derived)] == ["a", "b", "c"]
    assert repr(made) == "mine"
    assert (made.a, made.b, made.c, made.area()) == (3, 2.0, (4,), 6.0)
    assert made == derived(3, 2.0, (4,)) != derived(3)
    assert hash(made) == hash(derived(3, 2.0, (4,)))
    assert plain(7).area() == 35.0
    assert base(1) == base(1, 2.0) != derived(1)
    assert repr(base(1)).endswith("Base(a=1, b=2.0)")
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.a = 4
    with pytest.raises(TypeError, match=r"missing 1 required positional argument: 'a'"):
        base()
    with pytest.raises(ValueError, match="negative"):
        derived(-1)
    assert dataclasses.replace(made, b=1.0).area() == 3.0
    assert copy.copy(made) == made


@pytest.mark.parametrize("decorate", DECORATORS, ids=["lazy", "dataclasses"])
@pytest.mark.parametrize(
    "ask",
    [
        lambda cls: [field.name for field in dataclasses.fields(cls)],
        lambda cls: cls.__match_args__,
        lambda cls: list(inspect.signature(cls).parameters),
        lambda cls: cls(1) == cls(1),
        lambda cls: hash(cls(1)),
        lambda cls: cls.__eq__ is cls.__eq__,
        lambda cls: dataclasses.is_dataclass(cls),
    ],
)
def test_whichever_attribute_is_read_first(
    decorate: Callable[..., Any], ask: Callable[[type], Any]
) -> None:
    *_, derived = family(decorate)
    *_, expected = family(dataclasses.dataclass)
    assert ask(derived) == ask(expected)


@pytest.mark.parametrize("decorate", DECORATORS, ids=["lazy", "dataclasses"])
@pytest.mark.parametrize("options", [{}, {"eq": False}, {"frozen": True, "eq": False}])
def test_options(decorate: Callable[..., Any], options: dict[str, bool]) -> None:
    @decorate(**options)
    class Pair:
        a: int
        b: list[int] = dataclasses.field(default_factory=list)

    one, other = Pair(1), Pair(1)
    assert (one == other) is options.get("eq", True)
    assert one.b is not other.b
    if options:
        assert hash(one) == object.__hash__(one)
    else:
        with pytest.raises(TypeError, match="unhashable"):
            hash(one)


@lazy(frozen=True)
class Known:
    a: int


def test_pickled_where_none_was_made_yet() -> None:
    data = pickle.dumps(Known(3))
    script = f"""
import pickle
from tests.graph.test_lazy_dataclass import Known
one, other = pickle.loads({data!r}), pickle.loads({data!r})
assert one == other and hash(one) == hash(other) and repr(one) == "Known(a=3)"
"""
    subprocess.run([sys.executable, "-c", script], check=True, cwd=sys.path[0] or ".")


def test_threads_that_meet() -> None:
    for _ in range(20):
        *_, derived = family(lazy)
        found: list[Any] = []
        barrier = threading.Barrier(4)

        def make(derived: type = derived, barrier: Any = barrier, found: Any = found) -> None:
            barrier.wait()
            found.append(derived(3))

        threads = [threading.Thread(target=make) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 4
        assert len(set(found)) == 1


def test_interrupted() -> None:
    # A Ctrl-C somewhere in the first use of a class, at every third line: the next use begins
    # again.
    def interrupt_after(lines: int) -> Callable[..., Any]:
        def trace(frame: Any, event: str, _: Any) -> Any:
            nonlocal lines
            if event == "line":
                lines -= 1
                if lines == 0:
                    raise KeyboardInterrupt
            return trace

        return trace

    def run(derived: Any, lines: int) -> bool:
        before = sys.gettrace()
        gc.disable()  # callbacks of the collector, which other tests left, are not interrupted
        sys.settrace(interrupt_after(lines))
        try:
            derived(3)
        except KeyboardInterrupt:
            return False
        finally:
            sys.settrace(before)
            gc.enable()
        return True

    for line in range(1, 1_000_000, 3):
        _, _, derived = family(lazy)
        if run(derived, line):
            break
        run(derived, 150)  # and once more, elsewhere
        made: Any = derived(3, c=(4,))
        assert (made.a, made.b, made.c, repr(made)) == (3, 2.0, (4,), "mine")
        assert made == derived(3, 2.0, (4,)) != derived(3)
        with pytest.raises(dataclasses.FrozenInstanceError):
            made.a = 4
        with pytest.raises(ValueError, match="negative"):
            derived(-1)
    assert line > 100


@pytest.mark.parametrize("decorate", DECORATORS, ids=["lazy", "dataclasses"])
def test_fields_that_are_no_parameters(decorate: Callable[..., Any]) -> None:
    @decorate(frozen=True)
    class Counted:
        a: int
        seen: list[int] = dataclasses.field(init=False, default_factory=list, compare=False)
        kind: str = dataclasses.field(init=False, default="number")

    one, other = Counted(1), Counted(1)
    one.seen.append(2)
    assert other.seen == []
    assert one == other
    assert one.kind == "number"
    assert Counted.__match_args__ == ("a",)
    with pytest.raises(TypeError):
        Counted(1, [])


def test_dataclasses_may_be_derived_from_lazy_ones() -> None:
    *_, derived = family(lazy)

    @dataclasses.dataclass(frozen=True)
    class Further(derived):  # type: ignore[misc,valid-type]
        d: int = 7

    made = Further(1, 2.0, (3,), 4)
    assert (made.a, made.b, made.c, made.d) == (1, 2.0, (3,), 4)
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.d = 5


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((), {}),
        ((), {"b": 1}),
        ((), {"c": 1, "d": 2}),
        ((1,), {}),
        ((1, 2, 3, 4, 5, 6), {}),
        ((1, 2, 3), {"a": 4}),
        ((1, 2, 3), {"z": 4}),
        ((1, 2, 3, 4), {"d": 4}),
    ],
)
@pytest.mark.parametrize("has_defaults", [False, True])
def test_wrong_arguments(args: tuple[int, ...], kwargs: dict[str, int], has_defaults: bool) -> None:
    def message(decorate: Callable[..., Any]) -> str:
        if has_defaults:

            class Several:
                a: int
                b: int
                c: int
                d: int = 4
                e: list[int] = dataclasses.field(default_factory=list)

            decorated = decorate(Several)
        else:

            class Three:
                a: int
                b: int
                c: int

            decorated = decorate(Three)
        with pytest.raises(TypeError) as caught:
            decorated(*args, **kwargs)
        return str(caught.value)

    assert message(lazy) == message(dataclasses.dataclass)


def test_signatures() -> None:
    def made(decorate: Callable[..., Any]) -> inspect.Signature:
        @decorate
        class Several:
            a: int
            b: float = 2.0
            c: list[int] = dataclasses.field(default_factory=list)

        return inspect.signature(Several)

    found, expected = made(lazy), made(dataclasses.dataclass)
    assert list(found.parameters) == list(expected.parameters)
    for name in ("a", "b"):
        assert found.parameters[name] == expected.parameters[name]
    assert found.return_annotation is expected.return_annotation is None


def test_collected() -> None:
    *_, derived = family(lazy)
    derived(3)
    gone = weakref.ref(derived)
    del derived, _
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize(
    "fields",
    [
        (("a", 1, 2), ("b", 0, None)),
        (("a", 3, list), ("b", 1, 2)),
        (("a", 4, None),),
        (("a", 0),),
        ((1, 0, None),),
    ],
)
def test_fields_that_native_code_refuses(fields: Any) -> None:
    with pytest.raises(TypeError):
        FieldInit("f", fields, False, False, inspect.Signature)
