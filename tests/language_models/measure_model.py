"""Greedy tokens and perplexities of models, as JSON: on ingot under `ingot run`, else on MLX."""

from __future__ import annotations

import json
import math
import sys

import mlx.core as mx
from mlx_lm import load
from mlx_lm.generate import generate_step

QUESTION = "Write a short story about a lighthouse keeper and the sea."


def greedy_tokens(model: object, tokenizer: object, count: int) -> dict[str, list[int]]:
    """The likeliest tokens one after the other, and the prompt that they follow."""
    messages = [{"role": "user", "content": QUESTION}]
    prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
    steps = generate_step(mx.array(prompt), model, max_tokens=count)
    return {"prompt": list(prompt), "tokens": [int(token) for token, _ in steps]}


def judged(model: object, prompt: list[int], tokens: list[int]) -> dict[str, object]:
    """For each of some tokens, how likely it is after those before it, and how likely the likeliest
    is (as logits). All in one pass: MLX takes as long for a token after the other as for a prompt,
    and needs no second run to go on after a tie.
    """
    rows = model(mx.array([prompt + tokens[:-1]]))[0, len(prompt) - 1 :].astype(mx.float32)
    chosen = mx.take_along_axis(rows, mx.array(tokens)[:, None], axis=-1)[:, 0]
    return {"best": mx.max(rows, axis=-1).tolist(), "chosen": chosen.tolist()}


def perplexity(model: object, tokenizer: object, text: str, length: int, rows: int) -> float:
    """That of the first rows of a text."""
    tokens = mx.array(tokenizer.encode(text)[: length * rows]).reshape(-1, length)
    total = 0.0
    for row in tokens:
        logits = model(row[None, :-1])[0].astype(mx.float32)
        chosen = mx.take_along_axis(logits, row[1:, None], axis=-1)[:, 0]
        total += mx.sum(mx.logsumexp(logits, axis=-1) - chosen).item()
    return math.exp(total / (tokens.shape[0] * (length - 1)))


def main() -> None:
    wanted = json.load(sys.stdin)
    if wanted["int8"]:
        mx.set_quantized_activations("int8")
    model, tokenizer = load(wanted["folder"])
    found: dict[str, object] = {}
    if wanted["count"]:
        found |= greedy_tokens(model, tokenizer, wanted["count"])
    if wanted["tokens"]:
        found |= judged(model, wanted["prompt"], wanted["tokens"])
    found["perplexity"] = perplexity(
        model, tokenizer, wanted["text"], wanted["length"], wanted["rows"]
    )
    print(json.dumps(found))


if __name__ == "__main__":
    main()
