"""Converts a .gguf file to a folder for mlx-lm: configuration, tokenizer and weights.

Codes of 4 and 8 bits are kept, in groups of 32, so that nothing is quantised again and no precision
is lost. The tokenizer is built from the file's metadata.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ingot.core as mx
from ingot.runtime.files.access import FileError

__all__ = ["make_folder"]

_GROUP = 32  # elements per block of Q4_0, Q4_1 and Q8_0
_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_WHOLE = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
# Token types.
_CONTROL, _USER_DEFINED = 3, 4
# Tokenizers that split numbers into digits first.
_DIGITS = ("smollm", "starcoder", "refact", "command-r")


def make_folder(file: Path, folder: Path) -> None:
    """Writes the folder of a model with llama's architecture.

    Args:
        file: The .gguf file.
        folder: The folder, which is created.
    """
    arrays, metadata = mx.load(file, return_metadata=True)
    architecture = metadata.get("general.architecture")
    if architecture != "llama":
        raise FileError(
            f"[chat] {file} has a model of the architecture {architecture!r}; only 'llama' can be "
            "read from .gguf files. Give mlx-lm's folder of the model instead."
        )
    if metadata.get("tokenizer.ggml.model") != "gpt2":
        raise FileError(
            f"[chat] {file} has a tokenizer of the kind {metadata.get('tokenizer.ggml.model')!r}; "
            "only 'gpt2' can be read from .gguf files. Give mlx-lm's folder of the model instead."
        )
    try:
        config = _config(metadata, arrays)
        weights = _weights(arrays, config)
        tokenizer, settings = _tokenizer(metadata), _tokenizer_settings(metadata)
    except KeyError as error:
        raise FileError(f"[chat] {file} lacks {error.args[0]!r}.") from error
    folder.mkdir(parents=True, exist_ok=True)
    mx.save_safetensors(folder / "model.safetensors", weights, {"format": "mlx"})
    template = metadata.get("tokenizer.chat_template")
    if template is not None:
        (folder / "chat_template.jinja").write_text(template)
    for name, content in (
        ("tokenizer.json", tokenizer),
        ("tokenizer_config.json", settings),
        ("config.json", config),  # last: it marks the folder as complete
    ):
        (folder / name).write_text(json.dumps(content, ensure_ascii=False))


def _number(metadata: dict[str, Any], name: str) -> Any:
    return metadata[name].item()


def _config(metadata: dict[str, Any], arrays: dict[str, mx.array]) -> dict[str, Any]:
    heads = _number(metadata, "llama.attention.head_count")
    config: dict[str, Any] = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": _number(metadata, "llama.embedding_length"),
        "intermediate_size": _number(metadata, "llama.feed_forward_length"),
        "num_hidden_layers": _number(metadata, "llama.block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": heads,
        "rms_norm_eps": _number(metadata, "llama.attention.layer_norm_rms_epsilon"),
        "rope_theta": 10000.0,
        "max_position_embeddings": _number(metadata, "llama.context_length"),
        "vocab_size": len(metadata["tokenizer.ggml.tokens"]),
        "tie_word_embeddings": "output.weight" not in arrays,
        "eos_token_id": _number(metadata, "tokenizer.ggml.eos_token_id"),
    }
    for ours, theirs in (
        ("num_key_value_heads", "llama.attention.head_count_kv"),
        ("rope_theta", "llama.rope.freq_base"),
        ("bos_token_id", "tokenizer.ggml.bos_token_id"),
    ):
        if theirs in metadata:
            config[ours] = _number(metadata, theirs)
    quantized = {
        name: {"group_size": _GROUP, "bits": _bits(arrays, name)}
        for name in (key.removesuffix(".scales") for key in arrays if key.endswith(".scales"))
    }
    if quantized:
        config["quantization"] = {
            "group_size": _GROUP,
            "bits": 4,
            **{_mlx_name(name): scheme for name, scheme in quantized.items()},
        }
    return config


def _bits(arrays: dict[str, mx.array], name: str) -> int:
    words, groups = arrays[f"{name}.weight"].shape[-1], arrays[f"{name}.scales"].shape[-1]
    return 32 * words // (groups * _GROUP)


def _mlx_name(name: str) -> str:
    """The name of a layer in mlx-lm."""
    if name in _WHOLE:
        return _WHOLE[name]
    _, number, layer = name.split(".", 2)
    return f"model.layers.{number}.{_LAYER[layer]}"


def _weights(arrays: dict[str, mx.array], config: dict[str, Any]) -> dict[str, mx.array]:
    """The arrays under mlx-lm's names."""
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    weights = {}
    for key, value in arrays.items():
        name, _, kind = key.rpartition(".")
        layer = name.rpartition(".")[2]
        if layer == "rope_freqs":  # derived from the configuration
            continue
        if layer in heads:
            value = _with_halves(value, heads[layer])
        weights[f"{_mlx_name(name)}.{kind}"] = value
    return weights


def _with_halves(rows: mx.array, heads: int) -> mx.array:
    """De-interleaves the rows of queries or keys: .gguf files interleave the two halves of each
    head.
    """
    pairs = rows.reshape(heads, rows.shape[0] // heads // 2, 2, *rows.shape[1:])
    return mx.swapaxes(pairs, 1, 2).reshape(rows.shape)


def _tokenizer(metadata: dict[str, Any]) -> dict[str, Any]:
    """The contents of tokenizer.json: byte-level byte-pair encoding."""
    tokens = metadata["tokenizer.ggml.tokens"]
    types = metadata["tokenizer.ggml.token_type"].tolist()
    merges = [pair.split(" ", 1) for pair in metadata["tokenizer.ggml.merges"]]
    by_bytes = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    steps: list[dict[str, Any]] = [{**by_bytes, "use_regex": True}]
    if metadata.get("tokenizer.ggml.pre") in _DIGITS:
        steps.insert(0, {"type": "Digits", "individual_digits": True})
    return {
        "version": "1.0",
        "added_tokens": [
            {
                "id": number,
                "content": tokens[number],
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": kind == _CONTROL,
            }
            for number, kind in enumerate(types)
            if kind in (_CONTROL, _USER_DEFINED)
        ],
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": steps},
        "decoder": {**by_bytes, "use_regex": True},
        "model": {
            "type": "BPE",
            "vocab": {token: number for number, token in enumerate(tokens)},
            "merges": merges,
        },
    }


def _tokenizer_settings(metadata: dict[str, Any]) -> dict[str, Any]:
    tokens = metadata["tokenizer.ggml.tokens"]
    settings: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast"}
    for ours, theirs in (("bos", "bos"), ("eos", "eos"), ("pad", "padding"), ("unk", "unknown")):
        found = metadata.get(f"tokenizer.ggml.{theirs}_token_id")
        if found is not None and 0 <= found.item() < len(tokens):
            settings[f"{ours}_token"] = tokens[found.item()]
    return settings
