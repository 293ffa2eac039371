"""What each of MLX's primitives stores beside its inputs: the kinds of its values, in order.

A kind is the name of the method of `Reader` and `Writer` for it. A primitive that is not listed
cannot be read, because where its values end is not known.
"""

from __future__ import annotations

__all__ = ["STATES"]

_WITHOUT_STATE = """
    Abs Add ArcCos ArcCosh ArcSin ArcSinh ArcTan ArcTan2 ArcTanh Ceil Conjugate Cos Cosh
    Depends DivMod Divide Erf ErfInv Exp Expm1 Floor FloorDivide Full Greater GreaterEqual Imag
    Less LessEqual Log1p LogAddExp LogSumExp LogicalAnd LogicalNot LogicalOr MaskedScatter Matmul
    Maximum Minimum Multiply Negative NotEqual Power QRF Real Remainder Round Select Sigmoid
    Sign Sin Sinh Square Subtract Tan Tanh
"""

STATES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(_WITHOUT_STATE.split(), ()),
    "AddMM": ("float32", "float32"),  # alpha, beta
    "Arange": ("float64", "float64", "float64"),  # start, stop, step
    "ArgPartition": ("int32", "int32"),  # kth, axis
    "ArgReduce": ("int32", "int32"),  # 0 min or 1 max, axis
    "ArgSort": ("int32",),  # axis
    "AsStrided": ("shape", "strides", "size"),  # of elements
    "AsType": ("dtype",),
    "BitwiseBinary": ("int32",),  # and, or, xor, left and right shift
    "BlockMaskedMM": ("int32",),  # block size
    "Broadcast": ("shape",),
    "BroadcastAxes": ("ints",),  # the axes that keep their lengths
    "Cholesky": ("boolean",),  # upper
    "Concatenate": ("int32",),  # axis
    # strides, padding before and after, dilation of kernels and inputs, groups, flip
    "Convolution": ("ints", "ints", "ints", "ints", "ints", "int32", "boolean"),
    "DynamicSlice": ("ints", "shape"),  # axes, sizes
    "DynamicSliceUpdate": ("ints",),  # axes
    "Eig": ("boolean",),  # whether it computes vectors
    "Eigh": ("text", "boolean"),  # triangle, whether it computes vectors
    "Equal": ("boolean",),  # whether NaNs are equal
    "ExpandDims": ("ints",),  # axes of the result
    "FFT": ("sizes", "boolean", "boolean", "boolean"),  # axes, inverse, real, unknown: False
    "Flatten": ("int32", "int32"),  # first and last axis
    "Gather": ("ints", "shape"),  # axes, lengths of the slices
    "GatherAxis": ("int32",),  # axis
    "GatherMM": ("boolean", "boolean"),  # whether left and right indices are sorted
    # group size, bits, mode, transposed, whether left and right indices are sorted
    "GatherQMM": ("int32", "int32", "int32", "boolean", "boolean", "boolean"),
    "Hadamard": ("float32",),  # scale
    "Inverse": ("boolean", "boolean"),  # triangular, upper
    "Log": ("int32",),  # base 2, 10 or e
    "NumberOfElements": ("ints", "boolean", "dtype"),  # axes, whether it is the reciprocal
    "Pad": ("ints", "shape", "shape"),  # axes, lengths before and after
    "Partition": ("int32", "int32"),  # kth, axis
    "Quantize": ("int32", "int32", "int32", "boolean"),  # group size, bits, mode, dequantizes
    "QuantizedMatmul": ("int32", "int32", "int32", "boolean"),  # ..., mode, transposed
    "RandomBits": ("shape", "int32"),  # shape, bytes
    "Reduce": ("int32", "ints"),  # kind, axes
    "Reshape": ("ints",),  # -1: what is left
    "SVD": ("boolean",),  # whether it computes vectors
    "Scan": ("int32", "int32", "boolean", "boolean"),  # kind, axis, reverse, inclusive
    "Scatter": ("int32", "ints"),  # mode, axes
    "ScatterAxis": ("int32", "int32"),  # 0 add or 1 assign, axis
    "SearchSorted": ("boolean",),  # right
    "Slice": ("ints", "ints", "ints"),  # start, stop, strides
    "SliceUpdate": ("int32", "ints", "ints", "ints"),  # mode, start, stop, strides
    "Softmax": ("boolean",),  # precise
    "Sort": ("int32",),  # axis
    "Split": ("ints", "int32"),  # positions, axis
    "Sqrt": ("boolean",),  # reciprocal
    "Squeeze": ("ints",),  # axes
    "Transpose": ("ints",),  # axes
    "Unflatten": ("int32", "ints"),  # axis, shape
    "View": ("dtype",),
}
