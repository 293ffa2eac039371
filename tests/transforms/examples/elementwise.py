"""Examples for the ops that compute each element by itself."""

from __future__ import annotations

from tests.transforms.examples.example import (
    PLAIN,
    WITHIN,
    Example,
    apart,
    binary,
    booleans,
    integers,
    positive,
    real,
    unary,
)

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

ELEMENTWISE = [
    *(
        unary(op, name, make)
        for op, name, make in (
            (arithmetic.Abs(), "abs", apart(2, 3)),
            (arithmetic.Negative(), "negative", PLAIN),
            (arithmetic.Sign(), "sign", apart(2, 3)),
            (comparison.LogicalNot(), "logical_not", booleans(2, 3)),
            (bitwise.BitwiseInvert(), "bitwise_invert", integers(2, 3)),
            (exponential.Exp(), "exp", PLAIN),
            (exponential.Expm1(), "expm1", PLAIN),
            (exponential.Log(), "log", positive(2, 3)),
            (exponential.Log2(), "log2", positive(2, 3)),
            (exponential.Log10(), "log10", positive(2, 3)),
            (exponential.Log1p(), "log1p", positive(2, 3)),
            (exponential.Sigmoid(), "sigmoid", PLAIN),
            (exponential.Erf(), "erf", PLAIN),
            (exponential.ErfInv(), "erfinv", WITHIN),
            (powers.Square(), "square", PLAIN),
            (powers.Sqrt(), "sqrt", positive(2, 3)),
            (powers.Rsqrt(), "rsqrt", positive(2, 3)),
            (rounding.Floor(), "floor", apart(2, 3)),
            (rounding.Ceil(), "ceil", apart(2, 3)),
            (rounding.Round(), "round", apart(2, 3)),
            (trigonometry.Sin(), "sin", PLAIN),
            (trigonometry.Cos(), "cos", PLAIN),
            (trigonometry.Tan(), "tan", WITHIN),
            (trigonometry.ArcSin(), "arcsin", WITHIN),
            (trigonometry.ArcCos(), "arccos", WITHIN),
            (trigonometry.ArcTan(), "arctan", PLAIN),
            (trigonometry.Sinh(), "sinh", PLAIN),
            (trigonometry.Cosh(), "cosh", PLAIN),
            (trigonometry.Tanh(), "tanh", PLAIN),
            (trigonometry.ArcSinh(), "arcsinh", PLAIN),
            (trigonometry.ArcCosh(), "arccosh", real(2, 3, low=1.2, high=3)),
            (trigonometry.ArcTanh(), "arctanh", WITHIN),
            (complex_numbers.Real(), "real", PLAIN),
            (complex_numbers.Imag(), "imag", PLAIN),
            (complex_numbers.Conjugate(), "conj", PLAIN),
        )
    ),
    *(
        binary(op, name, first, second)
        for op, name, first, second in (
            (arithmetic.Add(), "add", PLAIN, PLAIN),
            (arithmetic.Subtract(), "subtract", PLAIN, PLAIN),
            (arithmetic.Multiply(), "multiply", PLAIN, PLAIN),
            (arithmetic.Divide(), "divide", PLAIN, positive(2, 3)),
            (arithmetic.FloorDivide(), "floor_divide", apart(2, 3), positive(2, 3)),
            (arithmetic.Remainder(), "remainder", apart(2, 3), real(2, 3, low=1.1, high=1.2)),
            (comparison.Equal(), "equal", integers(2, 3), integers(2, 3)),
            (comparison.NotEqual(), "not_equal", integers(2, 3), integers(2, 3)),
            (comparison.Less(), "less", PLAIN, PLAIN),
            (comparison.LessEqual(), "less_equal", PLAIN, PLAIN),
            (comparison.Greater(), "greater", PLAIN, PLAIN),
            (comparison.GreaterEqual(), "greater_equal", PLAIN, PLAIN),
            (comparison.LogicalAnd(), "logical_and", booleans(2, 3), booleans(2, 3)),
            (comparison.LogicalOr(), "logical_or", booleans(2, 3), booleans(2, 3)),
            (bitwise.BitwiseAnd(), "bitwise_and", integers(2, 3), integers(2, 3)),
            (bitwise.BitwiseOr(), "bitwise_or", integers(2, 3), integers(2, 3)),
            (bitwise.BitwiseXor(), "bitwise_xor", integers(2, 3), integers(2, 3)),
            (bitwise.LeftShift(), "left_shift", integers(2, 3), integers(2, 3)),
            (bitwise.RightShift(), "right_shift", integers(2, 3), integers(2, 3)),
            (exponential.LogAddExp(), "logaddexp", PLAIN, PLAIN),
            (extremes.Maximum(), "maximum", apart(2, 3), real(2, 3, low=0.2, high=0.25)),
            (extremes.Minimum(), "minimum", apart(2, 3), real(2, 3, low=0.2, high=0.25)),
            (powers.Power(), "power", positive(2, 3), PLAIN),
            (trigonometry.ArcTan2(), "arctan2", positive(2, 3), positive(2, 3)),
        )
    ),
    Example(powers.Cube(), (PLAIN,), lambda m, x: m.power(x, 3)),
    Example(
        comparison.Select(),
        (booleans(2, 3), PLAIN, PLAIN),
        lambda m, c, x, y: m.where(c, x, y),
    ),
]
