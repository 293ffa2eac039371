"""Differences from MLX 0.32.4 that stay, each with its reason.

A line matches by the kind of difference and by an expression that is searched for in the call and
in the description of the difference.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tests.oracle.walk.compare import Difference


@dataclass(frozen=True)
class Known:
    """Why a difference stays."""

    reason: str
    kinds: str  # of differences, separated by blanks
    call: str = ""  # searched for in the call
    text: str = ""  # searched for in the difference


MISSING = "(?i)not (yet )?implemented|NYI|not supported for|cannot compute the gradient"
DIFFERENCES = [
    Known("ingot has a rule where MLX has none", "accepts exception", text=MISSING),
    Known("derivatives by indices raise ValueError throughout", "exception", text="by its indices"),
    Known("Python's divmod is not defined for MLX's arrays", "accepts exception", r"divmod\("),
    Known("the remainder of divmod varies, as that of % does", "values", r"mx\.divmod\(x, y\)"),
    Known("MLX cannot broadcast a traced value of pad", "accepts", "constant_values=x"),
    Known("MLX's cast to bool has no gradient of its own", "accepts", text="Type of cotangents"),
    Known("MLX's full has the gradient of a product", "values", r"mx\.full\(\(2,\), x"),
    Known("MLX's all and any have the tangents of products", "values", r"jvp.*(\.all\(|\.any\()"),
    Known("zeros in place of tangents of products", "values", r"jvp.*mx\.(allclose|array_equal)"),
    Known("the dtype of a tangent that is zero", "values", r"jvp.*(x & 1|x \| 1|x << 1)"),
    Known("the dtype of a tangent that is zero", "values", r"jvp.*mx\.(isnan|isclose)\(x"),
    Known("a rounded integer is the integer, of derivative 1", "values", r"mx\.round\(x, 1\)"),
    Known("MLX stores bits of float tangents in integers", "values", r"jvp.*(put_along|slice_up)"),
    Known("where operands are equal, the update wins", "values", r"x\.at\[0\]\.maximum"),
    Known("MLX updates the first of the batch alone", "values", r"vmap.*x\.at\[0\]"),
    Known(
        "gradients have the dtype of the argument",
        "values",
        r"(vjp|grad).*(\.max\(|\.min\(|minmax|cumprod).*int32",
        "int32.* and not float32",
    ),
    Known("MLX reads foreign memory", "raises", text="IndexError.*out of range|reach elements"),
    Known(
        "ingot checks arguments first; MLX's Python fails where it happens to",
        "exception",
        r"^(nn|optimizers|utils)\.",
        r"^(TypeError|ValueError|TreeError|IndexError|ConversionError|RangeError|RuntimeError)",
    ),
    Known(
        "arguments of the wrong kind are refused, where MLX's Python goes on with them",
        "raises",
        r"^(nn|optimizers|utils)\.",
        "must be|takes no argument|unexpected keyword|has at least one|are trees",
    ),
    Known("a number is no stream", "raises exception", text=r"\[stream\] expected a device"),
    Known("a stream that is not used is not looked at", "accepts", "stream="),
    Known("numbers are taken for arrays", "accepts", r"^nn\."),
    Known("NumPy's numbers are taken for arrays", "values", r"^nn\..*np\.(float64|int32)\("),
    Known(
        "ints of more than 32 bits are ints: as a diagonal, a correction or a stride",
        "accepts exception",
        r"2\*\*31|2\*\*63",
        "incompatible function arguments",
    ),
    Known(
        "sines of numbers that float32 does not resolve", "values", r"(rope|Rope|RoPE|Sinus).*2\*\*"
    ),
    Known(
        "bitwise operators are reflected", "accepts exception", r"^operator\.(or_|and_|xor|.shift)"
    ),
    Known("MLX computes in float32", "values", text=r"^float64.*\(nearly\)"),
    Known("a softmax of integers has fractions", "values", "[Ss]oft(max|min)", "not (u?int|bool)"),
    Known("a softmax with NaN is NaN", "values", "[Ss]oft(max|min).*nan"),
    Known("vectors of a null space are not unique", "values", r"^mx\.linalg\.svd\(mx\.ones"),
    Known("the order within the parts is free", "values", r"partition\("),
    Known("MLX has no float64 here", "values", r"from_fp8.*float64"),
    Known("an empty axis stays empty", "values", r"PReLU.*\(2, 0\)"),
    Known("bytes are no numbers", "raises exception values", 'b"x"'),
    Known("a shift by bytes is no shift", "values", 'shift.*b"x"'),
    Known("numbers are no devices", "raises", r"^mx\.(Device|default_stream|device_count)"),
    Known("ArrayAt may be made like array.at makes it", "accepts", r"^mx\.ArrayAt"),
    Known("the name of a class without a public name", "values", r"^mx\.printoptions"),
    Known("what follows a shape is refused", "raises exception", r"^floats\.(reshape|transpose)\("),
    Known("a version is two ints", "raises", r"__dlpack__\(max_version"),
    Known("compile takes constants of more types", "accepts exception", r"^mx\.compile"),
    Known("what is no shape is refused like by other functions", "exception", "broadcast_shapes"),
    Known("errors of MLX's containers", "exception", text="SmallVector out of range"),
    Known("as many tangents as primals come first", "exception", r"^mx\.jvp"),
    Known("arguments are counted first", "exception", r"^mx\.vmap\(_double, 0, 0\)\(\)"),
    Known("axes may be given in a list", "accepts", r"^mx\.vmap"),
    Known("argnames is a string or a sequence", "raises", r"^mx\.(value_and_)?grad"),
    Known("updates broadcast to the indices", "raises", r"put_along_axis.*-2"),
    Known("MLX writes beyond the rows", "raises", r"slice_update"),
    Known("MLX multiplies foreign memory", "raises", r"segmented_mm"),
    Known("a scalar of NumPy is no tensor", "raises", r"from_dlpack"),
    Known("indices are integers", "raises", r"put_along_axis.*complex64"),
    Known("an index beyond 32 bits is out of range", "exception", r"(get|set)item__.*2\*\*"),
    Known("a list like divmod's", "values", "divmod", "list and not tuple"),
    Known("strides are as many as axes", "raises", r"as_strided"),
    Known("only L and U name triangles", "raises", r"eigvalsh|eigh"),
    Known("masks have the shape of the sequences", "raises exception", r"gated_delta_update"),
    Known("None is no number", "exception", r"^mx\.(full|broadcast_to|fast\.rope)\(.*None"),
    Known("a bool is an int", "accepts", r"fast\.rope.*offset=True"),
    Known("any callable is a schedule", "accepts", r"^optimizers\."),
    Known("one process is a group", "accepts", r"^mx\.distributed\.init"),
    Known("an empty text is no width", "exception", r'^mx\.pad\(floats, ""'),
    Known("products of what has no axes", "exception", r"^operator\.i?matmul"),
    Known("a convolution's padding has no limit of 32 bits", "accepts", r"conv_transpose.*2\*\*"),
    Known("state is made of arrays", "raises", r"^mx\.compile", "(in|out)puts must be"),
    Known("3-D convolutions have groups", "accepts", r"^mx\.conv3d", "groups"),
    Known("what is no array is refused like by other functions", "exception", r"^mx\.array_equal"),
    Known("of the dtype that is asked for", "values", r"^nn\.init\.constant\(mx\.array"),
    Known("shapes are checked", "raises", r"^nn\.ALiBi"),
    Known("the methods of arrays take what the functions take", "accepts", r"^floats\."),
    Known("ranks are compared before the axis is", "exception", "concatenate.*vmap|vmap.*concat"),
    Known(
        "MLX squeezes what it found nothing for", "accepts exception", text=r"\[squeeze\] Cannot"
    ),
    Known("an index into nothing is out of range", "accepts exception", r"^mx\.take\(mx\.zeros"),
    Known("one element of an axis is an int of any kind", "accepts", r"^mx\.take\(.*np\.int32"),
    Known(
        "indices are checked before shapes",
        "exception",
        "put_along_axis",
        "indices must be integers",
    ),
    Known("an axis is named once", "raises", r"norm\(floats, 2, \(0, 0\)\)"),
    Known(
        "slices take what Python's take", "accepts", r"setitem__\(\(mx\.array\(\[0, 1\]\), slice"
    ),
    Known("vectors of a null space are not unique", "values", r"^mx\.linalg\.eigh\(mx\.ones"),
    Known("MLX reads beyond the input", "raises", r"[Cc]onv_?[Tt]ranspose.*-7"),
    Known(
        "MLX broadcasts what it compiled for other shapes", "raises values", r"nn\.(PReLU|prelu)"
    ),
    Known("MLX subtracts in unsigned integers", "values", r"(log_?soft|logsum).*\.(bool_|uint)"),
    Known("what has no elements has no largest one", "raises", r"log_softmax\(mx\.zeros"),
    Known("MLX's answer depends on the calls before it", "values", r"nn\.soft(max|min)\(mx\.ones"),
    Known(
        "shifts by negative numbers are undefined in C", "values", r"(left_|l)shift\(integers, -"
    ),
    Known("MLX multiplies foreign memory", "values", r"segmented_mm\(.*\[-1, 5\]"),
    Known("a slice lies within its axis", "raises", r"^mx\.slice\("),
    Known("as many sizes as axes", "exception", r"^mx\.slice\(.*2\*\*31"),
    Known("a number is no stream", "raises exception", r"^mx\.(new_)?stream\("),
    Known("an array is one cotangent", "raises", r"^mx\.vjp\(.*mx\.ones\(\(2, 2, 3\)\)"),
    Known("an array is not None", "accepts", r"^operator\.(eq|ne)\(.*None"),
    Known("stacks are solved with one matrix", "accepts", r"^mx\.linalg\.solve"),
    Known("NumPy's ints are ints", "accepts", r"permutation\(np\.int32"),
    Known("apply with parameters calls the module", "raises", r"\.apply\((\[\]|\{\})"),
    Known("the attributes of a layer are ints", "values", r"QQLinear\(.*mx\.array"),
    Known("schedules compute with Python's floats", "values", r"(step|cosine)_decay"),
    Known("MLX reads the bits of float64 as float32", "values", r"(to_fp8|from_dlpack).*float64"),
    Known("a dict without arrays has no axis", "exception", r"vmap\(_double, 0, 0\)\(\{\}\)"),
    Known("hops shorter than a quarter, empty frames", "accepts", r"fft\.istft"),
    Known("a signal is real", "values", r"fft\.istft.*complex64"),
    Known("channels are counted", "raises", r"^nn\.BatchNorm\("),
    Known("numbers are taken for arrays", "raises values", r"^nn\.(LogSigmoid|gelu_approx)\("),
    Known("the precision is Python's int", "raises", r"^mx\.PrintOptions\("),
]


def reason(call: str, difference: Difference) -> str | None:
    """Why a difference stays; None if it should not."""
    for known in DIFFERENCES:
        if difference.kind not in known.kinds.split():
            continue
        if re.search(known.call, call) and re.search(known.text, difference.text):
            return known.reason
    return None
