"""Calls of the walk: each listed call with each of its arguments replaced, left out or added."""

from __future__ import annotations

import re
import zlib

import mlx.core
import mlx.nn
import mlx.optimizers
import mlx.utils
from tests.boundary import calls, calls_nn
from tests.boundary.hostile import attempts, environment
from tests.boundary.test_hostile import _elementwise

# What an argument is replaced by; each is evaluated once per call.
NUMBERS = """
0
1
2
3
7
-1
-2
-7
2**31
-2**31-1
2**63
True
1.5
-0.5
float("nan")
float("inf")
1j
np.int32(1)
np.float64(2.5)
""".split()
OTHERS = """
None
"x"
""
"constant"
b"x"
[]
()
{}
(0,)
[1]
(-1,)
(1, 0)
[0, 1]
(0, 0)
(2, 3)
(1, 6)
(2, -1)
(3, 2, 1)
(2**31,)
[[1], [1, 2]]
[[1, 2], [3, 4]]
[None]
[1.5, 2.5]
(1.5,)
[True, False]
object()
int
slice(0, 1)
...
range(2)
""".strip().splitlines()
DTYPES = "bool_ uint8 int8 uint32 int64 float16 bfloat16 float32 float64 complex64".split()
ARRAYS = [
    *(f"mx.{dtype}" for dtype in DTYPES),
    *(f"mx.array([[3, 1, 2], [0, 2, 1]]).astype(mx.{dtype})" for dtype in DTYPES),
    *(f"mx.array([1, 0, 2]).astype(mx.{dtype})" for dtype in ("uint8", "float32", "complex64")),
    "mx.array(True)",
    "mx.array(1)",
    "mx.array(1.5)",
    "mx.array([-1, 5])",
    "mx.zeros((0,))",
    "mx.zeros((2, 0))",
    "mx.zeros((0, 3))",
    "mx.ones((1, 3))",
    "mx.ones((3, 2))",
    "mx.ones((3, 3))",
    "mx.ones((2, 2, 3))",
    "mx.ones((1, 2, 1, 3, 1))",
    "mx.array([float('nan'), 1.0, float('inf')])",
    "np.array([1, 0])",
    "np.ones((2, 3), np.float32)",
    "mx.cpu",
]
POOL = [*NUMBERS, *OTHERS, *ARRAYS]
TABLES = (
    calls.CORE,
    calls.METHODS,
    calls.SUBMODULES,
    calls_nn.LAYERS,
    calls_nn.LOSSES,
    calls_nn.OPTIMIZERS,
    calls_nn.TREES,
)


# Functions that change the process in ways that the other calls would notice, and those without
# an outcome to compare.
LEFT_OUT = re.compile(
    r"mx\.(set_|debug_nans|metal\.|export|import|save|load|empty|Stream|ThreadLocalStream)"
)


def listed() -> list[str]:
    """The valid calls that the others are made from: those of functions that MLX has."""
    every = [line for table in TABLES for line in calls.lines(table)] + _elementwise()
    return [call for call in every if not LEFT_OUT.match(call) and _is_in_mlx(call)]


def _is_in_mlx(call: str) -> bool:
    names = {"mx": mlx.core, "nn": mlx.nn, "optimizers": mlx.optimizers, "utils": mlx.utils}
    root, *path = call.partition("(")[0].split(".")
    if root not in names:
        return True
    value = names[root]
    for name in path:
        value = getattr(value, name, None)
    return value is not None


def variants(expression: str, share: int = 1) -> list[str]:
    """The expression, and with each argument replaced by one of every `share` values."""
    known = environment()
    found = [expression]
    for attempt in attempts(expression, known):
        once = attempt.argument in ("no_such_argument", "one more", "one less")
        start = zlib.crc32(attempt.text.encode()) % share
        for value in POOL[:1] if once else POOL[start::share]:
            found.append(attempt.text.replace("HOSTILE", value))
    return list(dict.fromkeys(found))
