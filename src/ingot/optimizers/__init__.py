"""ingot.optimizers: optimizers, schedules of learning rates and clipping, like `mlx.optimizers`."""

from ingot.graph.boundary import check_classes as _check_classes
from ingot.graph.boundary import check_functions as _check_functions
from ingot.graph.reporting.foreign import name_missing as _name_missing
from ingot.optimizers.adafactor import *
from ingot.optimizers.adaptive import *
from ingot.optimizers.base import *
from ingot.optimizers.clipping import *
from ingot.optimizers.momentum import *
from ingot.optimizers.multiple import *
from ingot.optimizers.schedulers import *

_public = [_name for _name in globals() if not _name.startswith("_")]
_check_functions(globals(), _public)
_check_classes(globals(), _public, "__init__ apply_gradients init update")
_name_missing(globals())
