"""mx.distributed in one process, against the real MLX in one process."""

from __future__ import annotations

import os
import subprocess
import sys
from types import ModuleType

import mlx.core as mlx
import pytest

import ingot.core as mx

VARIABLES = ("MLX_WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MLX_RANK")


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def _public(module: ModuleType) -> set[str]:
    return {name for name in vars(module) if not name.startswith("_")}


def test_names() -> None:
    ours = {"all_to_all", "broadcast"}
    assert set(mx.distributed.__all__) == _public(mlx.distributed) | ours


def test_a_group_of_one() -> None:
    for library in (mx, mlx):
        group = library.distributed.init()
        assert (group.rank(), group.size()) == (0, 1)
        assert isinstance(group, library.distributed.Group)
        with pytest.raises(RuntimeError, match="split"):
            group.split(0)


def test_more_than_mlx() -> None:
    x = mx.arange(4.0)
    for found in (mx.distributed.all_to_all(x), mx.distributed.broadcast(x)):
        assert found is not x
        assert found.tolist() == x.tolist()
    with pytest.raises(ValueError, match="no process 1 in a group of size 1"):
        mx.distributed.broadcast(x, 1)


@pytest.mark.parametrize("name", ["all_sum", "all_max", "all_min", "all_gather", "sum_scatter"])
def test_over_all_processes(name: str) -> None:
    for library in (mx, mlx):
        function = getattr(library.distributed, name)
        x = library.array([[1.5, -2.0], [3.0, 0.25]])
        y = function(x)
        assert y is not x
        assert (y.tolist(), y.dtype) == (x.tolist(), x.dtype)
        assert function(x, group=library.distributed.init(), stream=library.cpu).shape == (2, 2)
        gradient = library.grad(lambda x, f=function: (f(x) ** 2).sum())(x)
        assert gradient.tolist() == (2 * x).tolist()
        x[0] = 7
        assert y.tolist() == [[1.5, -2.0], [3.0, 0.25]]
        with pytest.raises(ValueError, match="list"):
            function([1, 2])
    x = mx.arange(4.0)
    compiled = mx.compile(getattr(mx.distributed, name))
    assert compiled(x).tolist() == x.tolist()


def test_a_single_process_has_no_peers() -> None:
    for library in (mx, mlx):
        x = library.ones(2)
        for call in (
            lambda d=library.distributed, x=x: d.send(x, 1),
            lambda d=library.distributed, x=x: d.recv((2,), x.dtype, 1),
            lambda d=library.distributed, x=x: d.recv_like(x, 1),
        ):
            with pytest.raises(ValueError):  # noqa: PT011
                call()
    with pytest.raises(
        ValueError, match=r"\[send\] there is no process 1: the group has one process"
    ):
        mx.distributed.send(mx.ones(2), 1)


def test_backends() -> None:
    for library in (mx, mlx):
        assert library.distributed.init(backend="mpi").size() == 1
        with pytest.raises(ValueError, match="backend"):
            library.distributed.init(backend="pigeon")
    assert all(map(mx.distributed.is_available, ("any", "mpi", "ring", "nccl", "jaccl")))
    assert not mx.distributed.is_available("pigeon")


def test_mpi_is_loaded_by_init_alone() -> None:
    program = """
import sys
import ingot.core as mx
import ingot.nn, ingot.optimizers
mx.eval(mx.distributed.all_sum(mx.ones(3)))
assert not any(name.startswith("mpi4py") for name in sys.modules)
group = mx.distributed.init(strict=True)
assert "mpi4py.MPI" in sys.modules
assert (group.rank(), group.size()) == (0, 1)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("variable", VARIABLES)
def test_processes_that_mpi_does_not_connect_are_refused(variable: str) -> None:
    """Each would silently be a world of its own."""
    program = "import ingot.core as mx; mx.distributed.init()"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, variable: "2"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode != 0
    if variable != "PMI_SIZE":  # which makes MPICH look for its launcher
        assert f"{variable} says that several processes were started" in done.stderr
        assert "MPI connects 1 of them: start them by `ingot launch`" in done.stderr


def test_one_process_of_a_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLX_RANK", "0")
    monkeypatch.setenv("MLX_WORLD_SIZE", "1")
    assert mx.distributed.init().size() == 1
