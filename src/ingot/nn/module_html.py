"""A module in a notebook: a collapsible tree with the number of parameters of each module.

Names of classes and attributes come from users: everything is escaped.
"""

from __future__ import annotations

import html
from typing import Any

import ingot.core as mx
from ingot.graph.reporting.tables import amount_text
from ingot.utils import tree_flatten

__all__ = ["module_html"]

_STYLE = "list-style:none;margin:0;padding-left:1.2em;font-family:monospace"


def _count_text(arrays: list[mx.array], trainable: int) -> str:
    count = sum(x.size for x in arrays)
    if not count:
        return ""
    nbytes = amount_text(sum(x.nbytes for x in arrays), "B")
    kept = "" if trainable == count else f", {trainable:,} trainable"
    return f"{count:,} parameters{kept}, {nbytes}"


def module_html(module: Any, name: str = "", is_open: bool = True) -> str:
    """A module with its contents; `name` is its name in its parent."""
    parameters = [x for _, x in tree_flatten(module.parameters())]
    trainable = sum(x.size for _, x in tree_flatten(module.trainable_parameters()))
    title = f"{type(module).__name__}({module._extra_repr()})"
    head = html.escape(f"{name}: {title}" if name else title)
    counts = html.escape(_count_text(parameters, trainable))
    children = [
        module_html(child, path, is_open=False)
        for path, child in tree_flatten(module.children(), is_leaf=module.is_module)
        if module.is_module(child)
    ]
    own = module.filter_and_map(
        module.valid_parameter_filter,
        is_leaf_fn=lambda _owner, _key, value: (
            module.is_module(value) or not isinstance(value, (dict, list))
        ),
    )
    arrays = [
        html.escape(f"{path}: {x.dtype.name}{list(x.shape)}")
        for path, x in tree_flatten(own, is_leaf=module.is_module)
        if isinstance(x, mx.array)
    ]
    items = "".join(f"<li>{item}</li>" for item in (*arrays, *children))
    opened = " open" if is_open else ""
    return (
        f"<details{opened}><summary><code>{head}</code> <small>{counts}</small></summary>"
        f'<ul style="{_STYLE}">{items}</ul></details>'
    )
