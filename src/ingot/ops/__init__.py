"""The ops: their classes with all rules, and the functions that users call.

Rules use these functions and the operators of arrays. The modules below register the operators and
are imported first, so that rules work whether or not the public module, which attaches methods to
arrays, is imported.
"""

from ingot.ops.elementwise import arithmetic, bitwise, comparison, powers
from ingot.ops.index import iteration, subscript
from ingot.ops.products import contraction
