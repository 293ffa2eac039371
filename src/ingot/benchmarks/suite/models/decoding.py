"""A decoding step of a language model: one token of each request through all layers.

The models have the shapes of SmolLM2-135M and TinyLlama-1.1B with random weights, of 4 bits unless
stated otherwise. Their key/value cache is mlx-lm's: it has room for 256 positions, and each token
fills and reads one more. Nothing is compiled, because mlx-lm compiles nothing. The lower bound of a
step is the time to read its weights, which is measured alongside.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from ingot.benchmarks.benchmark import Contenders, Measure, benchmark
from ingot.benchmarks.libraries import load, load_submodule

ROOM, FIRST = 256, 64  # positions of the cache, and where decoding begins
GROUP = 64  # weights that share a scale and a bias
BYTES = {"4 bits": 0.5 + 2 * 4 / GROUP, "bfloat16": 2.0, "float32": 4.0}  # of a weight
MEGABYTE = 10**6


@dataclass(frozen=True)
class Lengths:
    """The lengths of a model; a table of tokens is read as a matrix at the end."""

    layers: int
    width: int
    hidden: int
    heads: int
    shared: int  # heads of keys and values
    tokens: int

    @property
    def head(self) -> int:
        """The length of a query."""
        return self.width // self.heads

    def weight_bytes(self, weights: str = "4 bits") -> int:
        """The bytes of the matrices, which are read once for each token."""
        attention = 2 * self.width * (self.width + self.shared * self.head)
        layer = attention + 3 * self.width * self.hidden
        return int((self.layers * layer + self.tokens * self.width) * BYTES[weights])

    @property
    def cache_bytes(self) -> int:
        """The bytes of one request's keys and values."""
        return self.layers * 2 * self.shared * ROOM * self.head * 4


SMALL = Lengths(30, 576, 1536, 9, 3, 49152)
LARGE = Lengths(22, 2048, 5632, 32, 4, 32000)


class _Parts:
    """Makes the layers of a model in one library."""

    def __init__(self, library: str, weights: str) -> None:
        self.mx, self.nn = load(library), load_submodule(library, "nn")
        self.is_quantized = weights == "4 bits"
        self.dtype = self.mx.bfloat16 if weights == "bfloat16" else self.mx.float32

    def made(self, layer: Any) -> Any:
        """A layer with weights that are computed."""
        if not self.is_quantized:
            layer.set_dtype(self.dtype)
        self.mx.eval(layer.parameters())
        return layer

    def linear(self, inputs: int, outputs: int) -> Any:
        """A matrix."""
        if self.is_quantized:
            kind = partial(self.nn.QuantizedLinear, group_size=GROUP, bits=4)
        else:
            kind = self.nn.Linear
        return self.made(kind(inputs, outputs, bias=False))

    def table(self, tokens: int, width: int) -> Any:
        """A table of tokens, which is also the last matrix."""
        if self.is_quantized:
            kind = partial(self.nn.QuantizedEmbedding, group_size=GROUP, bits=4)
        else:
            kind = self.nn.Embedding
        return self.made(kind(tokens, width))

    def norm(self, width: int) -> Any:
        """A norm of rows."""
        return self.made(self.nn.RMSNorm(width, 1e-5))


def _layer(parts: _Parts, lengths: Lengths, requests: int) -> Callable[[Any, list[Any], int], Any]:
    mx, nn, linear = parts.mx, parts.nn, parts.linear
    width, head, shared = lengths.width, lengths.head, lengths.shared
    norms = [parts.norm(width), parts.norm(width)]
    to_queries, to_result = linear(width, width), linear(width, width)
    to_keys, to_values = linear(width, shared * head), linear(width, shared * head)
    gate, up = linear(width, lengths.hidden), linear(width, lengths.hidden)
    down = linear(lengths.hidden, width)
    rope = nn.RoPE(head, base=100000)

    def run(x: Any, cache: list[Any], position: int) -> Any:
        y = norms[0](x)
        q, k, v = (
            part(y).reshape(requests, 1, -1, head).transpose(0, 2, 1, 3)
            for part in (to_queries, to_keys, to_values)
        )
        q, k = rope(q, offset=position), rope(k, offset=position)
        for number, new in enumerate((k, v)):
            cache[number][..., position : position + 1, :] = new
        keys, values = (each[..., : position + 1, :] for each in cache)
        scale = head**-0.5
        found = mx.fast.scaled_dot_product_attention(q, keys, values, scale=scale, mask=None)
        x = x + to_result(found.transpose(0, 2, 1, 3).reshape(requests, 1, width))
        y = norms[1](x)
        return x + down(nn.silu(gate(y)) * up(y))

    return run


def _lazy(
    library: str,
    requests: int = 1,
    activations: str = "float32",
    lengths: Lengths = SMALL,
    weights: str = "4 bits",
) -> Callable[[], None]:
    parts = _Parts(library, weights)
    mx = parts.mx
    mx.random.seed(0)
    table = parts.table(lengths.tokens, lengths.width)
    layers = [_layer(parts, lengths, requests) for _ in range(lengths.layers)]
    norm = parts.norm(lengths.width)
    room = (requests, lengths.shared, ROOM, lengths.head)
    caches = [[mx.zeros(room, parts.dtype) for _ in range(2)] for _ in layers]
    mx.eval(caches)
    mx.clear_cache()  # of what the weights were made from
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


def read_of(nbytes: int) -> Callable[[], None]:
    """Reads as many bytes as the weights of a model have, with all threads."""
    mx = load("ingot")
    largest = mx.compile(mx.max)
    numbers = mx.arange(nbytes // 4, dtype=mx.float32)  # elements of memory, which ones has none of
    mx.eval(numbers)

    def read() -> None:
        mx.eval(largest(numbers))

    return read


@benchmark("decoding step of a 135M model, 4-bit weights", targets={"mlx": 0.3})
def decoding() -> Contenders:
    return {"ingot": partial(_lazy, "ingot"), "mlx": partial(_lazy, "mlx")}


@benchmark("decoding step of 8 requests, 135M, 4 bits; of one request", targets={"ingot one": 2.0})
def decoding_requests() -> Contenders:
    return {"ingot": partial(_lazy, "ingot", 8), "ingot one": partial(_lazy, "ingot")}


@benchmark("decoding step of 8 requests, int8 activations; of one", targets={"ingot one": 2.0})
def decoding_requests_int8() -> Contenders:
    return {
        "ingot": partial(_lazy, "ingot", 8, "int8"),
        "ingot one": partial(_lazy, "ingot", 1, "int8"),
    }


def _against_bandwidth(
    lengths: Lengths, weights: str = "4 bits", activations: str = "float32"
) -> Contenders:
    return {
        "ingot": partial(_lazy, "ingot", 1, activations, lengths, weights),
        "ingot read": partial(read_of, lengths.weight_bytes(weights)),
    }


@benchmark(
    "decoding step of a 1B model, 4 bits; reading its weights", targets={"ingot read": 1 / 0.7}
)
def decoding_billion() -> Contenders:
    return _against_bandwidth(LARGE)


@benchmark(
    "decoding step of a 1B model, 4 bits, int8 activations; reading its weights",
    targets={"ingot read": 1 / 0.85},
)
def decoding_billion_int8() -> Contenders:
    return _against_bandwidth(LARGE, activations="int8")


@benchmark(
    "decoding step of a 135M model, bfloat16; reading its weights", targets={"ingot read": 1 / 0.85}
)
def decoding_bfloat16() -> Contenders:
    return _against_bandwidth(SMALL, "bfloat16")


@benchmark(
    "decoding step of a 135M model, float32; reading its weights", targets={"ingot read": 1 / 0.85}
)
def decoding_float32() -> Contenders:
    return _against_bandwidth(SMALL, "float32")


@benchmark(
    "peak memory of a decoding step of a 1B model, 4 bits, beyond the import",
    limits={"weights+cache+200 MB": LARGE.weight_bytes() + LARGE.cache_bytes + 200 * MEGABYTE},
    measure=Measure.PEAK_MEMORY,
)
def decoding_memory() -> Contenders:
    return {"ingot": partial(_lazy, "ingot", 1, "float32", LARGE)}
