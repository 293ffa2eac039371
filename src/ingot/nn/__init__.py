"""ingot.nn: layers, losses and initialisers, shaped like `mlx.nn`."""

from ingot.nn import init, losses
from ingot.nn.layers import *
from ingot.nn.module import Module
from ingot.nn.utils import average_gradients, value_and_grad
