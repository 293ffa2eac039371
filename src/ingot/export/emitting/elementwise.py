"""Elementwise ops, casts and views of the same elements."""

from __future__ import annotations

from typing import Any

from ingot._native import Dtype
from ingot.export.emitting.emitter import Emit, Emitter, Value
from ingot.export.format import Spec
from ingot.graph.dtype import bool_, complex64, float32, int8, int16, int32, int64
from ingot.graph.op import Op
from ingot.ops.dependencies import Depends
from ingot.ops.elementwise import (
    arithmetic,
    bitwise,
    comparison,
    complex_numbers,
    exponential,
    extremes,
    powers,
    rounding,
    trigonometry,
)
from ingot.ops.elementwise.casting import AsType, Bitcast, Contiguous, Copy, StopGradient, Stored
from ingot.ops.random import functions

__all__ = ["ELEMENTWISE"]

# Ops with a primitive of the same name and without state
_SAME: tuple[type[Op], ...] = (
    arithmetic.Add,
    arithmetic.Divide,
    arithmetic.FloorDivide,
    arithmetic.Multiply,
    arithmetic.Negative,
    arithmetic.Remainder,
    arithmetic.Sign,
    arithmetic.Subtract,
    comparison.Greater,
    comparison.GreaterEqual,
    comparison.Less,
    comparison.LessEqual,
    comparison.NotEqual,
    comparison.Select,
    complex_numbers.Conjugate,
    exponential.Erf,
    exponential.ErfInv,
    exponential.Exp,
    exponential.Expm1,
    exponential.Log1p,
    exponential.LogAddExp,
    exponential.Sigmoid,
    extremes.Maximum,
    extremes.Minimum,
    powers.Power,
    powers.Square,
    rounding.Ceil,
    rounding.Floor,
    rounding.Round,
    trigonometry.ArcCos,
    trigonometry.ArcCosh,
    trigonometry.ArcSin,
    trigonometry.ArcSinh,
    trigonometry.ArcTan,
    trigonometry.ArcTan2,
    trigonometry.ArcTanh,
    trigonometry.Cos,
    trigonometry.Cosh,
    trigonometry.Sin,
    trigonometry.Sinh,
    trigonometry.Tan,
    trigonometry.Tanh,
)
# Ops whose primitive has another name or a state
_NAMED: dict[type[Op], tuple[str, tuple[Any, ...]]] = {
    bitwise.BitwiseAnd: ("BitwiseBinary", (0,)),
    bitwise.BitwiseOr: ("BitwiseBinary", (1,)),
    bitwise.BitwiseXor: ("BitwiseBinary", (2,)),
    comparison.Equal: ("Equal", (False,)),
    exponential.Log: ("Log", (2,)),
    exponential.Log10: ("Log", (1,)),
    exponential.Log2: ("Log", (0,)),
    functions.MatchingErf: ("Erf", ()),
    functions.MatchingErfInv: ("ErfInv", ()),
    functions.MatchingLog: ("Log", (2,)),
    functions.MatchingLog1p: ("Log1p", ()),
    functions.MatchingProduct: ("Multiply", ()),
    powers.Rsqrt: ("Sqrt", (True,)),
    powers.Sqrt: ("Sqrt", (False,)),
}
_SIGNED = (int8, int16, int32, int64)
_LOGICAL = (comparison.LogicalAnd, comparison.LogicalNot, comparison.LogicalOr)


def result_dtype(op: Any, inputs: tuple[Value, ...]) -> Dtype:
    """The dtype that an elementwise op infers."""
    dtype: Dtype = op.infer(*inputs)[1]
    return dtype


def _named(name: str, state: tuple[Any, ...]) -> Emit:
    def emit(emitter: Emitter, op: Op, *inputs: Value) -> Value:
        return emitter.primitive(name, inputs, state, inputs[0].shape, result_dtype(op, inputs))

    return emit


def _logical(emitter: Emitter, op: Op, *inputs: Value) -> Value:
    truths = [emitter.cast(x, bool_) for x in inputs]
    return emitter.primitive(type(op).__name__, truths, (), inputs[0].shape, bool_)


def _abs(emitter: Emitter, op: Op, x: Value) -> Value:
    found = emitter.primitive("Abs", [x], (), x.shape, x.dtype)
    return emitter.cast(found, float32) if x.dtype is complex64 else found


def _cube(emitter: Emitter, op: Op, x: Value) -> Value:
    return emitter.primitive("Power", [x, emitter.filled(3, x)], (), x.shape, x.dtype)


def _invert(emitter: Emitter, op: Op, x: Value) -> Value:
    """MLX cannot write its own inversion: it is the difference from all bits."""
    if x.dtype is bool_:
        return emitter.primitive("LogicalNot", [x], (), x.shape, bool_)
    ones = emitter.filled(-1, x)
    return emitter.primitive("BitwiseBinary", [x, ones], (2,), x.shape, x.dtype)


def _shift(emitter: Emitter, op: Op, x: Value, by: Value) -> Value:
    """A shift by all bits or more leaves none; in MLX it does whatever the processor does."""
    bits = 8 * x.dtype.size
    state = (3 if isinstance(op, bitwise.LeftShift) else 4,)
    if by.elements is not None and ((by.elements >= 0) & (by.elements < bits)).all():
        return emitter.primitive("BitwiseBinary", [x, by], state, x.shape, x.dtype)
    last = emitter.filled(bits - 1, by)
    short = emitter.primitive("Minimum", [by, last], (), by.shape, by.dtype)
    shifted = emitter.primitive("BitwiseBinary", [x, short], state, x.shape, x.dtype)
    if state == (4,) and x.dtype in _SIGNED:
        return shifted  # the sign fills all bits
    fits = emitter.primitive("LessEqual", [by, last], (), by.shape, bool_)
    nothing = emitter.filled(0, x)
    return emitter.primitive("Select", [fits, shifted, nothing], (), x.shape, x.dtype)


def _part(emitter: Emitter, op: Op, x: Value) -> Value:
    """The real or the imaginary part."""
    if x.dtype is complex64:
        return emitter.primitive(type(op).__name__, [x], (), x.shape, float32)
    return x if isinstance(op, complex_numbers.Real) else emitter.filled(0, x)


def _as_type(emitter: Emitter, op: AsType, x: Value) -> Value:
    return emitter.cast(x, op.dtype)


def _view(emitter: Emitter, op: Bitcast, x: Value) -> Value:
    shape, dtype = op.infer(x)  # type: ignore[arg-type]
    return emitter.primitive("View", [x], (op.dtype,), shape, dtype)


def _same(emitter: Emitter, op: Op, x: Value) -> Value:
    return x


def _depends(emitter: Emitter, op: Depends, *inputs: Value) -> Any:
    specs = [Spec(tuple(x.shape), x.dtype) for x in inputs[: op.count]]
    return emitter.several("Depends", inputs, (), specs)


ELEMENTWISE: dict[type[Op], Emit] = {
    **{kind: _named(kind.__name__, ()) for kind in _SAME},
    **{kind: _named(*named) for kind, named in _NAMED.items()},
    **dict.fromkeys(_LOGICAL, _logical),
    **dict.fromkeys((Contiguous, Copy, StopGradient, Stored), _same),
    AsType: _as_type,
    Bitcast: _view,
    Depends: _depends,
    **dict.fromkeys((bitwise.LeftShift, bitwise.RightShift), _shift),
    **dict.fromkeys((complex_numbers.Imag, complex_numbers.Real), _part),
    arithmetic.Abs: _abs,
    bitwise.BitwiseInvert: _invert,
    powers.Cube: _cube,
}
