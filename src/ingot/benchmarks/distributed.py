"""Measures programs of several processes: `python -m ingot.benchmarks.distributed [-n RANKS]`.

Starts itself as ranks with one thread each, by `mpiexec`, and once more as ranks of MLX's ring, on
this machine. Sums are compared with mpi4py's `Allreduce` on the same buffers in the same run, best
of many short runs. Training and search are compared with one rank that works alone while the others
sleep; each rank of a training has as many examples as that one, and each of a search its share of
the vectors.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import ingot.core as mx
from ingot import nn, optimizers, search
from ingot.graph.libraries import mpi_library

__all__ = ["main"]

_SIZES = ((1, 100, 400), (1 << 14, 20, 100), (1 << 20, 2, 40))  # elements, calls in a run, runs
_RING_PORT = 23456


def _best(call: Callable[[], Any], runs: int, calls: int, ready: Callable[[], Any]) -> float:
    """Seconds of a call, the best of some runs."""
    best = float("inf")
    for _ in range(runs):
        ready()
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        best = min(best, (time.perf_counter() - begin) / calls)
    return best


def _sums(group: mx.distributed.Group, world: Any) -> None:
    for elements, calls, runs in _SIZES:
        given, found = np.ones(elements, np.float32), np.empty(elements, np.float32)
        x = mx.array(given)

        def bare(given: np.ndarray = given, found: np.ndarray = found) -> None:
            world.Allreduce(given, found)

        def ours(x: mx.array = x) -> None:
            mx.eval(mx.distributed.all_sum(x, group=group))

        # Interleaved, so that both see the machine in the same states.
        times = [float("inf"), float("inf")]
        for _ in range(runs):
            calls_of_both: tuple[Callable[[], None], ...] = (bare, ours)
            for number, call in enumerate(calls_of_both):
                times[number] = min(times[number], _best(call, 1, calls, world.Barrier))
        if group.rank() == 0:
            print(
                f"all_sum of {4 * elements} bytes: {times[1] * 1e6:.2f} us, mpi4py "
                f"{times[0] * 1e6:.2f} us, ratio {times[1] / times[0]:.2f}",
                flush=True,
            )


def _training(given: tuple[nn.Module, mx.array, mx.array], average: bool) -> Callable[[], None]:
    model, x, y = given
    optimizer = optimizers.Adam(1e-3)
    state = [model.state, optimizer.state]
    loss = nn.value_and_grad(
        model, lambda x, y: nn.losses.cross_entropy(model(x), y, reduction="mean")
    )

    def step(x: mx.array, y: mx.array) -> mx.array:
        value, gradients = loss(x, y)
        optimizer.update(model, nn.average_gradients(gradients) if average else gradients)
        return value

    compiled = mx.compile(step, inputs=state, outputs=state)
    return lambda: mx.eval(compiled(x, y), state)


def _perceptron() -> tuple[nn.Module, mx.array, mx.array]:
    mx.random.seed(0)
    layers = [nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)]
    return (
        nn.Sequential(*layers),
        mx.random.normal((512, 784)),
        mx.random.randint(0, 10, (512,)),
    )


class _Language(nn.Module):
    """A transformer of two blocks that predicts tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(512, 128)
        self.blocks = nn.TransformerEncoder(2, 128, 4, 512, norm_first=True)
        self.head = nn.Linear(128, 512)

    def __call__(self, x: mx.array) -> mx.array:
        mask = nn.MultiHeadAttention.create_additive_causal_mask(x.shape[1])
        logits: mx.array = self.head(self.blocks(self.embedding(x), mask))
        return logits


def _transformer() -> tuple[nn.Module, mx.array, mx.array]:
    mx.random.seed(0)
    tokens = mx.random.randint(0, 512, (16, 65))
    return _Language(), tokens[:, :-1], tokens[:, 1:]


def _alone(world: Any, measure: Callable[[], float]) -> float:
    """What the first rank measures while the others sleep."""
    if world.Get_rank() == 0:
        measured = measure()
        for rank in range(1, world.Get_size()):
            world.send(measured, rank, 7)
        return measured
    while not world.Iprobe(0, 7):
        time.sleep(0.01)
    return float(world.recv(source=0, tag=7))


def _trainings(group: mx.distributed.Group, world: Any) -> None:
    for name, make in (("MLP", _perceptron), ("transformer", _transformer)):

        def one(make: Callable[[], Any] = make) -> float:
            step = _training(make(), average=False)
            step()
            return _best(step, 15, 2, lambda: None)

        step = _training(make(), average=True)
        step()
        alone, together = float("inf"), float("inf")
        for _ in range(2):
            alone = min(alone, _alone(world, one))
            together = min(together, world.allreduce(_best(step, 15, 2, world.Barrier), op=_max()))
        if group.rank() == 0:
            speed = group.size() * alone / together
            print(
                f"training of a {name}: a step of one rank {alone * 1e3:.2f} ms, of "
                f"{group.size()} {together * 1e3:.2f} ms, {speed:.2f} times the throughput",
                flush=True,
            )


def _max() -> Any:
    return mpi_library().MAX


def _search(group: mx.distributed.Group, world: Any, count: int) -> None:
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((count, 64), np.float32)
    queries = rng.standard_normal((64, 64), np.float32)

    def one() -> float:
        index = search.FlatIndex(64)
        index.add(vectors)
        return _best(lambda: mx.eval(index.search(queries, 10)), 6, 1, lambda: None)

    alone = _alone(world, one)
    sharded = search.ShardedIndex(search.FlatIndex(64), group)
    sharded.add_shard(np.array_split(vectors, group.size())[group.rank()])
    together = _best(lambda: mx.eval(sharded.search(queries, 10)), 6, 1, world.Barrier)
    together = world.allreduce(together, op=_max())
    if group.rank() == 0:
        print(
            f"search of {count} x 64, 64 queries: one rank {alone * 1e3:.1f} ms, {group.size()} "
            f"{together * 1e3:.1f} ms, {alone / together:.2f} times as fast",
            flush=True,
        )


def _rank(arguments: argparse.Namespace) -> None:
    """What each rank does."""
    group = mx.distributed.init(strict=True)
    world = mpi_library().COMM_WORLD
    if "sums" in arguments.what:
        _sums(group, world)
    if "training" in arguments.what:
        _trainings(group, world)
    if "search" in arguments.what:
        _search(group, world, arguments.vectors)


_RING = """
import time
import mlx.core as mx
group = mx.distributed.init(strict=True, backend="ring")
mx.set_default_device(mx.cpu)
for elements, calls, runs in {sizes}:
    x = mx.ones(elements)
    best = float("inf")
    for _ in range(runs):
        mx.eval(mx.distributed.all_sum(mx.ones(1)))
        begin = time.perf_counter()
        for _ in range(calls):
            mx.eval(mx.distributed.all_sum(x))
        best = min(best, (time.perf_counter() - begin) / calls)
    if group.rank() == 0:
        print(f"MLX's ring, all_sum of {{4 * elements}} bytes: {{best * 1e6:.2f}} us", flush=True)
"""


def _ring(count: int) -> None:
    """The same sums by MLX, whose ranks are started by hand."""
    hosts = [[f"127.0.0.1:{_RING_PORT + rank}"] for rank in range(count)]
    file = Path(os.environ.get("TMPDIR", "/tmp")) / f"ingot-ring-{os.getpid()}.json"
    file.write_text(json.dumps(hosts))
    variables = {**os.environ, "MLX_HOSTFILE": str(file), "OMP_NUM_THREADS": "1"}
    command = [
        sys.executable,
        "-c",
        _RING.format(sizes=[(elements, 10, 10) for elements, _, _ in _SIZES]),
    ]
    ranks = [
        subprocess.Popen(command, env={**variables, "MLX_RANK": str(rank)}) for rank in range(count)
    ]
    try:
        for process in ranks:
            process.wait(60)
    finally:
        for process in ranks:
            process.kill()
        file.unlink()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m ingot.benchmarks.distributed")
    parser.add_argument("-n", "--ranks", type=int, default=2)
    parser.add_argument("--vectors", type=int, default=1_000_000)
    parser.add_argument("--what", nargs="+", default=["sums", "ring", "training", "search"])
    parser.add_argument("--rank", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.rank:
        _rank(arguments)
        return
    if "ring" in arguments.what:
        _ring(arguments.ranks)
    launcher = Path(sys.executable).with_name("mpiexec")
    command = [str(launcher) if launcher.exists() else "mpiexec", "-n", str(arguments.ranks)]
    itself = [sys.executable, "-m", "ingot.benchmarks.distributed", "--rank", *sys.argv[1:]]
    subprocess.run([*command, *itself], env={**os.environ, "INGOT_NUM_THREADS": "1"}, check=True)


if __name__ == "__main__":
    main()
