"""`nn.Module`: the base of all layers and models.

A module is a dict: attributes that are arrays, modules, or lists, tuples and dicts of them are
stored as its items, so that a model is a tree whose leaves are its parameters; all other attributes
are ordinary.
"""

from __future__ import annotations

import os
import textwrap
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self

import ingot.core as mx
from ingot._native import item_as_attribute
from ingot.graph.boundary import at_boundary
from ingot.graph.errors import type_name
from ingot.graph.reporting.hints import MODULE, add_hints, raise_not_callable
from ingot.nn.module_html import module_html
from ingot.nn.selection import Filter, is_no_container, selected
from ingot.nn.substitution import (
    call_lent,
    call_unchanged,
    module_replacements,
    parameter_replacements,
    replace,
)
from ingot.nn.weights import check_weights, parameter_slots
from ingot.runtime.watched import watch_always
from ingot.utils import tree_flatten

__all__ = ["Module"]


@watch_always
class Module(dict[str, Any]):
    """The base class of layers and models.

    A subclass calls `super().__init__()`, sets its parameters and layers as attributes, and defines
    `__call__`. Parameters are arrays; layers are modules; both may sit in nested lists and dicts.
    Names that begin with an underscore are not parameters.

    Example:
        >>> class Perceptron(nn.Module):
        ...     def __init__(self, inputs, hidden, outputs):
        ...         super().__init__()
        ...         self.layers = [nn.Linear(inputs, hidden), nn.Linear(hidden, outputs)]
        ...
        ...     def __call__(self, x):
        ...         return self.layers[1](nn.relu(self.layers[0](x)))
    """

    __call__: Any = raise_not_callable  # what layers take differs; Any lets them override it

    _is_tree = True  # compiled functions observe which items they read

    # Names that `unfreeze` leaves frozen; subclasses may override it.
    _always_frozen: frozenset[str] = frozenset()

    def __init__(self) -> None:
        self._no_grad: set[str] = set()
        self._training = True

    @property
    def training(self) -> bool:
        """Whether the module is in training mode."""
        return self._training

    @property
    def state(self) -> Self:
        """The module's arrays and layers, parameters or not, as a dict: the module itself."""
        return self

    # Attributes

    if TYPE_CHECKING:

        def __getattr__(self, key: str) -> Any: ...

    else:
        # Called if there is no other attribute of that name; an item that is None is not one.
        __getattr__ = item_as_attribute

    def __setattr__(self, key: str, value: Any) -> None:
        if not isinstance(value, (mx.array, dict, list, tuple)):
            super().__setattr__(key, value)
            self.pop(key, None)
            return
        if key not in self and hasattr(self, key):
            if hasattr(dict, key):
                name = type(self).__name__
                raise AttributeError(f"[{name}] {key!r} is a method of modules, which are dicts.")
            delattr(self, key)  # an ordinary attribute would shadow the item
        self[key] = value

    def __delattr__(self, key: str) -> None:
        if self.get(key) is None:
            super().__delattr__(key)
        else:
            del self[key]

    def __missing__(self, key: Any) -> Any:
        """Called if there is no such item; numbers are meant for a list of layers."""
        if not isinstance(key, int):
            raise KeyError(key)
        lists = [name for name, value in self.items() if isinstance(value, (list, tuple))]
        hint = f": use model.{lists[0]}[{key}]" if lists else ""
        raise KeyError(f"[{type(self).__name__}] a module has its items by name, not {key}{hint}.")

    # Printing

    def _extra_repr(self) -> str:
        """The text in parentheses after the class name; subclasses may override it."""
        return ""

    def __repr__(self) -> str:
        lines = [
            textwrap.indent(f"({path}): {child!r}", "  ")
            for path, child in tree_flatten(self.children(), is_leaf=self.is_module)
        ]
        head = f"{type(self).__name__}({self._extra_repr()}"
        return "\n".join([head, *lines, ")"]) if lines else f"{head})"

    def _repr_html_(self) -> str:
        return module_html(self)

    # Traversal

    @staticmethod
    def is_module(value: Any) -> bool:
        """Whether `value` is a module."""
        return isinstance(value, Module)

    @staticmethod
    def valid_child_filter(module: Module, key: str, value: Any) -> bool:
        """A filter for values that may be or contain a module."""
        return isinstance(value, (dict, list))

    @staticmethod
    def valid_parameter_filter(module: Module, key: str, value: Any) -> bool:
        """A filter for values that may be or contain a parameter."""
        return isinstance(value, (dict, list, mx.array)) and not key.startswith("_")

    @staticmethod
    def trainable_parameter_filter(module: Module, key: str, value: Any) -> bool:
        """A filter for values that may be or contain a parameter that is not frozen."""
        return Module.valid_parameter_filter(module, key, value) and key not in module._no_grad

    def filter_and_map(
        self,
        filter_fn: Filter,
        map_fn: Callable[[Any], Any] | None = None,
        is_leaf_fn: Filter | None = None,
    ) -> dict[str, Any]:
        """A tree of dicts and lists with the contents of the module that pass a filter.

        Args:
            filter_fn: Whether to keep a value, given the module that holds it, its key and the
                value. The key of an item of a list or dict is the path from the module, such as
                `weights.0`.
            map_fn: What to put in place of a leaf.
            is_leaf_fn: Whether a value is a leaf, given the same. By default modules, dicts and
                lists are not.
        """
        is_leaf = is_leaf_fn or is_no_container
        return {
            key: selected(self, key, value, filter_fn, map_fn, is_leaf)
            for key, value in self.items()
            if filter_fn(self, key, value)
        }

    def parameters(self) -> dict[str, Any]:
        """All parameters, as a tree of dicts and lists."""
        return self.filter_and_map(self.valid_parameter_filter)

    def trainable_parameters(self) -> dict[str, Any]:
        """The parameters that are not frozen, as a tree of dicts and lists."""
        return self.filter_and_map(self.trainable_parameter_filter)

    def children(self) -> dict[str, Any]:
        """The modules directly in this one, as a tree of dicts and lists."""
        return self.filter_and_map(
            self.valid_child_filter, is_leaf_fn=lambda _module, _key, value: self.is_module(value)
        )

    def leaf_modules(self) -> dict[str, Any]:
        """The modules that hold no other modules, as a tree of dicts and lists."""

        def is_leaf_module(_module: Module, _key: str, value: Any) -> bool:
            return isinstance(value, Module) and not tree_flatten(value.children())

        return self.filter_and_map(self.valid_child_filter, is_leaf_fn=is_leaf_module)

    def modules(self) -> list[Module]:
        """This module and all modules in it."""
        return [module for _, module in self.named_modules()]

    def named_modules(self) -> list[tuple[str, Module]]:
        """This module and all modules in it with their paths; its own path is empty."""
        found: list[tuple[str, Module]] = []
        self.apply_to_modules(lambda path, module: found.append((path, module)))
        return found

    def apply_to_modules(self, apply_fn: Callable[[str, Module], Any]) -> Self:
        """Call a function with the path and the module, for this module and all modules in it.

        Args:
            apply_fn: A function of the path, such as `layers.0.attention`, and the module.

        Returns:
            The module itself.
        """
        waiting: list[tuple[str, Module]] = [("", self)]
        while waiting:
            path, module = waiting.pop()
            apply_fn(path, module)
            prefix = f".{path}" if path else ""
            waiting.extend(tree_flatten(module.children(), prefix, self.is_module))
        return self

    # Updates

    def update(self, parameters: Any, strict: bool = True) -> Self:  # type: ignore[override]
        """Replace parameters.

        Args:
            parameters: A tree like that of `parameters()`, or a subtree of one.
            strict: Whether an unknown name is an error, which leaves the module unchanged.

        Returns:
            The module itself.
        """
        replace(parameter_replacements(self, parameters, strict))
        return self

    def update_modules(self, modules: Any, strict: bool = True) -> Self:
        """Replace modules in this one.

        Args:
            modules: A tree like that of `children()` or `leaf_modules()`, or a subtree of one.
            strict: Whether an unknown name is an error, which leaves the module unchanged.

        Returns:
            The module itself.
        """
        replace(module_replacements(self, modules, strict, self.is_module))
        return self

    def apply(self, map_fn: Any, *inputs: Any, **keywords: Any) -> Any:
        """Map all parameters; or call the module with other parameters than its own.

        `apply(map_fn, filter_fn=None)` replaces each parameter, or each array that the filter lets
        through, by `map_fn` of it and returns the module.

        `apply(parameters, *inputs, **keywords)`, where `parameters` is a tree like that of
        `parameters()` or a part of one, returns what the module returns for the inputs when it has
        those parameters. It is pure: the module is afterwards what it was, running statistics
        included. This is the form for `mx.grad`, `mx.vmap` and `mx.compile` of functions of
        parameters.

        Example:
            >>> model.apply(lambda x: x.astype(mx.float16))
            >>> mx.grad(lambda parameters: model.apply(parameters, x).sum())(model.parameters())
        """
        if isinstance(map_fn, (dict, list)) and not self.is_module(map_fn):
            return call_unchanged(self, call_lent, self, map_fn, self, *inputs, **keywords)
        if len(inputs) > 1 or set(keywords) - {"filter_fn"}:
            raise TypeError(
                "[apply] takes a function and a filter, or parameters and what the module is "
                f"called with; got {type_name(map_fn)} and further arguments."
            )
        return self._map_parameters(map_fn, *inputs, **keywords)

    def _map_parameters(
        self, map_fn: Callable[[mx.array], mx.array], filter_fn: Filter | None = None
    ) -> Self:
        self.update(self.filter_and_map(filter_fn or self.valid_parameter_filter, map_fn))
        return self

    def set_dtype(
        self,
        dtype: mx.Dtype,
        predicate: Callable[[mx.Dtype], bool] | None = lambda x: mx.issubdtype(x, mx.floating),
    ) -> None:
        """Convert the parameters.

        Args:
            dtype: The new dtype.
            predicate: Which dtypes to convert: floating-point ones by default, all if it is None.
        """
        self.apply(lambda x: x.astype(dtype) if predicate is None or predicate(x.dtype) else x)

    # Training

    def freeze(
        self,
        *,
        recurse: bool = True,
        keys: str | Sequence[str] | None = None,
        strict: bool = False,
    ) -> Self:
        """Exclude parameters from training: they get no gradients.

        Args:
            recurse: Whether to do so in all modules in this one too.
            keys: The names of the parameters to freeze, in each module; all by default.
            strict: Whether it is an error if no module has one of the keys.

        Returns:
            The module itself.
        """
        names = self._checked_keys(keys, recurse, strict)

        def freeze_one(_path: str, module: Module) -> None:
            module._no_grad.update(_own_parameter_names(module) if names is None else names)

        return self._apply_to(freeze_one, recurse)

    def unfreeze(
        self,
        *,
        recurse: bool = True,
        keys: str | Sequence[str] | None = None,
        strict: bool = False,
    ) -> Self:
        """Include parameters in training again; the opposite of `freeze`.

        Args:
            recurse: Whether to do so in all modules in this one too.
            keys: The names of the parameters to unfreeze, in each module; all by default.
            strict: Whether it is an error if no module has one of the keys.

        Returns:
            The module itself.
        """
        names = self._checked_keys(keys, recurse, strict)

        def unfreeze_one(_path: str, module: Module) -> None:
            thawed = module._no_grad if names is None else names
            module._no_grad = module._no_grad.difference(thawed) | module._always_frozen

        return self._apply_to(unfreeze_one, recurse)

    def _apply_to(self, change: Callable[[str, Module], Any], recurse: bool) -> Self:
        if recurse:
            return self.apply_to_modules(change)
        change("", self)
        return self

    def _checked_keys(
        self, keys: str | Sequence[str] | None, recurse: bool, strict: bool
    ) -> list[str] | None:
        if keys is None:
            return None
        names = [keys] if isinstance(keys, str) else list(keys)
        if not strict:
            return names
        candidates = self.modules() if recurse else [self]
        for name in names:
            # "bias" need not be in every module, but it should be in one.
            if not any(name in module for module in candidates):
                raise KeyError(f"[Module] {type(self).__name__} has no member {name}.")
        return names

    def train(self, mode: bool = True) -> Self:
        """Set the training mode of this module and all modules in it, which affects dropout, for
        example.

        Args:
            mode: Whether to train (True) or to evaluate (False).

        Returns:
            The module itself.
        """
        return self.apply_to_modules(lambda _path, module: module._set_training_mode(mode))

    def eval(self) -> Self:
        """Same as `train(False)`."""
        return self.train(False)

    def _set_training_mode(self, mode: bool) -> None:
        """Called by `train` for each module; subclasses may extend it."""
        self._training = mode

    # Files

    def load_weights(
        self,
        file_or_weights: str | os.PathLike[str] | Sequence[tuple[str, Any]] | dict[str, Any],
        strict: bool = True,
    ) -> Self:
        """Replace parameters by those of a file or a list. An error leaves the module as it was.

        Args:
            file_or_weights: The path of an `.npz` or `.safetensors` file, or pairs of a path in the
                module, such as `layers.0.weight`, and an array, in a list or a dict.
            strict: Whether names and shapes must be exactly those of the module. Otherwise what the
                module does not have is left out, and shapes are not compared.

        Returns:
            The module itself.
        """
        if isinstance(file_or_weights, (str, os.PathLike)):
            weights = dict(mx.load(os.fspath(file_or_weights)))
        else:
            weights = dict(file_or_weights)
        parameters = self.parameters()
        if strict:
            check_weights(weights, tree_flatten(parameters, destination={}))
        replace(
            (container, key, weights[path])
            for path, container, key in parameter_slots(self, parameters)
            if path in weights
        )
        return self

    def save_weights(self, file: str | os.PathLike[str]) -> None:
        """Write all parameters to a file.

        Args:
            file: The path, which ends with `.npz` or `.safetensors` and so chooses the format.
        """
        path = os.fspath(file)
        weights = tree_flatten(self.parameters(), destination={})
        if path.endswith(".npz"):
            mx.savez(path, **weights)
        elif path.endswith(".safetensors"):
            mx.save_safetensors(path, weights)
        else:
            raise ValueError(
                f"[save_weights] cannot tell the format from {path!r}: "
                "use a name that ends with .npz or .safetensors."
            )


def _own_parameter_names(module: Module) -> list[str]:
    """The paths of the parameters that are not in a submodule."""

    def is_own(holder: Module, key: str, value: Any) -> bool:
        return not isinstance(value, Module) and holder.valid_parameter_filter(holder, key, value)

    return [path for path, _ in tree_flatten(module.filter_and_map(is_own))]


add_hints(Module, MODULE)
# Layers without parameters of their own name themselves in errors, too: `nn.ReLU(inplace=True)`.
setattr(Module, "__init__", at_boundary(Module.__init__, "__init__"))  # noqa: B010
