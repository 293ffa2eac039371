"""ingot.nn: layers, losses and initialisers, with the API of `mlx.nn`."""

from ingot.graph.boundary import check_classes as _check_classes
from ingot.graph.boundary import check_functions as _check_functions
from ingot.graph.reporting.foreign import name_missing as _name_missing
from ingot.nn import init, losses
from ingot.nn.layers import *
from ingot.nn.module import Module as Module
from ingot.nn.utils import average_gradients as average_gradients
from ingot.nn.utils import value_and_grad as value_and_grad

_public = [_name for _name in globals() if not _name.startswith("_")]
_check_functions(globals(), _public, converts=True)
_check_functions(vars(losses), losses.__all__, converts=True)
_check_functions(vars(init), init.__all__)
_check_classes(globals(), _public, "__init__ __call__ as_linear", converts=True)
_check_classes(
    globals(),
    ["Module"],
    "apply apply_to_modules filter_and_map freeze load_weights save_weights set_dtype train "
    "unfreeze update update_modules",
)
_name_missing(globals())
