"""The ops: their classes with all rules, and the functions that users call.

Rules are written with these functions and with operators. The operators of arrays are set by the
modules below, which are imported first: whoever imports an op can use its rules, whether or not the
public module, which attaches methods to arrays, is there.
"""

from ingot.ops.elementwise import arithmetic, bitwise, comparison, powers
from ingot.ops.index import iteration, subscript
from ingot.ops.products import contraction
