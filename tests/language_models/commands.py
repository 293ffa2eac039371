"""Runs commands of mlx-lm one after the other and prints what each printed, as JSON.

Under `ingot run` they run on ingot, under Python alone on MLX. One process for all of them, because
importing what mlx-lm needs takes seconds.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import traceback

import mlx.core as mx
from mlx_lm import cli, load
from mlx_lm.perplexity import eval_ppl


def perplexity(folder: str, text: str, length: int) -> None:
    """The command of that name, which takes no text but datasets of the network."""
    model, tokenizer = load(folder)
    tokens = mx.array(tokenizer.encode(text))
    rows = tokens[: len(tokens) // length * length].reshape(-1, length)
    print("Perplexity:", *eval_ppl(model, rows, batch_size=2))


def main() -> None:
    found = []
    for command in json.load(sys.stdin):
        printed = io.StringIO()
        sys.argv = ["mlx_lm", *command]
        error = None
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
            try:
                if command[0] == "perplexity":
                    perplexity(command[1], command[2], int(command[3]))
                else:
                    cli.main()
            except (Exception, SystemExit):
                error = traceback.format_exc()
        found.append({"printed": printed.getvalue(), "error": error})
    print(json.dumps(found))


if __name__ == "__main__":
    main()
