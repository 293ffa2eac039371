"""Activations, as functions and as layers."""

from ingot.nn.layers.activations.functions import *
from ingot.nn.layers.activations.layers import *
