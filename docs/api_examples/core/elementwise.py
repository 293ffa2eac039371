"""Examples of ingot.core: functions of each element."""

import ingot.core as mx

# %% abs
print(mx.abs(mx.array([-1.5, 2.0])))
# array([1.5, 2], dtype=float32)

# %% negative
print(mx.negative(mx.array([1, -2])))
# array([-1, 2], dtype=int32)

# %% positive
print(mx.positive(mx.array([1, -2])))
# array([1, -2], dtype=int32)

# %% sign
print(mx.sign(mx.array([-3.0, 0.0, 2.0])))
# array([-1, 0, 1], dtype=float32)

# %% add
print(mx.add(mx.array([1, 2]), 10))
# array([11, 12], dtype=int32)

# %% subtract
print(mx.subtract(mx.array([1, 2]), mx.array([3, 5])))
# array([-2, -3], dtype=int32)

# %% multiply
print(mx.multiply(mx.array([1, 2]), 0.5))
# array([0.5, 1], dtype=float32)

# %% divide
print(mx.divide(mx.array([1, 2]), 4))
# array([0.25, 0.5], dtype=float32)

# %% floor_divide
print(mx.floor_divide(mx.array([7, -7]), 2))
# array([3, -4], dtype=int32)

# %% remainder
print(mx.remainder(mx.array([7, -7]), 3))
# array([1, 2], dtype=int32)

# %% divmod
quotient, rest = mx.divmod(mx.array([7, 9]), 4)
print(quotient, rest)
# array([1, 2], dtype=int32) array([3, 1], dtype=int32)

# %% power
print(mx.power(mx.array([2.0, 3.0]), 2))
# array([4, 9], dtype=float32)

# %% pow
print(mx.pow(mx.array([2, 3]), 3))
# array([8, 27], dtype=int32)

# %% reciprocal
print(mx.reciprocal(mx.array([2.0, 4.0])))
# array([0.5, 0.25], dtype=float32)

# %% square
print(mx.square(mx.array([3, -4])))
# array([9, 16], dtype=int32)

# %% sqrt
print(mx.sqrt(mx.array([4.0, 9.0])))
# array([2, 3], dtype=float32)

# %% rsqrt
print(mx.rsqrt(mx.array([4.0, 16.0])))
# array([0.5, 0.25], dtype=float32)

# %% exp
print(mx.exp(mx.array([0.0, 1.0])))
# array([1, 2.71828], dtype=float32)

# %% expm1
print(mx.expm1(mx.array([0.0, 1e-5])))
# array([0, 1e-05], dtype=float32)

# %% log
print(mx.log(mx.array([1.0, 10.0])))
# array([0, 2.30259], dtype=float32)

# %% log2
print(mx.log2(mx.array([1.0, 8.0])))
# array([0, 3], dtype=float32)

# %% log10
print(mx.log10(mx.array([1.0, 1000.0])))
# array([0, 3], dtype=float32)

# %% log1p
print(mx.log1p(mx.array([0.0, 1e-5])))
# array([0, 9.99995e-06], dtype=float32)

# %% logaddexp
print(mx.logaddexp(mx.array([0.0]), mx.array([0.0])))
# array([0.693147], dtype=float32)

# %% sigmoid
print(mx.sigmoid(mx.array([-2.0, 0.0, 2.0])))
# array([0.119203, 0.5, 0.880797], dtype=float32)

# %% softmax
print(mx.softmax(mx.array([1.0, 2.0, 3.0])))
# array([0.0900306, 0.244728, 0.665241], dtype=float32)

# %% erf
print(mx.erf(mx.array([0.25, 0.5])))
# array([0.276326, 0.5205], dtype=float32)

# %% erfinv
print(mx.erfinv(mx.array([0.0, 0.5])))
# array([0, 0.476936], dtype=float32)

# %% sin
print(mx.sin(mx.array([0.0, 1.0])))
# array([0, 0.841471], dtype=float32)

# %% cos
print(mx.cos(mx.array([0.0, 1.0])))
# array([1, 0.540302], dtype=float32)

# %% tan
print(mx.tan(mx.array([0.0, 1.0])))
# array([0, 1.55741], dtype=float32)

# %% sinh
print(mx.sinh(mx.array([0.0, 1.0])))
# array([0, 1.1752], dtype=float32)

# %% cosh
print(mx.cosh(mx.array([0.0, 1.0])))
# array([1, 1.54308], dtype=float32)

# %% tanh
print(mx.tanh(mx.array([0.0, 1.0])))
# array([0, 0.761594], dtype=float32)

# %% arcsin
print(mx.arcsin(mx.array([0.0, 0.5])))
# array([0, 0.523599], dtype=float32)

# %% asin
print(mx.asin(mx.array([0.0, 0.5])))
# array([0, 0.523599], dtype=float32)

# %% arccos
print(mx.arccos(mx.array([1.0, 0.5])))
# array([0, 1.0472], dtype=float32)

# %% acos
print(mx.acos(mx.array([1.0, 0.5])))
# array([0, 1.0472], dtype=float32)

# %% arctan
print(mx.arctan(mx.array([0.0, 1.0])))
# array([0, 0.785398], dtype=float32)

# %% atan
print(mx.atan(mx.array([0.0, 1.0])))
# array([0, 0.785398], dtype=float32)

# %% arctan2
print(mx.arctan2(mx.array([1.0, 1.0]), mx.array([1.0, -1.0])))
# array([0.785398, 2.35619], dtype=float32)

# %% atan2
print(mx.atan2(mx.array([1.0, 1.0]), mx.array([1.0, -1.0])))
# array([0.785398, 2.35619], dtype=float32)

# %% arcsinh
print(mx.arcsinh(mx.array([0.0, 1.0])))
# array([0, 0.881374], dtype=float32)

# %% asinh
print(mx.asinh(mx.array([0.0, 1.0])))
# array([0, 0.881374], dtype=float32)

# %% arccosh
print(mx.arccosh(mx.array([1.0, 2.0])))
# array([0, 1.31696], dtype=float32)

# %% acosh
print(mx.acosh(mx.array([1.0, 2.0])))
# array([0, 1.31696], dtype=float32)

# %% arctanh
print(mx.arctanh(mx.array([0.0, 0.5])))
# array([0, 0.549306], dtype=float32)

# %% atanh
print(mx.atanh(mx.array([0.0, 0.5])))
# array([0, 0.549306], dtype=float32)

# %% degrees
print(mx.degrees(mx.array([0.0, 3.14159265])))
# array([0, 180], dtype=float32)

# %% radians
print(mx.radians(mx.array([0.0, 180.0])))
# array([0, 3.14159], dtype=float32)

# %% ceil
print(mx.ceil(mx.array([1.2, -1.2])))
# array([2, -1], dtype=float32)

# %% floor
print(mx.floor(mx.array([1.2, -1.2])))
# array([1, -2], dtype=float32)

# %% trunc
print(mx.trunc(mx.array([1.7, -1.7])))
# array([1, -1], dtype=float32)

# %% round
print(mx.round(mx.array([0.5, 1.5, 2.345]), 2))
# array([0.5, 1.5, 2.34], dtype=float32)

# %% clip
print(mx.clip(mx.array([-1, 3, 9]), 0, 5))
# array([0, 3, 5], dtype=int32)

# %% maximum
print(mx.maximum(mx.array([1, 5]), 3))
# array([3, 5], dtype=int32)

# %% minimum
print(mx.minimum(mx.array([1, 5]), 3))
# array([1, 3], dtype=int32)

# %% nan_to_num
print(mx.nan_to_num(mx.array([float("nan"), 1.0]), nan=-1.0))
# array([-1, 1], dtype=float32)

# %% real
print(mx.real(mx.array([1 + 2j])))
# array([1], dtype=float32)

# %% imag
print(mx.imag(mx.array([1 + 2j])))
# array([2], dtype=float32)

# %% conj
print(mx.conj(mx.array([1 + 2j])))
# array([1-2j], dtype=complex64)

# %% conjugate
print(mx.conjugate(mx.array([1 + 2j])))
# array([1-2j], dtype=complex64)

# %% equal
print(mx.equal(mx.array([1, 2]), mx.array([1, 3])))
# array([True, False], dtype=bool)

# %% not_equal
print(mx.not_equal(mx.array([1, 2]), mx.array([1, 3])))
# array([False, True], dtype=bool)

# %% less
print(mx.less(mx.array([1, 2, 3]), 2))
# array([True, False, False], dtype=bool)

# %% less_equal
print(mx.less_equal(mx.array([1, 2, 3]), 2))
# array([True, True, False], dtype=bool)

# %% greater
print(mx.greater(mx.array([1, 2, 3]), 2))
# array([False, False, True], dtype=bool)

# %% greater_equal
print(mx.greater_equal(mx.array([1, 2, 3]), 2))
# array([False, True, True], dtype=bool)

# %% isclose
print(mx.isclose(mx.array([1.0, 2.0]), mx.array([1.0 + 1e-7, 2.1])))
# array([True, False], dtype=bool)

# %% allclose
print(mx.allclose(mx.array([1.0, 2.0]), mx.array([1.0, 2.0 + 1e-6])))
# array(True, dtype=bool)

# %% array_equal
print(mx.array_equal(mx.array([1, 2]), mx.array([1.0, 2.0])))
# array(True, dtype=bool)

# %% isnan
print(mx.isnan(mx.array([float("nan"), 1.0])))
# array([True, False], dtype=bool)

# %% isinf
print(mx.isinf(mx.array([float("inf"), 1.0])))
# array([True, False], dtype=bool)

# %% isfinite
print(mx.isfinite(mx.array([float("inf"), 1.0])))
# array([False, True], dtype=bool)

# %% isposinf
print(mx.isposinf(mx.array([float("inf"), -float("inf")])))
# array([True, False], dtype=bool)

# %% isneginf
print(mx.isneginf(mx.array([float("inf"), -float("inf")])))
# array([False, True], dtype=bool)

# %% logical_and
print(mx.logical_and(mx.array([True, True]), mx.array([True, False])))
# array([True, False], dtype=bool)

# %% logical_or
print(mx.logical_or(mx.array([True, False]), mx.array([False, False])))
# array([True, False], dtype=bool)

# %% logical_xor
print(mx.logical_xor(mx.array([True, True]), mx.array([True, False])))
# array([False, True], dtype=bool)

# %% logical_not
print(mx.logical_not(mx.array([True, False])))
# array([False, True], dtype=bool)

# %% bitwise_and
print(mx.bitwise_and(mx.array([6, 5]), 4))
# array([4, 4], dtype=int32)

# %% bitwise_or
print(mx.bitwise_or(mx.array([6, 5]), 1))
# array([7, 5], dtype=int32)

# %% bitwise_xor
print(mx.bitwise_xor(mx.array([6, 5]), 3))
# array([5, 6], dtype=int32)

# %% bitwise_invert
print(mx.bitwise_invert(mx.array([0, 5])))
# array([-1, -6], dtype=int32)

# %% bitwise_left_shift
print(mx.bitwise_left_shift(mx.array([1, 3]), 2))
# array([4, 12], dtype=int32)

# %% bitwise_right_shift
print(mx.bitwise_right_shift(mx.array([8, 12]), 2))
# array([2, 3], dtype=int32)

# %% left_shift
print(mx.left_shift(mx.array([1, 3]), 2))
# array([4, 12], dtype=int32)

# %% right_shift
print(mx.right_shift(mx.array([8, 12]), 2))
# array([2, 3], dtype=int32)

# %% where
x = mx.array([-1.0, 2.0])
print(mx.where(x > 0, x, 0))
# array([0, 2], dtype=float32)
