"""Run by test_sharded.py: a model in one process, or its shards on several ranks, and training.

Prints the tokens that each makes of a prompt as JSON, the first rank alone. Under `ingot launch` on
ingot, under Python alone on MLX.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx_lm import cli, load
from mlx_lm.generate import generate_step
from mlx_lm.utils import pipeline_load, sharded_load

PROMPT = "the cat in the hat"


def tokens(model: Any, tokenizer: Any) -> list[int]:
    """What the model makes of the prompt, the most likely token each time."""
    prompt = mx.array(tokenizer.encode(PROMPT))
    return [int(token) for token, _ in generate_step(prompt, model, max_tokens=16)]


def main(folder: str, data: str, adapters: str) -> None:
    group = mx.distributed.init()
    found = {"one": tokens(*load(folder))}
    if group.size() > 1:
        found["tensor"] = tokens(*sharded_load(folder, None, group))
        model, tokenizer = pipeline_load(folder)
        assert sum(layer is not None for layer in model.model.layers) == 1
        found["pipeline"] = tokens(model, tokenizer)
    sys.argv = [
        *["mlx_lm", "lora", "--model", folder, "--train", "--data", data, "--iters", "2"],
        *["--batch-size", "2", "--num-layers", "2", "--adapter-path", adapters],
        *["--val-batches", "1"],
    ]
    cli.main()
    # Every rank has the same tokens and made the same adapters, which the first one has written.
    everybody = mx.distributed.all_gather(mx.array([list(found.values())]))
    assert (everybody == everybody[0]).all()
    if group.rank() == 0:
        (Path(adapters).parent / "tokens.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
