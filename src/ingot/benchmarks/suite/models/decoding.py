"""A step of a language model that decodes: one token of each request through layers whose weights
have 4 bits.

The model has the lengths of SmolLM2-135M and random weights. Its cache of keys and values is that
of mlx-lm: room for 256 positions, of which one more is filled and read with each token. Nothing is
compiled, as mlx-lm compiles nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ingot.benchmarks.benchmark import Contenders, benchmark
from ingot.benchmarks.libraries import load, load_submodule

LAYERS, WIDTH, HIDDEN, HEADS, SHARED, TOKENS = 30, 576, 1536, 9, 3, 49152
HEAD = WIDTH // HEADS
ROOM, FIRST = 256, 64  # positions of the cache, and where decoding begins


def _lazy(library: str, requests: int = 1, activations: str = "float32") -> Callable[[], None]:
    mx, nn = load(library), load_submodule(library, "nn")
    mx.random.seed(0)

    def linear(inputs: int, outputs: int) -> Any:
        return nn.QuantizedLinear(inputs, outputs, bias=False, group_size=64, bits=4)

    class Layer(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.norms = [nn.RMSNorm(WIDTH, 1e-5), nn.RMSNorm(WIDTH, 1e-5)]
            self.q, self.o = linear(WIDTH, WIDTH), linear(WIDTH, WIDTH)
            self.k, self.v = linear(WIDTH, SHARED * HEAD), linear(WIDTH, SHARED * HEAD)
            self.gate, self.up = linear(WIDTH, HIDDEN), linear(WIDTH, HIDDEN)
            self.down = linear(HIDDEN, WIDTH)
            self.rope = nn.RoPE(HEAD, base=100000)

        def __call__(self, x: Any, cache: list[Any], position: int) -> Any:
            y = self.norms[0](x)
            q, k, v = (
                part(y).reshape(requests, 1, heads, HEAD).transpose(0, 2, 1, 3)
                for part, heads in ((self.q, HEADS), (self.k, SHARED), (self.v, SHARED))
            )
            q, k = self.rope(q, offset=position), self.rope(k, offset=position)
            for number, new in enumerate((k, v)):
                cache[number][..., position : position + 1, :] = new
            keys, values = (each[..., : position + 1, :] for each in cache)
            scale = HEAD**-0.5
            found = mx.fast.scaled_dot_product_attention(q, keys, values, scale=scale, mask=None)
            x = x + self.o(found.transpose(0, 2, 1, 3).reshape(requests, 1, WIDTH))
            y = self.norms[1](x)
            return x + self.down(nn.silu(self.gate(y)) * self.up(y))

    layers = [Layer() for _ in range(LAYERS)]
    norm = nn.RMSNorm(WIDTH, 1e-5)
    table = nn.QuantizedEmbedding(TOKENS, WIDTH, group_size=64, bits=4)
    caches = [[mx.zeros((requests, SHARED, ROOM, HEAD)) for _ in range(2)] for _ in layers]
    mx.eval(caches, table.parameters(), norm.parameters(), [each.parameters() for each in layers])
    state = {"tokens": mx.ones((requests, 1), mx.int32), "position": FIRST}

    def step() -> None:
        if library == "ingot":
            mx.set_quantized_activations(activations)
        x = table(state["tokens"])
        for layer, cache in zip(layers, caches, strict=True):
            x = layer(x, cache, state["position"])
        state["tokens"] = mx.argmax(table.as_linear(norm(x)), axis=-1)
        mx.eval(state["tokens"])
        state["position"] = state["position"] + 1 if state["position"] + 1 < ROOM else FIRST

    return step


@benchmark("a token of a model of 135 million weights of 4 bits", targets={"mlx": 0.3})
def decoding() -> Contenders:
    return {"ingot": partial(_lazy, "ingot"), "mlx": partial(_lazy, "mlx")}


@benchmark("a token of each of 8 requests; of one request", targets={"ingot one": 2.0})
def decoding_requests() -> Contenders:
    return {"ingot": partial(_lazy, "ingot", 8), "ingot one": partial(_lazy, "ingot")}


@benchmark("a token of each of 8 requests, rows as int8; of one", targets={"ingot one": 2.0})
def decoding_requests_int8() -> Contenders:
    return {
        "ingot": partial(_lazy, "ingot", 8, "int8"),
        "ingot one": partial(_lazy, "ingot", 1, "int8"),
    }
