"""ingot.nn: layers, losses and initialisers, shaped like `mlx.nn`."""

from ingot.nn import init, losses
from ingot.nn.layers import *
from ingot.nn.module import Module as Module
from ingot.nn.utils import average_gradients as average_gradients
from ingot.nn.utils import value_and_grad as value_and_grad
