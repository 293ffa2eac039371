"""ingot.array_api: a namespace of the Python array API standard, 2024.12, over ingot's arrays.

Example:
    >>> import ingot.array_api as xp
    >>> x = xp.asarray([1.0, 2.0, 3.0])  # float64
    >>> x[x > 1.5]
"""

import math as _math

from ingot.array_api import fft as fft
from ingot.array_api import linalg as linalg
from ingot.array_api.array import Array as Array
from ingot.array_api.creation import *
from ingot.array_api.dtypes import *
from ingot.array_api.elementwise import *
from ingot.array_api.info import __array_namespace_info__ as __array_namespace_info__
from ingot.array_api.linalg import matmul as matmul
from ingot.array_api.linalg import matrix_transpose as matrix_transpose
from ingot.array_api.linalg import tensordot as tensordot
from ingot.array_api.linalg import vecdot as vecdot
from ingot.array_api.manipulation import *
from ingot.array_api.statistics import *

__array_api_version__ = "2024.12"

e = _math.e
inf = _math.inf
nan = _math.nan
newaxis = None
pi = _math.pi
