"""Draws the picture of speeds that the README shows, docs/images/speed.svg, from measurements.

    ingot bench --json numbers.json
    .venv/bin/python tools/speed_picture.py numbers.json

A dot is a library's time divided by ingot's, on a logarithmic axis. `make speed` does both.
"""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

OUTPUT = Path(__file__).resolve().parent.parent / "docs" / "images" / "speed.svg"
# Benchmark -> what the picture calls it.
ROWS = {
    "gelu_large": "gelu, 131 million elements",
    "gelu_scalar": "gelu of a scalar",
    "softmax_rows": "softmax, 2048 x 4096",
    "layer_norm_rows": "layer norm, 2048 x 4096",
    "sum_columns": "sum over columns, 4096 x 4096",
    "product_compiled": "matrix product, 1024",
    "convolution": "convolution, 3 x 3",
    "random_uniform": "10 million random numbers",
    "training_step": "MLP, training step",
    "training_block": "transformer block, training step",
    "search_flat": "nearest of 100,000 vectors",
    "loop_runge_kutta": "Runge-Kutta, loop",
    "first_call_cold": "first call of a function",
}
# Contenders' names begin with these.
LIBRARIES = {
    "mlx": ("MLX", "#c2410c"),
    "jax": ("JAX", "#7c3aed"),
    "torch": ("PyTorch", "#dc2626"),
    "numpy": ("NumPy", "#0369a1"),
    "faiss": ("faiss", "#4d7c0f"),
}
COPIES = ("copy", "memcpy")  # contenders that only move memory end with these
WIDTH, LABELS, RIGHT, LINE, TOP = 900, 270, 30, 26, 64
LEAST, MOST = 0.5, 200.0


@dataclass(frozen=True)
class Row:
    """A benchmark: its label, and how many times ingot's time each library took."""

    label: str
    factors: dict[str, float]


def rows_of(numbers: dict[str, Any]) -> list[Row]:
    """The rows of the picture that were measured with at least one other library."""
    found = {benchmark["name"]: benchmark for benchmark in numbers["benchmarks"]}
    rows = []
    for name, label in ROWS.items():
        factors = factors_of(found.get(name, {}).get("contenders", {}))
        if factors:
            rows.append(Row(label, factors))
    return rows


def factors_of(contenders: dict[str, Any]) -> dict[str, float]:
    """How many times ingot's time each library took, at its best; copies of memory are none."""
    ours = contenders.get("ingot", {}).get("best")
    factors: dict[str, float] = {}
    for contender, measured in contenders.items():
        library = next((key for key in LIBRARIES if contender.startswith(key)), None)
        if library is None or contender.endswith(COPIES) or not ours or not measured.get("best"):
            continue
        factor = measured["best"] / ours
        factors[library] = min(factor, factors.get(library, math.inf))
    return factors


def x_of(factor: float) -> float:
    """Where a factor is on the axis."""
    share = math.log(min(max(factor, LEAST), MOST) / LEAST) / math.log(MOST / LEAST)
    return LABELS + share * (WIDTH - LABELS - RIGHT)


def drawn(rows: list[Row], source: str) -> str:
    """The picture as SVG."""
    bottom = TOP + LINE * len(rows)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + 46}" '
        'font-family="system-ui, sans-serif" font-size="13" fill="#1f2937">',
        f'<rect width="{WIDTH}" height="{bottom + 46}" fill="#ffffff"/>',
        '<text x="14" y="24" font-size="15" font-weight="600">'
        "Time relative to ingot (ingot = 1; higher is slower)</text>",
    ]
    at = LABELS
    for name, color in LIBRARIES.values():
        lines.append(f'<circle cx="{at + 6}" cy="44" r="5" fill="{color}"/>')
        lines.append(f'<text x="{at + 16}" y="48">{name}</text>')
        at += 34 + 8 * len(name)
    for tick in (0.5, 1, 2, 5, 10, 20, 50, 100, 200):
        x, width = x_of(tick), 2 if tick == 1 else 1
        color = "#111827" if tick == 1 else "#e5e7eb"
        lines.append(
            f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{bottom}" stroke="{color}" '
            f'stroke-width="{width}"/>'
        )
        lines.append(f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{tick:g}</text>')
    for number, row in enumerate(rows):
        y = TOP + LINE * number + LINE / 2
        lines.append(f'<text x="14" y="{y + 4:.0f}">{escape(row.label)}</text>')
        ends = x_of(1), x_of(max(row.factors.values()))
        lines.append(
            f'<line x1="{min(ends):.1f}" y1="{y:.0f}" x2="{max(ends):.1f}" y2="{y:.0f}" '
            'stroke="#9ca3af"/>'
        )
        for library, factor in sorted(row.factors.items(), key=lambda item: -item[1]):
            name, color = LIBRARIES[library]
            lines.append(
                f'<circle cx="{x_of(factor):.1f}" cy="{y:.0f}" r="5" fill="{color}">'
                f"<title>{name}: {factor:.2g}</title></circle>"
            )
    lines.append(
        f'<text x="14" y="{bottom + 36}" font-size="11" fill="#6b7280">{escape(source)}</text>'
    )
    return "\n".join([*lines, "</svg>"]) + "\n"


def main() -> None:
    """Reads measurements and writes the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("numbers", type=Path, nargs="?", help="what `ingot bench --json` wrote")
    parser.add_argument("--list", action="store_true", help="print the benchmarks it shows")
    parser.add_argument("output", type=Path, nargs="?", default=OUTPUT)
    options = parser.parse_args()
    if options.list or options.numbers is None:
        print(*ROWS)
        return
    numbers = json.loads(options.numbers.read_text())
    machine, versions = numbers["machine"], numbers["machine"]["versions"]
    shown = ", ".join(
        f"{key} {versions[key]}" for key in ("mlx", "jax", "torch") if key in versions
    )
    command = "ingot bench --quick" if numbers["quick"] else "ingot bench"
    source = f"{command}, {machine['usable_cpus']} cores of {machine['processor']}; {shown}"
    options.output.write_text(drawn(rows_of(numbers), source))


if __name__ == "__main__":
    main()
