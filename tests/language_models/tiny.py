"""A language model of a few kilobytes with random weights, made as a .gguf file."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import ingot.core as mx
from ingot.cli.gguf_folder import make_folder

HIDDEN, INNER, LAYERS, HEADS, KEY_HEADS = 128, 192, 2, 4, 2
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
MERGES = ["t h", "th e", "Ġ the", "i n", "Ġ a"]
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def byte_letters() -> list[str]:
    """The letter that stands for each byte, as in all tokenizers of this kind."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    letters = {byte: chr(byte) for byte in printable}
    letters |= {byte: chr(256 + number) for number, byte in enumerate(others)}
    return [letters[byte] for byte in range(256)]


def write_tiny_gguf(path: Path, seed: int = 0) -> None:
    """Writes the model, float32, with the metadata that llama.cpp's converter writes."""
    random = np.random.default_rng(seed)
    tokens = SPECIAL + byte_letters() + [merge.replace(" ", "") for merge in MERGES]

    def matrix(rows: int, columns: int) -> mx.array:
        return mx.array(random.normal(0, 2 / columns**0.5, (rows, columns)).astype(np.float32))

    def norm() -> mx.array:
        return mx.array(1 + random.normal(0, 0.1, HIDDEN).astype(np.float32))

    keys = HIDDEN * KEY_HEADS // HEADS
    arrays = {"token_embd.weight": matrix(len(tokens), HIDDEN), "output_norm.weight": norm()}
    for layer in range(LAYERS):
        arrays |= {
            f"blk.{layer}.{name}.weight": value
            for name, value in (
                ("attn_norm", norm()),
                ("attn_q", matrix(HIDDEN, HIDDEN)),
                ("attn_k", matrix(keys, HIDDEN)),
                ("attn_v", matrix(keys, HIDDEN)),
                ("attn_output", matrix(HIDDEN, HIDDEN)),
                ("ffn_norm", norm()),
                ("ffn_gate", matrix(INNER, HIDDEN)),
                ("ffn_up", matrix(INNER, HIDDEN)),
                ("ffn_down", matrix(HIDDEN, INNER)),
            )
        }
    numbers = {
        "llama.embedding_length": HIDDEN,
        "llama.feed_forward_length": INNER,
        "llama.block_count": LAYERS,
        "llama.attention.head_count": HEADS,
        "llama.attention.head_count_kv": KEY_HEADS,
        "llama.context_length": 512,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
        "tokenizer.ggml.padding_token_id": 2,
    }
    metadata = {
        "general.architecture": "llama",
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": mx.array([3] * 3 + [1] * (len(tokens) - 3)),
        "tokenizer.ggml.merges": MERGES,
        "tokenizer.chat_template": TEMPLATE,
        "llama.attention.layer_norm_rms_epsilon": mx.array(1e-5),
        "llama.rope.freq_base": mx.array(10000.0),
        **{name: mx.array(value, mx.uint32) for name, value in numbers.items()},
    }
    mx.save_gguf(path, arrays, metadata)


def make_tiny_folder(folder: Path) -> Path:
    """The model as a folder of mlx-lm."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    file = folder.with_suffix(".gguf")
    write_tiny_gguf(file)
    make_folder(file, folder)
    return folder
