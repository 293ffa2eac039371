"""Roles: how the compiler treats an op, each a class that declares what its ops must provide.

Every op has one role: it derives from one of the classes of `ROLES`, on which the fuser and
lowering dispatch by `isinstance`. Defining an op that lacks something its role requires raises a
TypeError that names it; type checkers report it too. docs/roles.md explains what to write.
"""

from __future__ import annotations

from ingot.graph.op import Op
from ingot.graph.roles.assemble import Assemble
from ingot.graph.roles.check import Check
from ingot.graph.roles.composite import Composite
from ingot.graph.roles.control import Control
from ingot.graph.roles.elementary import Elementary
from ingot.graph.roles.elementwise import Elementwise, Pointwise
from ingot.graph.roles.gather import Gather
from ingot.graph.roles.host import Host
from ingot.graph.roles.iota import Iota
from ingot.graph.roles.linear import Linear
from ingot.graph.roles.map import Map, PairedMap
from ingot.graph.roles.products.attend import Attend, AttendBackward
from ingot.graph.roles.products.correlation import Correlation, CorrelationByFilters
from ingot.graph.roles.products.pooling import Pooling, PoolingBackward, PoolingWindows
from ingot.graph.roles.products.product import Product
from ingot.graph.roles.products.quantized_product import QuantizedProduct
from ingot.graph.roles.products.tiled import Tiled
from ingot.graph.roles.reduce import Reduce, Selection
from ingot.graph.roles.scan import Scan
from ingot.graph.roles.scatter import Scatter, SparseSum
from ingot.graph.roles.view import View

# roles that BLAS can compute
OF_BLAS = (Product, Correlation, CorrelationByFilters)

__all__ = [
    "OF_BLAS",
    "ROLES",
    "Assemble",
    "Attend",
    "AttendBackward",
    "Check",
    "Composite",
    "Control",
    "Correlation",
    "CorrelationByFilters",
    "Elementary",
    "Elementwise",
    "Gather",
    "Host",
    "Iota",
    "Linear",
    "Map",
    "PairedMap",
    "Pointwise",
    "Pooling",
    "PoolingBackward",
    "PoolingWindows",
    "Product",
    "QuantizedProduct",
    "Reduce",
    "Scan",
    "Scatter",
    "Selection",
    "SparseSum",
    "Tiled",
    "View",
    "role_of",
]

# Product, Scan, Attend, pooling and the correlations precede Host, which they fall back to.
ROLES: tuple[type[Op], ...] = (
    Map,
    View,
    Reduce,
    Scan,
    Gather,
    Scatter,
    Assemble,
    Iota,
    Check,
    Product,
    Attend,
    Correlation,
    CorrelationByFilters,
    AttendBackward,
    Pooling,
    PoolingBackward,
    Host,
)


def role_of(kind: type[Op]) -> type[Op]:
    """The role of a class of ops."""
    return next(role for role in ROLES if issubclass(kind, role))
