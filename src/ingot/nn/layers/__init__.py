"""Layers and activation functions, one module per family."""

# Not from `activations`, whose submodule `layers` would shadow `nn.layers`.
from ingot.nn.layers.activations.functions import *
from ingot.nn.layers.activations.layers import *
from ingot.nn.layers.base import *
from ingot.nn.layers.containers import *
from ingot.nn.layers.convolution import *
from ingot.nn.layers.distributed import *
from ingot.nn.layers.dropout import *
from ingot.nn.layers.embedding import *
from ingot.nn.layers.linear import *
from ingot.nn.layers.normalization import *
from ingot.nn.layers.pooling import *
from ingot.nn.layers.positional_encoding import *
from ingot.nn.layers.quantized import *
from ingot.nn.layers.recurrent import *
from ingot.nn.layers.transformer import *
from ingot.nn.layers.upsample import *
