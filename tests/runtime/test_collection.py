"""Garbage collection while the compiler runs."""

from __future__ import annotations

import gc
import os
import threading

import pytest

from ingot.runtime import collection
from ingot.runtime.collection import collection_paused, objects_stay


def test_blocks_nest() -> None:
    assert gc.isenabled()
    with collection_paused():
        with collection_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_ctrl_c_while_entering_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = collection._blocks.begin

    def interrupted() -> None:
        begin()
        raise KeyboardInterrupt

    monkeypatch.setattr(collection._blocks, "begin", interrupted)
    with pytest.raises(KeyboardInterrupt), collection_paused():
        pass
    assert gc.isenabled()
    monkeypatch.undo()
    with collection_paused():
        assert not gc.isenabled()
    assert gc.isenabled()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forked processes")
def test_forked_processes_collect() -> None:
    inside, done = threading.Event(), threading.Event()

    def compile_something() -> None:
        with collection_paused():
            inside.set()
            done.wait()

    thread = threading.Thread(target=compile_something)
    thread.start()
    inside.wait()
    child = os.fork()
    if child == 0:
        os._exit(0 if gc.isenabled() else 1)
    done.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert gc.isenabled()


def test_objects_that_stay_are_old_at_once() -> None:
    """And what the program has frozen stays frozen."""
    with objects_stay():
        found = [[number] for number in range(10)]
        assert not gc.isenabled()
    assert gc.isenabled()
    assert any(each is found for each in gc.get_objects(generation=2))
    gc.freeze()
    try:
        with objects_stay():
            pass
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()
