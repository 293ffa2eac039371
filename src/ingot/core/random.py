"""mlx.core.random: keys, the state, and random numbers of many distributions."""

from ingot.graph.boundary import check_functions as _check_functions
from ingot.graph.reporting.foreign import name_missing as _name_missing
from ingot.ops.random.choices import bernoulli, categorical, permutation, randint
from ingot.ops.random.distributions import gumbel, laplace, normal, truncated_normal, uniform
from ingot.ops.random.state import key, seed, split, state
from ingot.ops.random.vectors import multivariate_normal

__all__ = [
    "bernoulli",
    "categorical",
    "gumbel",
    "key",
    "laplace",
    "multivariate_normal",
    "normal",
    "permutation",
    "randint",
    "seed",
    "split",
    "state",
    "truncated_normal",
    "uniform",
]

_check_functions(globals(), __all__)
_name_missing(globals())
