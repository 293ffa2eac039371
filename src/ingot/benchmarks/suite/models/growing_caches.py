"""A token of a small compiled decoder: its cache of keys and values grows, or has a fixed length.

A cache that grows has another shape for each token. Its length becomes a symbol by itself, or is
one from the start. Either way a step must not take longer than one whose cache has room for all
tokens, of which it reads everything.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ingot.benchmarks.benchmark import Contenders, benchmark
from ingot.benchmarks.libraries import load, load_submodule

LAYERS, WIDTH, HEADS = 4, 256, 4
HEAD = WIDTH // HEADS
ROOM, FIRST = 256, 64  # tokens of a full cache, and of the first


def _decoder(is_growing: bool, shapeless: bool = False) -> Callable[[], None]:
    mx, nn = load("ingot"), load_submodule("ingot", "nn")
    mx.random.seed(0)

    class Layer(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.norms = [nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)]
            self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
            self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

        def __call__(self, x: Any, keys: Any, values: Any, position: Any) -> tuple[Any, Any, Any]:
            q, k, v = (
                part.reshape(1, 1, HEADS, HEAD).transpose(0, 2, 1, 3)
                for part in mx.split(self.qkv(self.norms[0](x)), 3, axis=-1)
            )
            mask = None
            if is_growing:
                keys, values = mx.concatenate([keys, k], 2), mx.concatenate([values, v], 2)
            else:
                keys = mx.slice_update(keys, k, position, axes=(2,))
                values = mx.slice_update(values, v, position, axes=(2,))
                mask = mx.arange(ROOM)[None, None, None] <= position
            found = mx.fast.scaled_dot_product_attention(
                q, keys, values, scale=HEAD**-0.5, mask=mask
            )
            x = x + self.out(found.transpose(0, 2, 1, 3).reshape(1, 1, WIDTH))
            return x + self.down(nn.relu(self.up(self.norms[1](x)))), keys, values

    layers = [Layer() for _ in range(LAYERS)]
    mx.eval([layer.parameters() for layer in layers])
    start = mx.random.normal((1, HEADS, ROOM, HEAD))
    token = mx.random.normal((1, 1, WIDTH))

    @partial(mx.compile, shapeless=shapeless)
    def decode(x: Any, position: Any, caches: list[Any]) -> tuple[Any, list[Any]]:
        found = []
        for layer, (keys, values) in zip(layers, caches, strict=True):
            x, keys, values = layer(x, keys, values, position)
            found.append((keys, values))
        return x, found

    def first() -> list[Any]:
        kept = start[:, :, :FIRST] if is_growing else start
        caches = [(kept + 0, kept + 0) for _ in layers]
        mx.eval(caches)
        return caches

    state: dict[str, Any] = {"caches": first(), "position": FIRST}

    def step() -> None:
        x, caches = decode(token, mx.array([state["position"]]), state["caches"])
        mx.eval(x, caches)
        state["caches"], state["position"] = caches, state["position"] + 1
        if state["position"] == ROOM:
            state["caches"], state["position"] = first(), FIRST

    for _ in range(ROOM - FIRST):  # compiles for the first lengths, and for ranges of later ones
        step()
    return step


@benchmark(
    "compiled decoding step with a growing cache; a fixed cache", targets={"ingot fixed": 1.0}
)
def decoding_growing_cache() -> Contenders:
    return {
        "ingot": partial(_decoder, True),
        "ingot shapeless": partial(_decoder, True, True),
        "ingot fixed": partial(_decoder, False),
    }
