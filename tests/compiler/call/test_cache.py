"""The cache of compiled functions: its keys, what it says, its bounds, and when it dies."""

from __future__ import annotations

import gc
import logging
import threading
import time
import warnings
import weakref
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

import ingot.core as mx
from ingot.compiler.call import cache as cache_module
from ingot.compiler.call import cache_info
from ingot.compiler.call import lengths as lengths_module
from ingot.compiler.call.misses import WARN_AFTER_MISSES
from ingot.compiler.programs import program_of
from ingot.runtime.per_owner_cache import PerOwnerCache, per_owner_cache


@pytest.fixture(autouse=True)
def _enabled() -> Iterator[None]:
    yield
    mx.enable_compile()
    mx.set_default_device(mx.cpu)


def plus_one(x: Any) -> Any:
    return x + 1


def reasons(compiled: Any) -> list[str]:
    return [miss.reason for miss in compiled.cache_info().reasons]


def test_compiling_twice_shares_entries() -> None:
    def function(x: Any) -> Any:
        return x * 2

    first = mx.compile(function)
    first(mx.array(1.0))
    mx.compile(function)(mx.array(2.0))
    again = mx.compile(function)
    again(mx.array(3.0))
    info = again.cache_info()
    assert (info.entries, info.hits, info.misses, info.evictions) == (1, 2, 1, 0)
    assert info.seconds > 0
    again.cache_clear()
    assert (again.cache_info().entries, again.cache_info().misses) == (0, 0)
    again(mx.array(3.0))
    assert again.cache_info().misses == 1


def test_the_seconds_include_machine_code() -> None:
    compiled = mx.compile(lambda x: mx.sin(x) * 3.125 + mx.cos(x))
    result = compiled(mx.ones(3))
    before = compiled.cache_info().seconds
    mx.eval(result)
    assert compiled.cache_info().seconds > before


def test_hits_are_counted_with_and_without_the_fast_path() -> None:
    compiled = mx.compile(lambda x, scale=1.0: x * scale)
    for _ in range(5):
        compiled(mx.array(1.0))
    for _ in range(5):
        compiled(mx.array(1.0), scale=2.0)
    assert (compiled.cache_info().hits, compiled.cache_info().misses) == (8, 2)


def test_what_came_from_a_transform_is_an_array_like_others() -> None:
    compiled = mx.compile(lambda x: x + 1)
    gradient = mx.grad(lambda x: (x * x).sum())(mx.ones(2))
    mx.eval(gradient)
    assert not gradient._node.tracer
    for _ in range(3):
        compiled(gradient)
    assert compiled._cache.fast_hits.count == 2


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        (((32, 4), {}), ((48, 4), {}), "argument `x`, axis 0: 32 → 48"),
        (((2, 3), {}), ((4, 5), {}), "argument `x`, axis 0: 2 → 4; argument `x`, axis 1: 3 → 5"),
        (((2,), {}), ((2, 2), {}), "argument `x`: 1 axes → 2"),
        (((2,), {"k": 10}), ((2,), {"k": 20}), "constant `k` 10 → 20"),
        (((2,), {"k": 10}), ((2,), {}), "argument `k` is gone"),
        (((2,), {}), ((2,), {"k": "text"}), "argument `k` is new"),
        (((2,), {"k": [1, 2]}), ((2,), {"k": [1, 2, 3]}), "argument `k`[2] is new"),
        (
            ((2,), {"k": {"a": 1}}),
            ((2,), {"k": {"b": 1}}),
            "argument `k`['b'] is new; argument `k`['a'] is gone",
        ),
        (
            ((2,), {"k": (1, 2)}),
            ((2,), {"k": [1, 2]}),
            "the arguments are nested or shared in another way",
        ),
        (((2,), {"k": 10}), ((2,), {"k": mx.array(1.0)}), "argument `k`: 10 → float32()"),
    ],
)
def test_reasons(first: Any, second: Any, reason: str) -> None:
    compiled = mx.compile(lambda x, k=None: x)
    for shape, keywords in (first, second, first, second):
        compiled(mx.zeros(shape), **keywords)
    assert reasons(compiled) == ["the first call", reason]


def test_reasons_with_many_changes_name_the_first_and_arguments_before_state() -> None:
    state: dict[str, mx.array] = {}
    compiled = mx.compile(lambda x: x, inputs=state)
    compiled(mx.zeros(2))
    state.update({f"moment{i}": mx.zeros(2) for i in range(9)})
    compiled(mx.zeros(3))
    names = "; ".join(f"captured inputs['moment{i}'] is new" for i in range(3))
    assert reasons(compiled)[1] == f"argument `x`, axis 0: 2 → 3; {names}; and 7 more changes"


def test_reasons_for_dtypes_and_positions() -> None:
    compiled = mx.compile(lambda *arrays: arrays[0])
    compiled(mx.zeros(2), mx.zeros(2))
    compiled(mx.zeros(2), mx.zeros(2, mx.float16))
    compiled(mx.zeros(2), mx.zeros(2), mx.zeros(2))
    assert reasons(compiled)[1:] == ["argument 1: dtype float32 → float16", "argument 2 is new"]


def test_reasons_compare_with_the_most_recent_of_equally_near_signatures(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lengths_module, "MAX_FIXED_LENGTHS", 4)
    compiled = mx.compile(plus_one)
    compiled.cache_clear()
    for length in (2, 3, 4):
        compiled(mx.zeros(length))
    assert reasons(compiled)[-1] == "argument `x`, axis 0: 3 → 4"
    compiled(mx.zeros(2), **{})
    mx.compile(plus_one, shapeless=False)(x=mx.zeros(2))
    compiled(mx.zeros(5))
    assert reasons(compiled)[-1] == "argument `x`, axis 0: 2 → 5"


def test_reasons_for_circumstances() -> None:
    compiled = mx.compile(lambda x: x + 1)
    compiled(mx.array(1.0))
    mx.set_compile_mode("no_fuse")
    compiled(mx.array(1.0))
    mx.enable_compile()
    with mx.stream(mx.new_stream(mx.cpu)):
        compiled(mx.array(1.0))
    found = reasons(compiled)
    assert found[1] == "the mode enabled → no_fuse"
    assert found[2].startswith("the stream Stream(")
    compiled(mx.array(1.0))
    assert compiled.cache_info().misses == 3


def test_long_constants_are_shortened() -> None:
    compiled = mx.compile(lambda x, k: x)
    compiled(mx.zeros(2), "a" * 1000)
    compiled(mx.zeros(2), "b" * 1000)
    assert len(reasons(compiled)[1]) < 200


def test_the_least_recently_used_entry_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_module, "MAX_ENTRIES", 3)
    traced = []

    def function(x: Any, k: int) -> Any:
        traced.append(k)
        return x * k

    compiled = mx.compile(function)
    x = mx.array(1.0)
    for k in (0, 1, 2):
        compiled(x, k=k)
    compiled(x, k=0)
    compiled(x, k=3)  # 1 was used longest ago
    assert compiled.cache_info().evictions == 1
    assert compiled.cache_info().entries == 3
    compiled(x, k=0)
    compiled(x, k=1)
    assert traced == [0, 1, 2, 3, 1]


def test_the_number_of_entries_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_module, "MAX_ENTRIES", 20)
    monkeypatch.setattr(cache_info, "MAX_KEPT", 10)
    compiled = mx.compile(lambda x, k: x + k)
    x = mx.array(1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mx.RecompilationWarning)
        for k in range(40):
            assert compiled(x, k).item() == 1 + k
    info = compiled.cache_info()
    assert info.entries == cache_module.MAX_ENTRIES
    assert info.evictions == 20
    assert len(info.reasons) == cache_info.MAX_KEPT


def test_shapeless_instances_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_module, "MAX_INSTANCES", 3)
    compiled = mx.compile(lambda x, k=1: x.sum() * k, shapeless=True)
    for length in (2, 3, 4, 5, 2):
        assert compiled(mx.ones(length), k=1).item() == length
    assert compiled.cache_info().entries == 3
    assert compiled.cache_info().misses == 1


# Lifetimes


def test_entries_die_with_the_function() -> None:
    closed_over = mx.array([1.0])

    def make() -> Any:
        def function(x: Any) -> Any:
            return x + closed_over

        return function

    function = make()
    gc.collect()  # what other tests left
    before = len(per_owner_cache)
    compiled = mx.compile(function)
    cache = weakref.ref(compiled._cache)
    compiled(mx.array([2.0]))
    assert len(per_owner_cache) == before + 1
    reference = weakref.ref(function)
    assert cache() is not None
    del function, compiled
    gc.collect()
    assert reference() is None
    assert cache() is None
    assert len(per_owner_cache) == before


def test_lambdas_in_a_loop_leak_nothing() -> None:
    x = mx.array([1.0, 2.0])

    def once(k: int) -> None:
        big = mx.ones((k % 3 + 1,))
        mx.compile(lambda x: mx.exp(mx.abs(x)) + k + big.sum())(x).tolist()
        mx.compile(mx.grad(lambda x: (x * x).sum() * k))(x).tolist()
        mx.compile(lambda x: x * k, shapeless=True)(x).tolist()
        state = [mx.array(float(k))]
        mx.compile(lambda x: state.append(x), inputs=state, outputs=state)(x)

    def objects() -> int:
        gc.collect()
        return len(gc.get_objects())

    def growth() -> int:
        before = objects()
        for k in range(30):
            once(k)
        return objects() - before

    growth()
    kept = len(per_owner_cache)
    # What leaks grows in every round; caches that earlier tests have emptied fill in one.
    assert min(growth(), growth()) < 100
    assert len(per_owner_cache) <= kept


def test_methods_do_not_keep_their_objects() -> None:
    class Model:
        def __init__(self) -> None:
            self.weight = mx.array(2.0)
            self.compiled = mx.compile(self.forward)

        def forward(self, x: Any) -> Any:
            return mx.checkpoint(self.layer)(x)

        def layer(self, x: Any) -> Any:
            return mx.sin(x * self.weight)

        @mx.compile
        def decorated(self, x: Any) -> Any:
            return x + self.weight

    model = Model()
    model.compiled(mx.array(1.0))
    model.decorated(mx.array(1.0))
    mx.compile(mx.grad(model.forward))(mx.array(1.0))
    reference = weakref.ref(model)
    del model
    gc.collect()
    assert reference() is None


def test_owners_are_distinguished_by_identity() -> None:
    class Equal:
        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = None  # type: ignore[assignment]

    kept = PerOwnerCache()
    first, second = Equal(), Equal()
    assert kept.of(first, list) is kept.of(first, list)
    assert kept.of(first, list) is not kept.of(second, list)
    del first
    gc.collect()
    assert len(kept) == 1
    with pytest.raises(TypeError):
        kept.of(3, list)


def test_values_of_dead_owners_are_not_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PerOwnerCache, "_forget", lambda *_: None)

    class Owner:
        pass

    kept = PerOwnerCache()
    dead, alive = Owner(), Owner()
    kept._kept[id(alive)] = (weakref.ref(dead), ["of the dead"])
    del dead
    assert kept.of(alive, list) == []


def test_equal_callables_do_not_share_entries() -> None:
    class Scale:
        def __init__(self, factor: float) -> None:
            self.factor = factor

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 1

        def __call__(self, x: Any) -> Any:
            return x * self.factor

    one, two = Scale(1.0), Scale(2.0)
    assert mx.compile(one)(mx.array(3.0)).item() == 3.0
    assert mx.compile(two)(mx.array(3.0)).item() == 6.0


# Threads


def test_threads_that_miss_on_the_same_key_compile_once(monkeypatch: pytest.MonkeyPatch) -> None:
    traced = []
    pipelines = []

    def counted(*arguments: Any) -> Any:
        pipelines.append(arguments)
        return program_of(*arguments)

    monkeypatch.setattr("ingot.compiler.call.misses.program_of", counted)
    started = threading.Barrier(8)

    def function(x: Any) -> Any:
        traced.append(threading.get_ident())
        time.sleep(0.05)  # the others arrive meanwhile
        for _ in range(200):
            x = mx.sin(x) + 1
        return x

    compiled = mx.compile(function)
    results: list[float] = []

    def call() -> None:
        started.wait()
        results.append(compiled(mx.array(1.0)).item())

    threads = [threading.Thread(target=call) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(traced) == len(pipelines) == 1
    assert len(set(results)) == 1
    assert len(results) == 8
    info = compiled.cache_info()
    assert (info.misses, info.hits) == (1, 7)


# Complaints


def test_on_recompile_error() -> None:
    compiled = mx.compile(plus_one, on_recompile="error")
    compiled.cache_clear()
    compiled(mx.zeros(2))
    compiled(mx.zeros(2))
    with pytest.raises(RuntimeError) as caught:
        compiled(mx.zeros(3))
    assert str(caught.value) == "[compile] plus_one is compiled again: argument `x`, axis 0: 2 → 3."
    assert compiled.cache_info().misses == 1
    assert mx.compile(plus_one)(mx.zeros(3)).tolist() == [1.0] * 3
    compiled(mx.zeros(3))


def test_on_recompile_warn_points_at_the_caller() -> None:
    compiled = mx.compile(plus_one, on_recompile="warn")
    compiled.cache_clear()
    compiled(mx.zeros(2))
    with pytest.warns(mx.RecompilationWarning) as caught:
        compiled(mx.zeros(2, mx.int32))
    assert str(caught[0].message) == (
        "[compile] plus_one is compiled again: argument `x`: dtype float32 → int32."
    )
    assert caught[0].filename == __file__


def test_on_recompile_is_checked() -> None:
    with pytest.raises(ValueError, match=r"\[") as caught:
        mx.compile(plus_one, on_recompile="shout")
    assert str(caught.value) == (
        '[compile] on_recompile is "warn", "error" or None, got \'shout\'.'
    )


def plus(x: Any, k: int) -> Any:
    return x + k


def test_many_misses_in_a_row_are_reported_once() -> None:
    compiled = mx.compile(plus)
    compiled.cache_clear()
    for k in range(1, WARN_AFTER_MISSES):
        compiled(mx.zeros(2), k)
    with pytest.warns(mx.RecompilationWarning) as caught:
        compiled(mx.zeros(2), 100)
    assert str(caught[0].message) == (
        "[compile] plus is compiled again: constant `k` 15 → 100. That is 16 times in a row: see "
        "cache_info(), and think of shapeless=True or of passing what changes as an array."
    )
    assert caught[0].filename == __file__
    compiled(mx.zeros(2), 101)


def test_hits_between_misses_are_no_reason_to_worry() -> None:
    compiled = mx.compile(plus)
    compiled.cache_clear()
    for k in range(1, 2 * WARN_AFTER_MISSES):
        compiled(mx.zeros(2), k)
        if k % 5 == 0:
            compiled(mx.zeros(2), k)


def test_compilations_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    compiled = mx.compile(partial(lambda k, x: x * k, 2))
    with caplog.at_level(logging.INFO, logger="ingot.compile"):
        compiled(mx.zeros(2))
        compiled(mx.zeros(2))
        compiled(mx.zeros(3))
    assert len(caplog.records) == 2
    first, second = (record.getMessage() for record in caplog.records)
    assert first.startswith("compiled partial(test_compilations_are_logged.<locals>.<lambda>) in ")
    assert first.endswith(" ms: the first call")
    assert second.endswith(" ms: argument `x`, axis 0: 2 → 3")


def test_fast_entries_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ingot.compiler.call.cache.MAX_FAST_ENTRIES", 4)
    monkeypatch.setattr(lengths_module, "MAX_FIXED_LENGTHS", 20)
    compiled = mx.compile(lambda x: x + 1)
    for length in range(1, 11):
        np.testing.assert_array_equal(compiled(mx.zeros(length)), np.ones(length))
    assert len(compiled._cache.fast_entries) <= 4
