"""Modules in notebooks: a tree with the numbers of parameters."""

from __future__ import annotations

import re

import mlx.core
import mlx.nn
import mlx.utils
from tests.support.parsed_html import ParsedHTML

import ingot.core as mx
import ingot.nn as nn


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = [nn.Linear(width, width), nn.Dropout(0.5)]
        self.heads = {"<b>": nn.Linear(width, 1, bias=False)}
        self.scale = mx.ones(width)
        self.extra = [mx.zeros(2), mx.zeros(3)]
        self._hidden = mx.zeros(99)

    def _extra_repr(self) -> str:
        return "<script>alert(1)</script>"


def test_the_tree_has_all_modules_and_parameters() -> None:
    model = nn.Sequential(Block(4), nn.LayerNorm(4))
    page = ParsedHTML(model._repr_html_())
    assert page.tags == {"details", "summary", "code", "small", "ul", "li"}
    assert page.texts_in("code") == [
        "Sequential()",
        "layers.0: Block(<script>alert(1)</script>)",
        "layers.0: Linear(input_dims=4, output_dims=4, bias=True)",
        "layers.1: Dropout(p=0.5)",
        "heads.<b>: Linear(input_dims=4, output_dims=1, bias=False)",
        "layers.1: LayerNorm(4, eps=1e-05, affine=True)",
    ]
    assert {"scale: float32[4]", "extra.0: float32[2]", "extra.1: float32[3]"} <= set(
        page.texts_in("li")
    )
    # 20 and 4 of the linear layers, 9 of the block itself, 8 of the norm
    assert page.texts_in("small")[0] == "41 parameters, 164 B"
    model.layers[0].freeze(recurse=False)
    assert ParsedHTML(model._repr_html_()).texts_in("small")[0] == (
        "41 parameters, 32 trainable, 164 B"
    )


def test_counts_and_text_are_those_of_mlx() -> None:
    ours = nn.TransformerEncoder(2, 8, 2, 16)
    theirs = mlx.nn.TransformerEncoder(2, 8, 2, 16)
    count = sum(x.size for _, x in mlx.utils.tree_flatten(theirs.parameters()))
    page = ParsedHTML(ours._repr_html_())
    assert page.texts_in("small")[0].startswith(f"{count:,} parameters, ")
    assert repr(ours) == repr(theirs)
    modules = len(theirs.modules())
    assert len(page.texts_in("code")) == modules == len(re.findall("<details", ours._repr_html_()))
