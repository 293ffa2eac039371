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
    Known("ingot has a rule where MLX has none", "accepts", text=MISSING),
    Known("derivatives by indices raise ValueError throughout", "exception", text="by its indices"),
    Known("Python's divmod is not defined for MLX's arrays", "accepts", r"divmod\("),
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
        r"^(TypeError|ValueError|TreeError|IndexError|ConversionError|RangeError)",
    ),
    Known(
        "arguments of the wrong kind are refused, where MLX's Python goes on with them",
        "raises",
        r"^(nn|optimizers|utils)\.",
        "must be|takes no argument|unexpected keyword",
    ),
    Known("a number is no stream", "raises exception", text=r"\[stream\] expected a device"),
    Known("a stream that is not used is not looked at", "accepts", "stream="),
    Known("numbers are taken for arrays", "accepts", r"^nn\."),
    Known(
        "axes and lengths of more than 32 bits are out of range like others",
        "exception",
        r"2\*\*31|2\*\*63",
    ),
    Known("a tuple, as MLX's signature says", "values", r"^mx\.quantize", "tuple and not list"),
    Known("bitwise operators are reflected", "exception", r"^operator\.(or_|and_|xor|.shift)"),
    Known("state is made of arrays", "raises", r"^mx\.compile", "(in|out)puts must be"),
    Known("3-D convolutions have groups", "accepts", r"^mx\.conv3d", "groups"),
    Known("what is no array is refused like by other functions", "exception", r"^mx\.array_equal"),
    Known("of the dtype that is asked for", "values", r"^nn\.init\.constant\(mx\.array"),
    Known("shapes are checked", "raises", r"^nn\.ALiBi"),
    Known("the methods of arrays take what the functions take", "accepts", r"^floats\."),
    Known("ranks are compared before the axis is", "exception", "concatenate.*vmap|vmap.*concat"),
]


def reason(call: str, difference: Difference) -> str | None:
    """Why a difference stays; None if it should not."""
    for known in DIFFERENCES:
        if difference.kind not in known.kinds.split():
            continue
        if re.search(known.call, call) and re.search(known.text, difference.text):
            return known.reason
    return None
