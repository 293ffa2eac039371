"""Examples for every op of `ingot.ops`: parameters, inputs within its domain, and the same in MLX.

An op that is registered without an example here, or in `search_examples.py`, fails a test. Nothing
here needs `ingot.core`: `tests/ops/test_without_core.py` uses the examples without it.
"""

from __future__ import annotations

import numpy as np
from tests.transforms.examples.elementwise import ELEMENTWISE
from tests.transforms.examples.example import (
    PLAIN,
    WITHIN,
    Example,
    apart,
    binary,
    booleans,
    integers,
    named,
    order,
    positive,
    real,
    regular,
    seldom,
    stretching,
    unary,
)

from ingot.graph import dtype as dtypes
from ingot.graph.roles import PoolingWindows
from ingot.ops import dependencies
from ingot.ops.elementwise import casting, exponential
from ingot.ops.index import along_axis, indexing, masking, nonzero, unique
from ingot.ops.internal import adjoints
from ingot.ops.linalg import decompositions, linear_systems, singular_values
from ingot.ops.products import contraction, convolution_rules, gathered_products, masked_products
from ingot.ops.random import bits, vectors
from ingot.ops.random import functions as random_functions
from ingot.ops.reduce import extremes, pooling, reduction, scan, sorting
from ingot.ops.shape import creation, diagonals, joining, slicing, strided

IDENTITIES = [
    Example(casting.Copy(), (PLAIN,), lambda m, x: x * 1),
    Example(casting.Stored(0), (PLAIN,), lambda m, x: x * 1),
    Example(casting.StopGradient(), (PLAIN,), named("stop_gradient"), stops=True),
    Example(casting.Contiguous(False), (PLAIN,), named("contiguous")),
    Example(casting.Contiguous(True), (PLAIN,), named("contiguous")),
    Example(casting.AsType(dtypes.float64), (PLAIN,), lambda m, x: x.astype(m.float32)),
    Example(casting.AsType(dtypes.int32), (real(2, 3, low=-9, high=9),)),
    Example(casting.AsType(dtypes.float64), (integers(2, 3),)),
    Example(casting.Bitcast(dtypes.int32), (integers(2, 3),), lambda m, x: x.view(m.int32)),
    Example(casting.Bitcast(dtypes.int16), (integers(2, 3),), lambda m, x: x.view(m.int16)),
    Example(dependencies.Depends(1), (PLAIN, real(3)), lambda m, x, y: m.depends(x, y)),
    Example(dependencies.Depends(2), (PLAIN, real(3)), lambda m, x, y: m.depends([x, y], [y])),
]

MOVEMENTS = [
    Example(adjoints.Broadcast((4, 2, 3)), (PLAIN,), lambda m, x: m.broadcast_to(x, (4, 2, 3))),
    Example(adjoints.Broadcast((2, 4)), (real(2, 1),), lambda m, x: m.broadcast_to(x, (2, 4))),
    Example(adjoints.Broadcast((3, 1)), (real(1),), lambda m, x: m.broadcast_to(x, (3, 1))),
    Example(adjoints.Broadcast((2,)), (real(),), lambda m, x: m.broadcast_to(x, (2,))),
    Example(adjoints.Reshape((3, 1, 2)), (PLAIN,), lambda m, x: m.reshape(x, (3, 1, 2))),
    Example(adjoints.Reshape(()), (real(1, 1),), lambda m, x: m.reshape(x, ())),
    Example(adjoints.Transpose((1, 0)), (PLAIN,), lambda m, x: m.transpose(x, (1, 0))),
    Example(
        adjoints.Transpose((2, 0, 3, 1)),
        (real(2, 3, 1, 4),),
        lambda m, x: m.transpose(x, (2, 0, 3, 1)),
    ),
    Example(diagonals.Diagonal(1), (real(3, 4),), lambda m, x: m.diagonal(x, 1)),
    Example(diagonals.Diagonal(-2), (real(2, 3, 4),), lambda m, x: m.diagonal(x, -2, 1, 2)),
    Example(joining.Concatenate(0), (PLAIN, real(1, 3)), lambda m, *xs: m.concatenate(xs, 0)),
    Example(
        joining.Concatenate(1),
        (PLAIN, real(2, 2), real(2, 1)),
        lambda m, *xs: m.concatenate(xs, 1),
    ),
    Example(
        strided.AsStrided((2, 3), (1, 2), 1),
        (real(2, 4),),
        lambda m, x: m.as_strided(x, (2, 3), (1, 2), 1),
    ),
    Example(
        strided.AsStrided((3, 3), (1, 1), 0),
        (real(5),),
        lambda m, x: m.as_strided(x, (3, 3), (1, 1), 0),
    ),
]

SLICES = [
    Example(slicing.Slice((1, 2), (-1, -1), (-1, -1)), (PLAIN,)),  # all, in reverse
    Example(slicing.Slice((0, 2), (1, -1), (1, -1), (0,)), (real(1, 3),)),
    Example(slicing.Slice((1, 0), (3, 4), (1, 2)), (real(3, 4),), lambda m, x: x[1:3, ::2]),
    Example(slicing.Slice((2, 3), (-1, -1), (-1, -2)), (real(3, 4),), lambda m, x: x[::-1, ::-2]),
    Example(slicing.Slice((1, 0), (2, 4), (1, 1), (0,)), (real(3, 4),), lambda m, x: x[1]),
    Example(
        slicing.Slice((0, 2, 1), (3, 3, 3), (2, 1, 1), (1,)),
        (real(3, 4, 3),),
        lambda m, x: x[::2, 2, 1:],
    ),
    Example(slicing.SliceUpdate((1, 0), (3, 4), (1, 2)), (real(3, 4), real(2, 2))),
    Example(slicing.SliceUpdate((2, 3), (-1, -1), (-2, -1)), (real(3, 4), real(2, 4))),
    Example(
        slicing.DynamicSlice((0, 1), (2, 2)),
        (real(3, 4), integers(2, high=2)),
        lambda m, x, i: m.slice(x, i, (0, 1), (2, 2)),
    ),
    Example(
        slicing.DynamicSlice((1,), (3, 2)),
        (real(3, 4), integers(1, high=3)),
        lambda m, x, i: m.slice(x, i, (1,), (3, 2)),
    ),
    Example(
        slicing.DynamicSliceUpdate((0, 1), (2, 2)),
        (real(3, 4), real(2, 2), integers(2, high=2)),
        lambda m, x, u, i: m.slice_update(x, u, i, (0, 1)),
    ),
    Example(
        slicing.DynamicSliceUpdate((1,), (3, 2)),
        (real(3, 4), real(3, 2), integers(1, high=3)),
        lambda m, x, u, i: m.slice_update(x, u, i, (1,)),
    ),
]

INDEXING = [
    Example(indexing.Take((0,)), (real(3, 2), integers(4)), lambda m, x, i: m.take(x, i, 0)),
    Example(indexing.Take((1,)), (real(2, 3, 2), integers(2, 2)), lambda m, x, i: m.take(x, i, 1)),
    Example(
        indexing.Take((0, 1)),
        (real(3, 3, 2), integers(4), integers(4)),
        lambda m, x, i, j: x[i, j],
    ),
    Example(
        indexing.Take((0, 2)),
        (real(3, 2, 3), integers(2, 2), integers(2, 2)),
        lambda m, x, i, j: x[i, :, j],
    ),
    *(
        Example(indexing.Put(axes, mode), (real(*shape), update, *[integers(4)] * len(axes)))
        for mode in ("add", "multiply")
        for axes, shape, update in (
            ((0,), (3, 2), real(4, 2)),
            ((1,), (2, 3), real(2, 4)),
            ((0, 2), (3, 2, 3), real(4, 2)),
        )
    ),
    *(
        Example(
            indexing.Put(axes, mode),
            (apart(*shape), apart(*update), *[integers(4)] * len(axes)),
        )
        for mode in ("assign", "maximum", "minimum")
        for axes, shape, update in (
            ((0,), (3, 2), (4, 2)),
            ((1,), (2, 3, 2), (2, 4, 2)),
            ((0, 2), (3, 2, 3), (4, 2)),
        )
    ),
    Example(
        along_axis.TakeAlongAxis(1),
        (real(2, 3), integers(2, 4)),
        lambda m, x, i: m.take_along_axis(x, i, 1),
    ),
    Example(
        along_axis.TakeAlongAxis(0),
        (real(3, 2), integers(4, 2)),
        lambda m, x, i: m.take_along_axis(x, i, 0),
    ),
    Example(
        along_axis.PutAlongAxis(1, "assign"),
        (real(2, 3), real(2, 3), order(2, 3)),
        lambda m, x, u, i: m.put_along_axis(x, i, u, 1),
    ),
    Example(along_axis.PutAlongAxis(0, "assign"), (real(3, 2), real(4, 2), integers(4, 2))),
    Example(along_axis.PutAlongAxis(1, "add"), (real(2, 3), real(2, 4), integers(2, 4))),
    Example(masking.MaskRank(12), (booleans(2, 6),)),
    Example(nonzero.Nonzero(4), (booleans(2, 6),)),
    Example(unique.Unique(3), (apart(2, 5),)),
]

REDUCTIONS = [
    *(
        Example(
            kind((0, 2), *parameters),
            (make(2, 3, 2),),
            lambda m, x, name=name: getattr(m, name)(x, (0, 2), keepdims=True),
        )
        for kind, name, parameters, make in (
            (adjoints.Sum, "sum", (dtypes.float64,), real),
            (reduction.Prod, "prod", (dtypes.float64,), real),
            (extremes.Max, "max", (), apart),
            (extremes.Min, "min", (), apart),
            (reduction.All, "all", (), booleans),
            (reduction.Any, "any", (), seldom),
        )
    ),
    Example(adjoints.Sum((0,), dtypes.float64), (real(3),), lambda m, x: m.sum(x, 0, True)),
    Example(extremes.Max((1,)), (apart(2, 3),), lambda m, x: m.max(x, 1, True)),
    Example(extremes.ArgMax(1), (apart(3, 4),), lambda m, x: m.argmax(x, 1, True)),
    Example(extremes.ArgMin(0), (apart(2, 3),), lambda m, x: m.argmin(x, 0, True)),
]

SCANS = [
    *(
        Example(
            kind(axis, reverse, inclusive),
            (make(3, 4),),
            # MLX derives these two only.
            (
                lambda m, x, name=name, a=axis, r=reverse, i=inclusive: getattr(m, name)(
                    x, axis=a, reverse=r, inclusive=i
                )
            )
            if name in ("cumsum", "logcumsumexp") and inclusive
            else None,
        )
        for kind, name, make in (
            (scan.CumSum, "cumsum", real),
            (scan.CumProd, "cumprod", real),
            (scan.CumMax, "cummax", apart),
            (scan.CumMin, "cummin", apart),
            (scan.LogCumSumExp, "logcumsumexp", real),
        )
        for axis, reverse, inclusive in (
            (1, False, True),
            (0, True, True),
            (1, False, False),
            (0, True, False),
        )
        if not (name in ("cummax", "cummin", "logcumsumexp") and not inclusive)
    ),
    Example(scan.Recurrence(0, False), (real(4, 2), real(4, 2))),
    Example(scan.Recurrence(1, True), (real(2, 4), real(2, 4))),
]

SORTING = [
    Example(sorting.Sort(1), (apart(2, 5),), lambda m, x: m.sort(x, 1)),
    Example(sorting.Sort(0), (apart(4, 2),), lambda m, x: m.sort(x, 0)),
    Example(sorting.Partition(2, 1), (apart(2, 5),)),
    Example(sorting.ArgSort(1), (apart(2, 5),), lambda m, x: m.argsort(x, 1)),
    Example(sorting.ArgPartition(2, 1), (apart(2, 5),)),
    Example(
        sorting.SearchSorted("left"),
        (lambda random: np.sort(random.uniform(size=5)), real(2, 3)),
    ),
    Example(
        sorting.SearchSorted("right"),
        (lambda random: np.sort(random.uniform(size=5)), real(2, 3)),
    ),
]

CONTRACTIONS = [
    Example(contraction.Matmul(), (real(2, 3), real(3, 4)), named("matmul")),
    Example(contraction.Matmul(), (real(2, 2, 3), real(2, 3, 1)), named("matmul")),
]

CONVOLUTIONS = [
    Example(
        convolution_rules.Convolution((1,), (1,), (1,), (1,), 1, (5,)),
        (real(2, 5, 2), real(3, 3, 2)),
        lambda m, x, w: m.conv1d(x, w, 1, 1),
    ),
    Example(
        convolution_rules.Convolution((2,), (0,), (2,), (1,), 2, (2,)),
        (real(1, 7, 2), real(4, 3, 1)),
        lambda m, x, w: m.conv1d(x, w, 2, 0, 2, 2),
    ),
    Example(
        convolution_rules.Convolution((1, 2), (1, 0), (1, 1), (2, 1), 1, (5, 2)),
        (real(1, 3, 4, 2), real(2, 3, 2, 2)),
    ),
    Example(
        convolution_rules.ConvolutionByFilters((1,), (1,), (1,), (1,), 1, (3,)),
        (real(2, 5, 2), real(2, 5, 3)),
    ),
    Example(
        convolution_rules.ConvolutionByFilters((2,), (0,), (1,), (1,), 2, (2,)),
        (real(1, 6, 4), real(1, 3, 2)),
    ),
]

_IMAGES = PoolingWindows((3, 2), (2, 1), (1, 0))
_SIGNALS = PoolingWindows((3,), (2,), (1,))

POOLING = [
    Example(pooling.Pool("max", _IMAGES), (apart(2, 5, 4, 2),)),
    Example(pooling.Pool("mean", _IMAGES), (real(2, 5, 4, 2),)),
    Example(pooling.Pool("max", _SIGNALS), (apart(1, 6, 3),)),
    Example(pooling.PoolCotangent("max", _SIGNALS, (6,)), (real(1, 3, 3), apart(1, 6, 3))),
    Example(pooling.PoolCotangent("mean", _SIGNALS, (6,)), (real(2, 3, 2),)),
]

CREATIONS = [
    Example(creation.Arange(0, 1, 5, dtypes.float64), (), has_vmap=False),
]

MATRICES = [
    *[
        example
        for triangle in ("all", "lower", "upper")
        for example in (
            Example(linear_systems.Inverse(triangle), (regular(3, 3),)),
            Example(linear_systems.Solve(triangle), (regular(3, 3), real(3, 2))),
        )
    ],
    *[
        Example(linear_systems.Det(), (regular(n, n),), mlx and (lambda m, x: m.linalg.det(x)))
        for n, mlx in ((1, True), (2, True), (3, True), (4, None))
    ],
    *[
        Example(
            linear_systems.SlogDet(), (regular(n, n),), mlx and (lambda m, x: m.linalg.slogdet(x))
        )
        for n, mlx in ((2, True), (3, True), (4, None))
    ],
    Example(decompositions.QR(), (regular(3, 3),)),
    Example(decompositions.QR(), (stretching(4, 2),)),
    Example(decompositions.LU(), (regular(3, 3),)),
    Example(singular_values.SVD(full=True), (stretching(3, 3),)),
    Example(singular_values.SVD(full=False), (stretching(4, 2),)),
    Example(singular_values.SVD(full=False), (stretching(2, 4),)),
    *[
        Example(op, (stretching(*shape),))
        for op in (singular_values.SingularValues(), singular_values.PseudoInverse())
        for shape in ((3, 3), (4, 2), (2, 3))
    ],
]


def keys(random: np.random.Generator) -> np.ndarray:
    """The key of a random number generator."""
    return random.integers(0, 2**32, 2, dtype=np.uint32)


RANDOM = [
    Example(bits.RandomBits((3,)), (keys,)),
    Example(bits.RandomBits((2, 2)), (keys,)),
    binary(random_functions.MatchingProduct(), "multiply", PLAIN, PLAIN),
    unary(random_functions.MatchingLog1p(), "log1p", positive(2, 3)),
    Example(vectors.CovarianceRoot(), (lambda random: np.diag(random.uniform(1, 2, 3)),)),
]


GATHERED = [
    Example(
        gathered_products.GatheredProducts(count),
        (
            real(3, 2, 4),
            real(2, 4, 3),
            integers(5),
            integers(5, high=2),
            integers(5, high=count),
        ),
    )
    for count in (5, 2)
]
SEGMENTED = [
    Example(
        masked_products.SegmentedMatmul(),
        (real(2, 6), real(6, 3), lambda random: np.sort(integers(4, 2, high=7)(random), -1)),
    )
]

EXAMPLES: list[Example] = [
    *ELEMENTWISE,
    *IDENTITIES,
    *MOVEMENTS,
    *SLICES,
    *INDEXING,
    *REDUCTIONS,
    *SCANS,
    *SORTING,
    *CONTRACTIONS,
    *CONVOLUTIONS,
    *POOLING,
    *CREATIONS,
    *RANDOM,
    *MATRICES,
    *GATHERED,
    *SEGMENTED,
]

# Ops that have float32 inputs only, and ops with the same derivatives.
TWINS = [
    (random_functions.MatchingLog(), exponential.Log(), positive(2, 3)),
    (random_functions.MatchingErf(), exponential.Erf(), PLAIN),
    (random_functions.MatchingErfInv(), exponential.ErfInv(), WITHIN),
]

# Ops that are tested elsewhere, and where.
ELSEWHERE = {
    "RitzVectors": "tests/search/test_svd.py: transforms follow LAPACK's decompositions instead",
    "Attention": "tests/ops/attention/test_fast.py",
    "AttentionCotangents": "tests/ops/attention/test_fast.py",
    "Cholesky": "tests/ops/linalg/test_decompositions.py: along symmetric matrices",
    "SymmetricEigen": "tests/ops/linalg/test_eigenvalues.py: along symmetric matrices",
    "SymmetricEigenvalues": "tests/ops/linalg/test_eigenvalues.py: along symmetric matrices",
    "Eigen": "tests/ops/linalg/test_eigenvalues.py: its values are complex64",
    "Eigenvalues": "tests/ops/linalg/test_eigenvalues.py: its values are complex64",
    "FourierTransform": "tests/ops/fft/test_fourier.py: its values are complex64",
    "Output": "a part of ops with several outputs",
    "PadBorder": "tests/ops/shape/test_padding.py: Broadcast, but that vmap refuses it",
    "CustomFunction": "tests/transforms/test_custom.py and test_compositions.py",
    **dict.fromkeys(
        ("Branch", "Passed", "ScanLoop", "While"),
        "tests/transforms/control: their fields are bodies of loops and branches",
    ),
    **dict.fromkeys(
        (
            *("AllGather", "AllMax", "AllMin", "AllSum", "AllToAll", "BroadcastFrom"),
            *("BeginSum", "Done", "FinishSum", "Receive", "ReceiveLike", "Send", "SumScatter"),
        ),
        "tests/distributed: they need other processes",
    ),
    "PartOfPartition": "tests/compiler/passes/test_narrow.py: what a slice of a partition becomes",
    "SmallestNumber": "tests/compiler/passes/test_select_by_blocks.py: a step of selections",
    **dict.fromkeys(
        ("CheckedIndex", "CheckedPut", "ElementsAt", "IsAt", "IsOutside", "SomeOutside"),
        "tests/compiler/lower/kernels/test_native_indices.py: what others become compiled",
    ),
    **dict.fromkeys(
        ("Counted", "Positions", "RandomWord", "Ranked", "RankedPlace"),
        "tests/compiler/lower/kernels/test_native_positions.py: what others become compiled",
    ),
    "Length": "tests/compiler/trace/test_dimension.py: it stands for a number while compile traces",
    **dict.fromkeys(
        ("AttentionStep", "GatheredQuantizedMatmul", "RMSNorm", "Rope"),
        "tests/compiler/call/test_alone.py: transforms trace what they are composed of",
    ),
    "WideMatmul": "tests/ops/products/test_contraction.py: its operands are half types",
    **dict.fromkeys(
        ("Dequantize", "QuantizedMatmul"),
        "tests/ops/quantized/test_quantization.py: their codes are packed",
    ),
}
