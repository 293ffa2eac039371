"""Activations, as functions and as layers."""

from ingot.nn.layers.activations import functions, layers
from ingot.nn.layers.activations.functions import *
from ingot.nn.layers.activations.layers import *

# Not the names of the two modules: `layers` would shadow `nn.layers`.
__all__: list[str] = []
__all__ += functions.__all__
__all__ += layers.__all__
