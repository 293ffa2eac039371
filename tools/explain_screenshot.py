"""Renders the picture of the explain page that the README shows: docs/images/explain.png.

Run it on a quiet machine: the page has measured times on it.

    .venv/bin/python tools/explain_screenshot.py [--dark] [FILE]
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()
WIDTH, HEIGHT, SCALE = 1400, 860, 1.5
SIDE = 620  # pixels of the right half

MODEL = """
import mlx.core as mx


@mx.compile
def transformer_block(x, wq, wk, wv, w1, w2):
    q, k, v = x @ wq, x @ wk, x @ wv
    scores = (q @ mx.swapaxes(k, -1, -2)) * q.shape[-1] ** -0.5
    y = x + mx.softmax(scores, axis=-1) @ v

    mean = mx.mean(y, axis=-1, keepdims=True)
    variance = mx.var(y, axis=-1, keepdims=True)
    hidden = (y - mean) * mx.rsqrt(variance + 1e-5) @ w1
    return y + 0.5 * hidden * (1 + mx.erf(hidden / 2**0.5)) @ w2


width = 256
shapes = [(width, width)] * 3 + [(width, 4 * width), (4 * width, width)]
weights = [mx.random.normal(shape) * 0.05 for shape in shapes]
for batch in (2, 4, 4):
    mx.eval(transformer_block(mx.random.normal((batch, 128, width)), *weights))
"""


def make_page(folder: Path) -> Path:
    """The page that `ingot explain` makes of the third call."""
    script, page = folder / "model.py", folder / "page.html"
    script.write_text(MODEL.lstrip())
    command = [sys.executable, "-m", "ingot", "explain", f"{script}::transformer_block"]
    subprocess.run([*command, "--call", "3", "--html", str(page)], check=True)
    return page


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="?", default="docs/images/explain.png")
    parser.add_argument("--dark", action="store_true")
    chosen = parser.parse_args()
    browser_path = os.environ.get("INGOT_BROWSER") or shutil.which("chromium")
    if browser_path is None:
        raise SystemExit("No browser: `sh build_support/browser.sh` gets Debian's chromium.")
    Path(chosen.file).parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page = make_page(Path(folder))
        browser = playwright.chromium.launch(executable_path=browser_path, args=FLAGS)
        tab = browser.new_page(
            viewport={"width": WIDTH, "height": HEIGHT},
            device_scale_factor=SCALE,
            color_scheme="dark" if chosen.dark else "light",
        )
        tab.goto(page.as_uri())
        tab.wait_for_selector("body[data-ready]")
        tab.evaluate(f"document.documentElement.style.setProperty('--side', '{SIDE}px')")
        tab.click("#fit")
        tab.locator("tr.row", has_text="Multiply Max Subtract").click()
        tab.get_by_role("tab", name="Loops").click()
        tab.wait_for_selector("#code .k")
        tab.screenshot(path=chosen.file)
        browser.close()
    print(f"{chosen.file}: {os.path.getsize(chosen.file) // 1024} kB")


if __name__ == "__main__":
    main()
