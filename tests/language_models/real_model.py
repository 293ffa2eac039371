"""`make test-llm`: SmolLM2-135M on ingot and on MLX, side by side.

200 greedy tokens must be MLX's, of float32 weights and of weights of 4 bits: given ingot's tokens,
MLX finds each of them the likeliest next one, or equal to the likeliest within rounding. The
perplexity of examples/sonnets.txt must be within 0.1% of MLX's, and within 1% with int8
activations. Most of the time is MLX's, which takes an eighth of a second for a token of 4 bits.
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
TOKENS, LENGTH, ROWS = 200, 256, 3
TIE = 1e-3  # of logits: what rounding in float32 sums leaves open
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


def _measured(options: list[str], folder: Path, **more: Any) -> dict[str, Any]:
    wanted = {
        "folder": str(folder),
        "count": 0,
        "tokens": [],
        "int8": False,
        "text": TEXT.read_text(),
        "length": LENGTH,
        "rows": ROWS,
        **more,
    }
    script = str(HERE / "measure_model.py")
    found: dict[str, Any] = json.loads(
        _python(*options, script, stdin=json.dumps(wanted)).splitlines()[-1]
    )
    return found


def _compare(name: str, folder: Path, int8: bool) -> bool:
    """Prints what was found; whether it is as it must be."""
    ours = _measured(RUN, folder, count=TOKENS)
    theirs = _measured([], folder, prompt=ours["prompt"], tokens=ours["tokens"])
    right = _agree(name, theirs["best"], theirs["chosen"])
    right &= _report(name, ours["perplexity"], theirs["perplexity"], EXACT)
    if int8:
        found = _measured(RUN, folder, int8=True)["perplexity"]
        right &= _report(f"{name}, int8 activations", found, theirs["perplexity"], INT8)
    return right


def _agree(name: str, best: list[float], chosen: list[float]) -> bool:
    """Whether tokens are MLX's, from its logits of them and of its own choice."""
    others = [n for n in range(len(best)) if best[n] != chosen[n]]
    print(f"{name}: {len(best) - len(others)} of {len(best)} greedy tokens are MLX's")
    for n in others:
        print(f"  token {n}: MLX's logit of it is {chosen[n]:.6f}, of its own {best[n]:.6f}")
    return all(best[n] - chosen[n] < TIE for n in others)


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
