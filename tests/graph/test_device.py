"""Devices and streams: one CPU, no GPU, labels that each thread sets for itself."""

from __future__ import annotations

import pickle
import platform
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import ingot.core as mx


@pytest.fixture(autouse=True)
def default_stream() -> Iterator[None]:
    yield
    mx.clear_streams()


def in_thread(function: Callable[[], Any]) -> Any:
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join()
    return results[0]


def test_devices() -> None:
    device = mx.Device(mx.cpu)
    assert repr(device) == "Device(cpu, 0)"
    assert repr(mx.Device(mx.gpu, 3)) == "Device(gpu, 3)"
    assert (device.type, device.index) == (mx.cpu, 0)
    assert device == mx.cpu
    assert mx.cpu == device
    assert hash(device) == hash(mx.cpu)
    assert device != mx.gpu
    assert mx.Device(mx.cpu, 1) != mx.cpu
    assert device != "cpu"
    assert str(mx.cpu) == "DeviceType.cpu"
    assert list(mx.DeviceType) == [mx.cpu, mx.gpu]
    assert pickle.loads(pickle.dumps(device)) == device
    with pytest.raises(TypeError, match=r"takes mx\.cpu or mx\.gpu"):
        mx.Device("cpu")  # type: ignore[arg-type]


def test_the_default_device_is_the_cpu() -> None:
    assert mx.default_device() == mx.cpu
    mx.set_default_device(mx.cpu)
    mx.set_default_device(mx.Device(mx.cpu, 0))
    assert in_thread(mx.default_device) == mx.Device(mx.cpu)
    with pytest.raises(TypeError, match="device must be a Device or a DeviceType, got str"):
        mx.set_default_device("cpu")  # type: ignore[arg-type]
    with pytest.raises(IndexError, match="there is one CPU"):
        mx.set_default_device(mx.Device(mx.cpu, 2))


@pytest.mark.parametrize(
    "use",
    [
        lambda: mx.set_default_device(mx.gpu),
        lambda: mx.default_stream(mx.gpu),
        lambda: mx.new_stream(mx.Device(mx.gpu)),
        lambda: mx.new_thread_local_stream(mx.gpu),
        lambda: mx.new_thread_unsafe_stream(mx.gpu),
        lambda: mx.stream(mx.gpu).__enter__(),
        lambda: mx.synchronize(mx.gpu),
        lambda: mx.add(1, 2, stream=mx.gpu),
        lambda: mx.array([1.0]).sum(stream=mx.gpu),
    ],
)
def test_the_gpu_is_refused(use: Callable[[], Any]) -> None:
    with pytest.raises(ValueError, match="there is no GPU back end: ingot runs on the CPU"):
        use()


def test_what_is_there() -> None:
    assert mx.is_available(mx.cpu)
    assert not mx.is_available(mx.gpu)
    assert not mx.is_available(mx.Device(mx.cpu, 1))
    assert (mx.device_count(mx.cpu), mx.device_count(mx.gpu)) == (1, 0)
    info = mx.device_info()
    assert info["architecture"] == platform.machine()
    assert info["device_name"]
    assert mx.device_info(mx.Device(mx.cpu)) == info
    assert mx.device_info(mx.gpu) == {}
    questions: list[Callable[[Any], Any]] = [mx.is_available, mx.device_count, mx.device_info]
    for question in questions:
        with pytest.raises(TypeError, match="got str"):
            question("x")


def test_metal_and_cuda_are_not_there() -> None:
    assert not mx.metal.is_available()
    assert not mx.cuda.is_available()
    assert mx.metal.device_info() == {}
    mx.metal.start_capture("trace.gputrace")
    mx.metal.stop_capture()
    assert mx.metal.get_active_memory() == mx.get_active_memory()


def test_streams() -> None:
    first, second = mx.new_stream(mx.cpu), mx.new_stream(mx.Device(mx.cpu))
    assert first != second
    assert first == first
    assert first != "x"
    assert {first: 1}[first] == 1
    assert first.device == mx.cpu
    assert repr(first).startswith("Stream(Device(cpu, 0), ")
    assert repr(mx.new_thread_local_stream(mx.cpu)).startswith("ThreadLocalStream(Device(cpu, 0), ")
    with pytest.raises(TypeError, match="device must be a Device or a DeviceType"):
        mx.new_stream("x")  # type: ignore[arg-type]


def test_the_default_stream_is_set_by_thread() -> None:
    initial = mx.default_stream(mx.cpu)
    mine = mx.new_stream(mx.cpu)
    mx.set_default_stream(mine)
    assert mx.default_stream(mx.cpu) is mine
    assert (mx.array(1) + 1)._node.stream is mine
    assert in_thread(lambda: mx.default_stream(mx.cpu)) == initial
    mx.clear_streams()
    assert mx.default_stream(mx.cpu) == initial
    for wrong in (None, mx.cpu):
        with pytest.raises(TypeError, match="stream must be a Stream"):
            mx.set_default_stream(wrong)  # type: ignore[arg-type]


def test_the_stream_context() -> None:
    initial = mx.default_stream(mx.cpu)
    first, second = mx.new_stream(mx.cpu), mx.new_thread_unsafe_stream(mx.cpu)
    context = mx.stream(first)
    with context:
        assert mx.default_stream(mx.cpu) is first
        with mx.stream(second), mx.stream(mx.cpu):
            assert mx.default_stream(mx.cpu) is second
        with context:
            assert mx.default_stream(mx.cpu) is first
        assert mx.default_stream(mx.cpu) is first
    assert mx.default_stream(mx.cpu) is initial
    with pytest.raises(RuntimeError, match="mine"), mx.stream(first):
        raise RuntimeError("mine")
    assert mx.default_stream(mx.cpu) is initial
    for wrong in (None, "x"):
        with pytest.raises(TypeError, match="s must be a Stream, a Device or a DeviceType"):
            mx.stream(wrong)  # type: ignore[arg-type]


def test_ops_take_streams() -> None:
    stream = mx.new_stream(mx.cpu)
    local = mx.new_thread_local_stream(mx.cpu)
    assert mx.add(1, 2, stream=stream)._node.stream is stream
    assert mx.add(1, 2, stream=mx.cpu)._node.stream is mx.default_stream(mx.cpu)
    here = mx.add(1, 2, stream=local)._node.stream
    assert mx.add(1, 2, stream=local)._node.stream is here
    assert in_thread(lambda: mx.add(1, 2, stream=local)._node.stream) != here
    built = mx.add(1, 2, stream=stream)
    assert in_thread(built.item) == 3
    mx.synchronize(stream)
    mx.synchronize(local)
    mx.synchronize(mx.cpu)
    for wrong in ("x", 3):
        with pytest.raises(TypeError, match="expected a device"):
            mx.add(1, 2, stream=wrong)  # type: ignore[arg-type]
    with pytest.raises(IndexError, match="one CPU, of index 0, got index 1"):
        mx.add(1, 2, stream=mx.Device(mx.cpu, 1))


def test_a_stream_lives_as_long_as_it_is_used() -> None:
    """The C extension only borrows the default stream."""
    for _ in range(100):
        mx.set_default_stream(mx.new_stream(mx.cpu))
        with mx.stream(mx.new_stream(mx.cpu)):
            array = mx.array([1.0]) + 1
        assert array._node.stream.device == mx.cpu
    assert mx.default_stream(mx.cpu).device == mx.cpu
