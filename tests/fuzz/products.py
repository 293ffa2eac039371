"""Random products of matrices with what comes before and after them.

A program multiplies two operands, each in a random layout and computed from its inputs (scaled,
masked, normalised, gathered), and computes something of the result: bias, activation, residual,
sums of its rows and columns, another product. Shapes are those that become loop nests, with edges
in all axes. Values are compared with NumPy's in float64, gradients with MLX's.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import mlx.core as mlx
import numpy as np
from tests.fuzz.check import Difference

import ingot.core as mx
from ingot.tuning import MAX_BLAS_WORK

__all__ = ["ProductProgram", "ProductStatistics", "check_product", "grow_product"]

LENGTHS = (1, 2, 3, 5, 7, 12, 16, 17, 33, 48, 61, 64, 100, 131, 257, 520, 1025)
MAX_WORK = 1 << 22
DTYPES = ("float32", "float32", "float32", "bfloat16", "float16", "float64")
# of the value and of what is allowed: twice the largest roundings of operands and results
TOLERANCE = {"float32": 3e-5, "float64": 1e-12, "float16": 2e-2, "bfloat16": 1.2e-1}

CANCELLED = 4

# how an operand `{0}` of (rows, columns) is stored, and how it is read
LAYOUTS = {
    "{0}": lambda stack, rows, n: (*stack, rows, n),
    "xp.swapaxes({0}, -1, -2)": lambda stack, rows, n: (*stack, n, rows),
    "{0}[..., ::2]": lambda stack, rows, n: (*stack, rows, 2 * n),
    "{0}[..., 1::3, :]": lambda stack, rows, n: (*stack, 3 * rows, n),
    "{0}[..., ::-1, :]": lambda stack, rows, n: (*stack, rows, n),
    "{0}[..., ::-1]": lambda stack, rows, n: (*stack, rows, n),
    "xp.swapaxes({0}, -1, -2)[..., 1:, :]": lambda stack, rows, n: (*stack, n, rows + 1),
}  # fmt: skip
PROLOGUES = [
    "{0}", "{0}", "{0} * 0.5 + 0.1", "xp.tanh({0})", "xp.maximum({0}, 0)", "{0} * {0}",
    "xp.where({0} > 0.5, 0, {0})", "{0} - xp.mean({0}, axis=-1, keepdims=True)",
    "{0} * scale", "xp.exp(-xp.abs({0}))", "{0}[..., order, :]",
]  # fmt: skip
EPILOGUES = [
    "y + bias", "y + rest", "y * rest", "xp.tanh(y)", "xp.maximum(y, 0)", "y * 0.5 + 1",
    "xp.where(rest > 0, y, 0)", "y * height", "y / (1 + xp.abs(y))", "xp.exp(-y * y)",
    "y - xp.mean(y, axis=-1, keepdims=True)", "y * (a @ b)", "y + bias * height",
]  # fmt: skip
RESULTS = [
    "y", "(y, xp.sum(y, axis=-2))", "(y, xp.sum(y, axis=-1))", "xp.sum(y, axis=-2)",
    "(xp.max(y, axis=-1), y)", "xp.mean(y * y)", "(y, xp.sum(y * rest, axis=-2), bias * 2)",
    "(y, y @ xp.swapaxes(b, -1, -2))", "xp.swapaxes(y, -1, -2)", "(y[..., ::2, :], y)",
]  # fmt: skip


@dataclass
class ProductProgram:
    """The lengths of a product, the code of its operands, of what follows and of the results."""

    seed: int
    dtype: str
    stack: tuple[int, ...]
    lengths: tuple[int, int, int]
    layouts: tuple[str, str]
    prologues: tuple[str, str]
    epilogue: list[str] = field(default_factory=list)
    result: str = "y"
    flat: bool = False  # the right operand is one matrix for the whole stack

    def source(self) -> str:
        """The function, made by `make(xp)`."""
        lines = [
            f"a = {self.layouts[0].format('x')}",
            f"b = {self.layouts[1].format('w')}",
            f"a = {self.prologues[0].format('a').replace('order', 'rows')}",
            f"b = {self.prologues[1].format('b').replace('order', 'sums')}",
            "y = a @ b",
            *(f"y = {each}" for each in self.epilogue),
            f"return {self.result}",
        ]
        body = "\n".join(f"        {line}" for line in lines)
        names = "x, w, bias, rest, height, scale, rows, sums"
        return f"def make(xp):\n    def function({names}):\n{body}\n    return function\n"

    def make(self, xp: Any) -> Any:
        """The function with the operations of a library."""
        names: dict[str, Any] = {}
        exec(compile(self.source(), f"<product {self.seed}>", "exec"), names)
        return names["make"](xp)

    def arguments(self) -> list[np.ndarray]:
        """Random operands; the last two are indices."""
        random = np.random.default_rng([self.seed, 2])
        m, k, n = self.lengths
        shapes = [
            LAYOUTS[self.layouts[0]](self.stack, m, k),
            LAYOUTS[self.layouts[1]](() if self.flat else self.stack, k, n),
            (n,),
            (*self.stack, m, n),
            (m, 1),
            (),
        ]
        found = [random.uniform(-1, 1, shape).astype(np.float32) for shape in shapes]
        found[1] /= np.float32(np.sqrt(k))
        return [*found, random.integers(0, m, m), random.integers(0, k, k)]


def grow_product(seed: int) -> ProductProgram:
    """The random product of a seed."""
    random = np.random.default_rng(seed)

    def choose(items: Any) -> Any:
        return items[int(random.integers(len(items)))]

    stack = choose([(), (), (), (3,), (2, 2)])
    while True:
        m, k, n = (choose(LENGTHS) for _ in range(3))
        if MAX_BLAS_WORK < m * k * n * max(len(stack) * 3, 1) < MAX_WORK:
            break
    layouts = list(LAYOUTS)
    return ProductProgram(
        seed,
        choose(DTYPES),
        stack,
        (m, k, n),
        (choose(layouts), choose(layouts)),
        (choose(PROLOGUES), choose(PROLOGUES)),
        [choose(EPILOGUES) for _ in range(int(random.integers(0, 4)))],
        choose(RESULTS),
        bool(random.random() < 0.4),
    )


@dataclass
class ProductStatistics:
    """What was compared."""

    programs: int = 0
    gradients: int = 0
    dtypes: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        dtypes = ", ".join(f"{count} of {name}" for name, count in sorted(self.dtypes.items()))
        return f"{self.programs} products ({dtypes}), {self.gradients} with gradients"


def check_product(program: ProductProgram, statistics: ProductStatistics) -> None:
    """Difference unless the compiled product is NumPy's, and its gradients are MLX's."""
    statistics.programs += 1
    statistics.dtypes[program.dtype] += 1
    *operands, rows, sums = program.arguments()
    given = [mx.array(x).astype(getattr(mx, program.dtype)) for x in operands]
    wide = [np.array(x.astype(mx.float64)) for x in given]
    try:
        compiled = mx.compile(program.make(mx))
        found = _numbers(compiled(*given, mx.array(rows), mx.array(sums)))
        expected = _numbers(program.make(np)(*wide, rows, sums))
        same = [mlx.array(x).astype(getattr(mlx, program.dtype)) for x in operands]
        theirs = _numbers(program.make(mlx)(*same, mlx.array(rows), mlx.array(sums)))
        _compare("values", found, expected, TOLERANCE[program.dtype], theirs)
        if program.dtype == "float32" and program.seed % 3 == 0:
            statistics.gradients += 1
            _check_gradients(program, [*operands, rows, sums])
    except Difference as difference:
        raise Difference(f"product {program.seed}: {difference}\n{program.source()}") from None


def _numbers(tree: Any) -> list[np.ndarray]:
    """The results of any library in float64."""
    if isinstance(tree, (tuple, list)):
        return [x for part in tree for x in _numbers(part)]
    if isinstance(tree, (mx.array, mlx.array)):
        tree = tree.astype(mx.float64 if isinstance(tree, mx.array) else mlx.float64)
    return [np.array(tree, np.float64)]


def _check_gradients(program: ProductProgram, arguments: list[np.ndarray]) -> None:
    def gradients(library: Any) -> Any:
        function, varied = program.make(library), tuple(range(5))

        def loss(*given: Any) -> Any:
            results = function(*given)
            parts = results if isinstance(results, tuple) else (results,)
            return sum(library.mean(part * library.tanh(part)) for part in parts)

        return library.grad(loss, argnums=varied)

    ours = mx.compile(gradients(mx))(*map(mx.array, arguments))
    theirs = gradients(mlx)(*map(mlx.array, arguments))
    _compare("gradients", _numbers(ours), _numbers(theirs), 5e-4)


def _compare(
    what: str,
    found: list[np.ndarray],
    expected: list[np.ndarray],
    tolerance: float,
    theirs: list[np.ndarray] | None = None,
) -> None:
    """Difference unless all values are within the tolerance, in units of the largest one, or a few
    times as far off as MLX's: where a sum is almost nothing, its roundings are not.
    """
    for x, y, z in zip(found, expected, theirs or expected, strict=True):
        if x.shape != y.shape:
            raise Difference(f"{what}: {x.shape} instead of {y.shape}")
        scale = float(np.abs(y).max(initial=1e-3))
        worst = float(np.abs(x - y).max(initial=0))
        allowed = tolerance * scale + CANCELLED * float(np.abs(z - y).max(initial=0))
        if not worst <= allowed:
            raise Difference(f"{what}: off by {worst:.4g} at a scale of {scale:.4g}")
