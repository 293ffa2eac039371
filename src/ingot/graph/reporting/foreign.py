"""Hints for names that modules of other libraries have: `mx.cat`, `mx.jit`, `nn.CrossEntropyLoss`.

A public module gets a `__getattr__`, which Python calls for missing names only. It is put into the
namespace instead of being defined there, because type checkers would take every name for valid.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

from ingot.graph.reporting.hints import DEVICE, GRADIENT

__all__ = ["HINTS", "MissingNames", "name_missing", "whole_package_error"]

_RECORDING = (
    "nothing is recorded: `mx.grad(f)` computes the gradients that are asked for, and "
    "`mx.stop_gradient(x)` leaves one out"
)
_LOOPS = "use `mx.scan`, `mx.fori_loop`, `mx.while_loop`, `mx.cond` or `mx.switch`"
_NORMAL = "use `mx.random.normal(shape)`"
_UNIFORM = "use `mx.random.uniform(shape=shape)`"
_SEED = "use `mx.random.seed(0)`"
_ON_HOST = "NumPy has it: `np.{}` takes arrays, outside of compiled functions"
_TREES = "trees are in `ingot.utils`: `ingot.utils.tree_map`"
_JACOBIAN = "map `mx.vjp` or `mx.jvp` over the rows of `mx.eye(n)` with `mx.vmap`"

# Functions of NumPy that are not here.
_OF_NUMPY = """
    apply_along_axis bincount corrcoef correlate cov digitize gradient histogram interp percentile
    polyfit polyval quantile setdiff1d
""".split()

CORE = {
    **{name: _ON_HOST.format(name) for name in _OF_NUMPY},
    "FloatTensor": "use `mx.array(x)`",
    "LongTensor": "use `mx.array(x, mx.int64)`",
    "Tensor": "arrays are `mx.array`",
    "absolute": "use `mx.abs(x)`",
    "amax": "use `mx.max(x, axis)`",
    "amin": "use `mx.min(x, axis)`",
    "as_tensor": "use `mx.array(x)`",
    "asnumpy": "use `np.array(x)`",
    "autograd": GRADIENT,
    "bernoulli": "use `mx.random.bernoulli(p)`",
    "bitwise_not": "use `mx.bitwise_invert(indices)`",
    "block_until_ready": "use `mx.eval(x)`",
    "bmm": "use `x @ y`",
    "bool": "use `mx.bool_`",
    "cat": "use `mx.concatenate(arrays, axis)`",
    "chunk": "use `mx.split(x, n, axis)`",
    "clamp": "use `mx.clip(x, low, high)`",
    "column_stack": "use `mx.stack(arrays, axis=1)`, or `mx.concatenate(arrays, axis=1)`",
    "copy": "use `mx.array(x)`; arrays never share later changes",
    "cross": "use `mx.linalg.cross`",
    "custom_jvp": "use `mx.custom_function(f)`",
    "custom_vjp": "use `mx.custom_function(f)`",
    "device": DEVICE,
    "device_get": "use `np.array(x)`",
    "device_put": DEVICE,
    "dot": "use `x @ y` or `mx.inner(x, y)`",
    "double": "use `mx.float64`",
    "dstack": "use `mx.concatenate(arrays, axis=-1)` of arrays with three axes",
    "dtype": "dtypes are `mx.Dtype`: `mx.float32`, `x.dtype`",
    "enable_grad": _RECORDING,
    "flatnonzero": "use `mx.nonzero(mx.flatten(x))[0]`",
    "float": "use `mx.float32`",
    "float128": "`mx.float64` is the longest",
    "from_numpy": "use `mx.array(x)`",
    "gather": "use `mx.take_along_axis(x, indices, axis)`",
    "half": "use `mx.float16`",
    "hessian": _JACOBIAN,
    "hstack": "use `mx.concatenate(arrays, axis=1)`",
    "index_select": "use `mx.take(x, indices, axis)`",
    "inference_mode": _RECORDING,
    "int": "use `mx.int32`",
    "is_tensor": "use `isinstance(x, mx.array)`",
    "jacfwd": _JACOBIAN,
    "jacrev": _JACOBIAN,
    "jit": "use `mx.compile(f)`",
    "lax": _LOOPS,
    "lerp": "use `x + (y - x) * p`",
    "long": "use `mx.int64`",
    "manual_seed": _SEED,
    "masked_fill": "use `mx.where(mask, value, x)`",
    "mm": "use `x @ y`",
    "multinomial": "use `mx.random.categorical(mx.log(p), num_samples=n)`",
    "nanmax": "use `mx.max(mx.where(mx.isnan(x), -mx.inf, x))`",
    "nanmean": "use `mx.sum(mx.nan_to_num(x)) / mx.sum(mx.logical_not(mx.isnan(x)))`",
    "nansum": "use `mx.sum(mx.nan_to_num(x))`",
    "ndarray": "arrays are `mx.array`",
    "nn": "layers are in `ingot.nn`",
    "no_grad": _RECORDING,
    "norm": "use `mx.linalg.norm(x)`",
    "numel": "use `x.size`",
    "numpy": "functions are in `mx` itself, under NumPy's names",
    "optim": "optimizers are in `ingot.optimizers`",
    "permute": "use `mx.transpose(x, axes)`",
    "pmap": "use `mx.distributed`, and `mx.vmap(f)` in a process",
    "rand": _UNIFORM,
    "randint": "use `mx.random.randint(0, 10, shape)`",
    "randn": _NORMAL,
    "randn_like": "use `mx.random.normal(x.shape)`",
    "randperm": "use `mx.random.permutation(n)`",
    "ravel": "use `mx.flatten(x)`",
    "relu": "use `nn.relu(x)`",
    "scatter": "use `mx.put_along_axis`, or `x.at[i].add(y[0])`",
    "set_default_dtype": "functions take a dtype: `mx.zeros(shape, mx.float64)`",
    "set_grad_enabled": _RECORDING,
    "shard_map": "use `mx.distributed`",
    "tensor": "use `mx.array(x)`",
    "testing": "use `mx.allclose(x, y)`, or `np.testing` with the arrays",
    "to_numpy": "use `np.array(x)`",
    "tree_map": _TREES,
    "tree_util": _TREES,
    "unsqueeze": "use `mx.expand_dims(x, axis)`",
    "utils": "trees are in `ingot.utils`; batches are slices: `x[i : i + n]`",
    "vectorize": "use `mx.vmap(f)`",
    "vstack": "use `mx.concatenate(arrays, axis=0)`",
}

RANDOM = {
    **{
        name: f"NumPy has it: `mx.array(np.random.default_rng(0).{name}{arguments})`"
        for name, arguments in (
            ("beta", "(1, 2, shape)"),
            ("binomial", "(9, 0.5, shape)"),
            ("dirichlet", "((1, 2), shape)"),
            ("gamma", "(1, size=shape)"),
            ("poisson", "(1, shape)"),
        )
    },
    "PRNGKey": "use `mx.random.key(0)`",
    "choice": "use `x[mx.random.randint(0, len(x), (n,))]`, or `mx.random.permutation(x)[:n]`",
    "default_rng": f"{_SEED}, or give functions `key=mx.random.key(0)`",
    "exponential": "use `-mx.log1p(-mx.random.uniform(shape=shape))`",
    "fold_in": "use `mx.random.split(key, n)[i]`",
    "get_state": "use `mx.random.state`",
    "integers": "use `mx.random.randint(0, 10, shape)`",
    "manual_seed": _SEED,
    "rand": _UNIFORM,
    "randn": _NORMAL,
    "multinomial": "use `mx.random.categorical(mx.log(p), num_samples=n)`",
    "random": _UNIFORM,
    "sample": _UNIFORM,
    "set_state": "assign to the items of `mx.random.state`",
    "shuffle": "use `mx.random.permutation(x)`",
    "standard_normal": _NORMAL,
}

LINALG = {
    "lstsq": "use `mx.linalg.pinv(x) @ y`, or `mx.linalg.qr` and `mx.linalg.solve_triangular`",
    "matrix_power": "multiply: `x @ x`",
    "matrix_rank": "use `mx.sum(mx.linalg.svd(x, compute_uv=False) > 1e-5)`",
}


def _loss(call: str) -> str:
    return f"losses are functions: `nn.losses.{call}`"


NN = {
    "AdaptiveAvgPool2d": "use `mx.mean(x, axis=(0, 1))` over height and width",
    "BCELoss": _loss("binary_cross_entropy(p, y, with_logits=False)"),
    "BCEWithLogitsLoss": _loss("binary_cross_entropy(x, y)"),
    "BatchNorm1d": "use `nn.BatchNorm(n)`",
    "BatchNorm2d": "use `nn.BatchNorm(n)`",
    "CosineSimilarity": _loss("cosine_similarity_loss(x, y)"),
    "CrossEntropyLoss": _loss("cross_entropy(x, classes)"),
    "DataParallel": "use `mx.distributed` and `nn.average_gradients`",
    "Dense": "use `nn.Linear(n, n)`",
    "Flatten": "use `mx.flatten(x, start_axis=1)`",
    "HuberLoss": _loss("huber_loss(x, y)"),
    "KLDivLoss": _loss("kl_div_loss(x, y)"),
    "L1Loss": _loss("l1_loss(x, y)"),
    "MSELoss": _loss("mse_loss(x, y)"),
    "ModuleDict": "assign a dict: its modules are found",
    "ModuleList": "assign a list, `self.layers = [...]`: its modules are found",
    "MultiheadAttention": "use `nn.MultiHeadAttention(n, 1)`",
    "NLLLoss": _loss("nll_loss(x, classes)"),
    "Parameter": "assign the array itself, `self.weight = mx.zeros(shape)`; `freeze` what is fixed",
    "SmoothL1Loss": _loss("smooth_l1_loss(x, y)"),
    "Swish": "use `nn.SiLU()`",
    "functional": "functions such as `nn.relu` are in `nn` itself, losses in `nn.losses`",
    "grad": "use `nn.value_and_grad(model, loss)`",
    "parameter": "assign the array itself: it is a parameter",
}

LOSSES = {
    "CrossEntropyLoss": NN["CrossEntropyLoss"],
    "MSELoss": NN["MSELoss"],
    "bce_loss": _loss("binary_cross_entropy(x, y)"),
    "bce_with_logits": _loss("binary_cross_entropy(x, y)"),
    "mse": _loss("mse_loss(x, y)"),
}

_IN_PLACE = "initializers return an array: `layer.weight = nn.init.{}()(layer.weight)`"

INIT = {
    "constant_": "initializers return an array: `nn.init.constant(0.5)(x)`",
    "kaiming_normal_": _IN_PLACE.format("he_normal"),
    "kaiming_uniform_": _IN_PLACE.format("he_uniform"),
    "normal_": _IN_PLACE.format("normal"),
    "ones_": "initializers return an array: `nn.init.constant(1.0)(x)`",
    "orthogonal_": _IN_PLACE.format("orthogonal"),
    "uniform_": _IN_PLACE.format("uniform"),
    "xavier_normal_": _IN_PLACE.format("glorot_normal"),
    "xavier_uniform_": _IN_PLACE.format("glorot_uniform"),
    "zeros_": "initializers return an array: `nn.init.constant(0.0)(x)`",
}

_CLIP = "use `optim.clip_grad_norm`, which returns what it has clipped and the norm"

UTILS = {"clip_grad_norm": _CLIP, "clip_grad_norm_": _CLIP}

OPTIMIZERS = {
    "CosineAnnealingLR": "use `optim.cosine_decay(0.1, 100)` for the learning rate",
    "ExponentialLR": "use `optim.exponential_decay(0.1, 0.99)` for the learning rate",
    "LBFGS": "SciPy has it: scipy.optimize.minimize, with gradients of `mx.value_and_grad`",
    "LinearLR": "use `optim.linear_schedule(0.0, 0.1, 100)` for the learning rate",
    "NAdam": "use `optim.Adam(0.001)`",
    "RAdam": "use `optim.Adam(0.001)`",
    "ReduceLROnPlateau": "assign to `optimizer.learning_rate`",
    "StepLR": "use `optim.step_decay(0.1, 0.9, 10)` for the learning rate",
    "adam": "use `optim.Adam(0.001)`",
    "adamw": "use `optim.AdamW(0.001)`",
    "apply_updates": "`update` of an optimizer changes the model: `optimizer.update(model, grads)`",
    "chain": "use `optim.clip_grad_norm` on the gradients, then an optimizer",
    "clip_by_global_norm": _CLIP,
    "clip_grad_norm_": _CLIP,
    "lr_scheduler": "schedules are functions, given as the learning rate: `optim.cosine_decay`",
    "sgd": "use `optim.SGD(0.1)`",
}

HINTS = {
    "ingot.core": CORE,
    "ingot.core.linalg": LINALG,
    "ingot.core.random": RANDOM,
    "ingot.nn": NN,
    "ingot.nn.init": INIT,
    "ingot.nn.losses": LOSSES,
    "ingot.nn.utils": UTILS,
    "ingot.optimizers": OPTIMIZERS,
}


class MissingNames:
    """The `__getattr__` of a public module. `hints` serve `install_as_mlx` too, which names the
    module differently.
    """

    def __init__(self, module: str) -> None:
        self.module = module
        self.hints = HINTS[module]

    def provide(self, name: str) -> Any:
        """The value of a name that the module adds to its namespace on first use, or None."""
        return None

    def __call__(self, name: str) -> Any:
        found = self.provide(name)
        if found is not None:
            return found
        message = f"module {self.module!r} has no attribute {name!r}"
        if name in self.hints:
            raise AttributeError(f"{message}: {self.hints[name]}.")
        # With the object, Python proposes the nearest name.
        raise AttributeError(message, name=name, obj=sys.modules.get(self.module))


def name_missing(namespace: dict[str, Any]) -> None:
    """Make a public module answer names of other libraries with hints."""
    namespace["__getattr__"] = MissingNames(namespace["__name__"])


def whole_package_error(name: str) -> AttributeError:
    """The error for a name that `ingot` itself does not have, and `ingot.core` may have."""
    core = importlib.import_module("ingot.core")
    hint = CORE.get(name)
    if hint is None and hasattr(core, name):
        hint = f"it is in `ingot.core`: `import ingot.core as mx`, then `mx.{name}`"
    end = f": {hint}." if hint else ""
    return AttributeError(f"module 'ingot' has no attribute {name!r}{end}", name=name)
