"""`make test-llm`: SmolLM2-135M on ingot and on MLX, side by side.

200 greedy tokens must be MLX's, of float32 weights and of weights of 4 bits; where they part, the
two likeliest tokens must be equal within rounding. The perplexity of examples/sonnets.txt must be
within 0.1% of MLX's, and within 1% with int8 activations.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from ingot.cli.chat_model import folder_of

HERE = Path(__file__).resolve().parent
TEXT = HERE.parent.parent / "examples" / "sonnets.txt"
TOKENS, LENGTH, ROWS = 200, 512, 8
TIE = 1e-3  # of log-probabilities: what rounding in float16 scales and float32 sums leaves open
EXACT, INT8 = 1e-3, 1e-2
RUN = ["-m", "ingot", "run"]


def _python(*arguments: str, stdin: str = "") -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        input=stdin,
        text=True,
        stdout=subprocess.PIPE,
        check=True,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
    )
    return done.stdout


def _measured(options: list[str], folder: Path, tokens: int, int8: bool = False) -> dict[str, Any]:
    wanted = {
        "folder": str(folder),
        "tokens": tokens,
        "int8": int8,
        "text": TEXT.read_text(),
        "length": LENGTH,
        "rows": ROWS,
    }
    script = str(HERE / "measure_model.py")
    found: dict[str, Any] = json.loads(
        _python(*options, script, stdin=json.dumps(wanted)).splitlines()[-1]
    )
    return found


def _compare(name: str, folder: Path, int8: bool) -> bool:
    """Prints what was found; whether it is as it must be."""
    ours, theirs = _measured(RUN, folder, TOKENS), _measured([], folder, TOKENS)
    pairs = zip(ours["tokens"], theirs["tokens"], strict=False)
    same = next((n for n, (a, b) in enumerate(pairs) if a != b), len(theirs["tokens"]))
    ends_alike = same == len(theirs["tokens"]) == len(ours["tokens"])
    print(f"{name}: {same} of {len(theirs['tokens'])} greedy tokens equal MLX's")
    right = ends_alike
    if not ends_alike and same < len(theirs["leads"]):
        lead = theirs["leads"][same]
        print(f"  the likeliest token of the next step is ahead by {lead:.2e} in MLX")
        right = lead < TIE
    right &= _report(name, ours["perplexity"], theirs["perplexity"], EXACT)
    if int8:
        found = _measured(RUN, folder, 0, int8=True)["perplexity"]
        right &= _report(f"{name}, int8 activations", found, theirs["perplexity"], INT8)
    return right


def _report(name: str, ours: float, theirs: float, limit: float) -> bool:
    difference = abs(ours / theirs - 1)
    print(f"{name}: perplexity {ours:.5f}, MLX's {theirs:.5f}: {difference:.4%} of {limit:.1%}")
    return difference <= limit


def main() -> int:
    quantized = folder_of(None)
    with tempfile.TemporaryDirectory() as temporary:
        plain = Path(temporary) / "float32"
        command = ["convert", "--hf-path", str(quantized), "--mlx-path", str(plain)]
        _python(*RUN, "-m", "mlx_lm", *command, "--dequantize", "--dtype", "float32")
        results = [_compare("4 bits", quantized, True), _compare("float32", plain, False)]
    print("passed" if all(results) else "FAILED")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
