"""Hints for names that modules of other libraries have: `mx.cat`, `mx.jit`, `nn.CrossEntropyLoss`.

A public module gets a `__getattr__`, which Python calls for missing names only. It is put into the
namespace instead of being defined there, because type checkers would take every name for valid.
"""

from __future__ import annotations

import sys
from typing import Any

from ingot.graph.reporting.hints import DEVICE, GRADIENT

__all__ = ["CORE", "NN", "OPTIMIZERS", "RANDOM", "MissingNames", "name_missing"]

_RECORDING = (
    "nothing is recorded: `mx.grad(f)` computes the gradients that are asked for, and "
    "`mx.stop_gradient(x)` leaves one out"
)
_LOOPS = "use `mx.scan`, `mx.fori_loop`, `mx.while_loop`, `mx.cond` or `mx.switch`"
_NORMAL = "use `mx.random.normal(shape)`"
_UNIFORM = "use `mx.random.uniform(shape=shape)`"
_SEED = "use `mx.random.seed(0)`"
_JACOBIAN = "map `mx.vjp` or `mx.jvp` over the rows of `mx.eye(n)` with `mx.vmap`"

CORE = {
    "Tensor": "arrays are `mx.array`",
    "absolute": "use `mx.abs(x)`",
    "amax": "use `mx.max(x, axis)`",
    "amin": "use `mx.min(x, axis)`",
    "as_tensor": "use `mx.array(x)`",
    "autograd": GRADIENT,
    "bmm": "use `x @ y`",
    "bool": "use `mx.bool_`",
    "cat": "use `mx.concatenate(arrays, axis)`",
    "clamp": "use `mx.clip(x, low, high)`",
    "device": DEVICE,
    "device_get": "use `np.array(x)`",
    "device_put": DEVICE,
    "dot": "use `x @ y` or `mx.inner(x, y)`",
    "double": "use `mx.float64`",
    "enable_grad": _RECORDING,
    "float": "use `mx.float32`",
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
    "long": "use `mx.int64`",
    "manual_seed": _SEED,
    "masked_fill": "use `mx.where(mask, value, x)`",
    "mm": "use `x @ y`",
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
    "tensor": "use `mx.array(x)`",
    "unsqueeze": "use `mx.expand_dims(x, axis)`",
    "vstack": "use `mx.concatenate(arrays, axis=0)`",
}

RANDOM = {
    "PRNGKey": "use `mx.random.key(0)`",
    "choice": "use `x[mx.random.randint(0, len(x), (n,))]`, or `mx.random.permutation(x)[:n]`",
    "default_rng": f"{_SEED}, or give functions `key=mx.random.key(0)`",
    "fold_in": "use `mx.random.split(key, n)[i]`",
    "manual_seed": _SEED,
    "rand": _UNIFORM,
    "randn": _NORMAL,
    "shuffle": "use `mx.random.permutation(x)`",
}


def _loss(call: str) -> str:
    return f"losses are functions: `nn.losses.{call}`"


NN = {
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
}

OPTIMIZERS = {
    "CosineAnnealingLR": "use `optim.cosine_decay(0.1, 100)` for the learning rate",
    "ExponentialLR": "use `optim.exponential_decay(0.1, 0.99)` for the learning rate",
    "LinearLR": "use `optim.linear_schedule(0.0, 0.1, 100)` for the learning rate",
    "StepLR": "use `optim.step_decay(0.1, 0.9, 10)` for the learning rate",
    "adam": "use `optim.Adam(0.001)`",
    "adamw": "use `optim.AdamW(0.001)`",
    "apply_updates": "`update` of an optimizer changes the model: `optimizer.update(model, grads)`",
    "lr_scheduler": "schedules are functions, given as the learning rate: `optim.cosine_decay`",
    "sgd": "use `optim.SGD(0.1)`",
}

HINTS = {
    "ingot.core": CORE,
    "ingot.core.random": RANDOM,
    "ingot.nn": NN,
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
