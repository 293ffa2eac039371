"""Chooses the loop nests for products and the ops built from them.

Each role has a builder, which returns kernels for the given strides of the operands, or None where
BLAS or the op's `evaluate` rule is faster or the only option.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from ingot.compiler.forms.schedule import Group
from ingot.compiler.forms.tape import Step
from ingot.compiler.lower.kernel import Lowered
from ingot.compiler.lower.products.attention.backward import lower_attention_backward
from ingot.compiler.lower.products.attention.forward import lower_attention
from ingot.compiler.lower.products.convolution.lower import (
    lower_correlation,
    lower_correlation_by_filters,
)
from ingot.compiler.lower.products.matmul import lower_matmul, why_no_nest
from ingot.compiler.lower.products.quantized.product import lower_quantized
from ingot.compiler.lower.reductions.pooling import lower_pooling, lower_pooling_backward
from ingot.graph.roles import (
    OF_BLAS,
    Attend,
    AttendBackward,
    Correlation,
    CorrelationByFilters,
    Pooling,
    PoolingBackward,
    Product,
    QuantizedProduct,
)
from ingot.runtime.numerics import product_engine

__all__ = ["lower_product", "why_blas"]

Strides = dict[Step, tuple[int, ...]]
Builder = Callable[[Step, Strides], Lowered | None]

_BUILDERS: dict[type, Builder] = {
    Attend: lower_attention,
    AttendBackward: lower_attention_backward,
    QuantizedProduct: lower_quantized,
    Correlation: lower_correlation,
    CorrelationByFilters: lower_correlation_by_filters,
    Pooling: lower_pooling,
    PoolingBackward: lower_pooling_backward,
}


def lower_product(
    step: Step,
    strides_of: Strides,
    epilogue: Group | None = None,
    fixed: Collection[Step] = (),
) -> Lowered | None:
    """The kernels of a step and its epilogue, given the strides of inputs and result; None if there
    are none. Operands in `fixed` are the same each time the kernels run.
    """
    if isinstance(step.op, OF_BLAS) and product_engine() == "blas":
        return None
    if isinstance(step.op, Product):
        return lower_matmul(step, strides_of, epilogue, fixed)
    for role, builder in _BUILDERS.items():
        if isinstance(step.op, role):
            return builder(step, strides_of)
    return None


def why_blas(step: Step) -> str:
    """Why BLAS computes a step, for explanations."""
    if product_engine() == "blas":
        return 'set_product_engine("blas") asks for it'
    if not isinstance(step.op, Product):
        return "its lengths are symbols"
    return why_no_nest(step)
