"""ingot.optimizers: optimizers, schedules of learning rates and clipping, like `mlx.optimizers`."""

from ingot.optimizers.adafactor import *
from ingot.optimizers.adaptive import *
from ingot.optimizers.base import *
from ingot.optimizers.clipping import *
from ingot.optimizers.momentum import *
from ingot.optimizers.multiple import *
from ingot.optimizers.schedulers import *
