"""ingot.core: the public module, shaped like `mlx.core`. It re-exports; the logic lives below."""

from ingot.core.array import array
from ingot.graph.device import *
from ingot.graph.dtype import *
from ingot.ops.arithmetic import *
from ingot.ops.bitwise import *
from ingot.ops.casting import *
from ingot.ops.comparison import *
from ingot.ops.complex_numbers import *
from ingot.ops.contraction import *
from ingot.ops.creation import *
from ingot.ops.diagonals import *
from ingot.ops.einstein import *
from ingot.ops.exponential import *
from ingot.ops.indexing import *
from ingot.ops.joining import *
from ingot.ops.movement import *
from ingot.ops.reduction import *
from ingot.ops.rounding import *
from ingot.ops.scan import *
from ingot.ops.sorting import *
from ingot.ops.statistics import *
from ingot.ops.subscript import *
from ingot.ops.trigonometry import *
from ingot.runtime.evaluate import *
