"""Array objects, creation, dtypes, indexing and inspection."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.array_api.comparison import DATA, agree, compare

import ingot.array_api as xp
import ingot.core as mx


def test_creation() -> None:
    compare(lambda ns: (ns.zeros((2, 3)), ns.ones(4), ns.full((2,), 7), ns.full((2,), 1.5)))
    compare(lambda ns: (ns.arange(5), ns.arange(1, 9, 3), ns.arange(0.0, 1, 0.25)))
    compare(lambda ns: (ns.arange(5, 2), ns.arange(5, 0, -2), ns.arange(3, dtype=ns.float32)))
    compare(lambda ns: (ns.linspace(0, 1, 5), ns.linspace(0, 1, 5, endpoint=False)))
    compare(lambda ns: (ns.eye(3), ns.eye(2, 4, k=1), ns.eye(3, dtype=ns.int64)))
    compare(lambda ns, x: (ns.zeros_like(x), ns.ones_like(x), ns.full_like(x, 3)), DATA["int8"])
    compare(lambda ns, x: (ns.tril(x), ns.triu(x, k=1)), DATA["float64"])
    compare(lambda ns, x: (ns.tril(x), ns.triu(x)), DATA["bool"])
    compare(lambda ns, x, y: ns.meshgrid(x, y), np.arange(3), np.arange(2))
    compare(lambda ns, x, y: ns.meshgrid(x, y, indexing="ij"), np.arange(3), np.arange(2))
    assert xp.empty((2, 3)).shape == (2, 3)
    assert xp.empty_like(xp.ones(3, dtype=xp.int8)).dtype is xp.int8


@pytest.mark.parametrize(
    "value", [1, 1.5, True, [1, 2], [[1.5, 2]], [True], [], 2j, (1, 2.5), [1, 2.5]]
)
def test_asarray(value: Any) -> None:
    compare(lambda ns: ns.asarray(value))


def test_asarray_of_arrays() -> None:
    core = mx.array([1.0, 2.0])
    assert xp.asarray(core).core is core
    assert xp.asarray(xp.asarray(core), copy=True).core is not core
    assert xp.asarray(core, dtype=xp.float64).dtype is xp.float64
    for data in DATA.values():
        agree(xp.asarray(data), data)
        agree(xp.from_dlpack(data), data)
        agree(xp.asarray(xp.asarray(data)), data)
    with pytest.raises(ValueError, match="copy"):
        xp.asarray([1, 2], copy=False)
    with pytest.raises(ValueError, match="CPU"):
        xp.zeros(3, device="gpu")


def test_attributes() -> None:
    x = xp.asarray(DATA["float64"])
    assert (x.shape, x.ndim, x.size) == ((3, 4), 2, 12)
    assert x.dtype is xp.float64
    assert x.device in xp.__array_namespace_info__().devices()
    assert x.to_device(x.device) is x
    assert x.__array_namespace__(api_version="2024.12") is xp
    with pytest.raises(ValueError, match="version"):
        x.__array_namespace__(api_version="1999.01")
    compare(lambda ns, x: (x.T, x.mT), DATA["float64"])
    assert (int(xp.asarray(3)), float(xp.asarray(1.5)), bool(xp.asarray(True))) == (3, 1.5, True)
    assert complex(xp.asarray(1j)) == 1j
    assert [10, 20, 30][xp.asarray(1)] == 20
    assert repr(xp.asarray([1])) == "Array([1], dtype=int64)"
    np.testing.assert_array_equal(np.from_dlpack(x), DATA["float64"])
    assert x.__dlpack_device__() == (1, 0)


INDICES: list[Any] = [
    0, -1, slice(1, None), (slice(None), 2), (..., 1), None, (0, None, slice(None, None, -1)), (),
    (slice(None), slice(3, 0, -2)),
]  # fmt: skip


@pytest.mark.parametrize("index", INDICES, ids=repr)
def test_getitem(index: Any) -> None:
    compare(lambda ns, x: x[index], DATA["float64"])


def test_masks_and_integer_arrays() -> None:
    compare(lambda ns, x: x[x > 0], DATA["float64"])
    compare(lambda ns, x: x[x[:, 0] > 0], DATA["float64"])
    compare(lambda ns, x: x[ns.asarray([2, 0])], DATA["float64"])
    compare(lambda ns, x: x[ns.asarray([2, 0]), ns.asarray([1, 1])], DATA["float64"])

    def store(ns: Any, x: Any) -> Any:
        y = ns.asarray(x, copy=True)
        y[0] = 7
        y[y < 0] = 0
        y[1:, ::2] = y[:2, :2]
        return y, x

    compare(store, DATA["float64"])
    compare(store, DATA["int64"])


def test_setitem_refuses_loss() -> None:
    x = xp.asarray([1, 2])
    with pytest.raises(TypeError, match="without loss"):
        x[0] = xp.asarray(1.5)
    with pytest.raises(IndexError):
        _ = x[0, 0]
    with pytest.raises(IndexError):
        _ = x[5]


def test_dtypes() -> None:
    for name in ("int8", "uint32", "float64"):
        dtype = getattr(xp, name)
        assert xp.isdtype(dtype, "numeric")
        assert xp.isdtype(dtype, "integral") == ("int" in name)
        assert xp.isdtype(dtype, ("bool", dtype))
    assert xp.isdtype(xp.bool, "bool")
    assert not xp.isdtype(xp.complex64, "real floating")
    assert xp.can_cast(xp.int8, xp.int16)
    assert not xp.can_cast(xp.float64, xp.float32)
    assert xp.iinfo(xp.int16).max == 2**15 - 1
    assert xp.finfo(xp.float64).eps == np.finfo(np.float64).eps
    assert xp.finfo(xp.complex64).dtype is xp.float32
    assert xp.result_type(xp.float32, 1.5) is xp.float32
    assert xp.result_type(xp.int8, 1.5) is xp.float64
    compare(lambda ns, x: ns.astype(x, ns.float32), DATA["int64"])
    with pytest.raises(TypeError, match="complex"):
        xp.astype(xp.asarray(1j), xp.float64)


def test_inspection() -> None:
    info = xp.__array_namespace_info__()
    assert info.default_dtypes()["real floating"] is xp.float64
    assert info.default_dtypes()["integral"] is xp.int64
    assert info.capabilities()["boolean indexing"]
    assert set(info.dtypes(kind="real floating")) == {"float32", "float64"}
    assert set(info.dtypes(kind=("bool", "signed integer"))) == {
        "bool", "int8", "int16", "int32", "int64",
    }  # fmt: skip
    assert (xp.pi, xp.e, xp.inf, xp.newaxis) == (np.pi, np.e, np.inf, None)


# The names of the standard, 2024.12.
NAMES = {
    "": """
        e inf nan newaxis pi arange asarray empty empty_like eye from_dlpack full full_like linspace
        meshgrid ones ones_like tril triu zeros zeros_like astype can_cast finfo iinfo isdtype
        result_type bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64
        complex128 abs acos acosh add asin asinh atan atan2 atanh bitwise_and bitwise_left_shift
        bitwise_invert bitwise_or bitwise_right_shift bitwise_xor ceil clip conj copysign cos cosh
        divide equal exp expm1 floor floor_divide greater greater_equal hypot imag isfinite isinf
        isnan less less_equal log log1p log2 log10 logaddexp logical_and logical_not logical_or
        logical_xor maximum minimum multiply negative nextafter not_equal positive pow real
        reciprocal remainder round sign signbit sin sinh square sqrt subtract tan tanh trunc take
        take_along_axis __array_namespace_info__ matmul matrix_transpose tensordot vecdot
        broadcast_arrays broadcast_to concat expand_dims flip moveaxis permute_dims repeat reshape
        roll squeeze stack tile unstack argmax argmin count_nonzero nonzero searchsorted where
        unique_all unique_counts unique_inverse unique_values argsort sort cumulative_prod
        cumulative_sum max mean min prod std sum var all any diff __array_api_version__
    """,
    "fft": """
        fft ifft fftn ifftn rfft irfft rfftn irfftn hfft ihfft fftfreq rfftfreq fftshift ifftshift
    """,
    "linalg": """
        cholesky cross det diagonal eigh eigvalsh inv matmul matrix_norm matrix_power matrix_rank
        matrix_transpose outer pinv qr slogdet solve svd svdvals tensordot trace vecdot vector_norm
    """,
}


def test_names() -> None:
    """Every name of the standard is there, except for what ingot's arrays cannot hold."""
    missing = {
        name
        for module, names in NAMES.items()
        for name in names.split()
        if not hasattr(getattr(xp, module) if module else xp, name)
    }
    assert missing == {"complex128"}
