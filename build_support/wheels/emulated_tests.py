"""The tests on an emulated ARM processor: `make test-arm`.

    python build_support/wheels/emulated_tests.py [--seconds 3600] [--sample 0] [tests/ops/fft ...]

In: Debian's Python for arm64 and qemu-user, both unpacked below build/interpreters, the wheel that
`make wheels` builds for them, and the test dependencies' wheels from the package index. Out: a line
for each folder of tests, and how many passed. Of the parameter sets of a test function some are
run, two by default, because one emulated core is some twenty times as slow. Left out are folders
that need a browser, MPI or real models, and the longest campaigns.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent))

from installation import environment, install, run
from interpreters import PROJECT, Target

TARGET = Target("3.13", "aarch64")  # whose C library is new enough for MLX's wheel
WORK = PROJECT / "build" / "test-arm"
DEPENDENCIES = ["pytest>=8.2", "hypothesis>=6.100", "mlx[cpu]>=0.29", "mpmath>=1.3"]
# What differs between processors comes first: machine code, the math library, products.
FIRST = """
    tests/compiler/llvm/mathlib tests/ops/products tests/ops/elementwise tests/compiler/llvm
    tests/compiler/lower/products tests/native tests/compiler/machine tests/ops/reduce
    tests/ops/quantized tests/ops/attention
""".split()
LEFT_OUT = re.compile(
    "tests/(distributed|language_models|examples|cli|fuzz|array_api|support|search|programs"
    "|explain/page|benchmarks|compiler/llvm/agreement|compiler/goldens|oracle/(cases|harness|walk))(/|$)"
)
PATIENCE = 1800  # seconds for one folder


def main() -> int:
    """Runs the folders that were asked for, or all, until the time is up."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=4 * 3600, help="begin nothing after that")
    parser.add_argument(
        "--sample", type=int, default=2, help="parameter sets of a test function; 0: all"
    )
    parser.add_argument("--patience", type=float, default=PATIENCE, help="seconds for one folder")
    parser.add_argument("--no-build", action="store_true", help="take the wheel of the last run")
    parser.add_argument("folders", nargs="*", help="such as tests/ops/fft")
    options = parser.parse_args()
    python = emulated_python(build=not options.no_build)
    started = time.monotonic()
    counts: Counter[str] = Counter()
    folders = options.folders or all_folders()
    for number, folder in enumerate(folders):
        if time.monotonic() - started > options.seconds:
            print(f"stopped after {number} of {len(folders)} folders", flush=True)
            break
        begun = time.monotonic()
        said = tested(python, folder, options.sample, options.patience)
        print(f"{folder}: {said} ({time.monotonic() - begun:.0f} s)", flush=True)
        counts.update({word: int(count) for count, word in re.findall(r"(\d+) ([a-z]+)", said)})
        counts["failed"] += "passed" not in said and "no tests" not in said
    total = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    print(f"ingot: make test-arm: {total} in {time.monotonic() - started:.0f} s")
    return 1 if counts["failed"] or counts["errors"] or counts["error"] else 0


def all_folders() -> list[str]:
    """The folders that have tests in them, the most interesting ones first."""
    files = sorted((PROJECT / "tests").rglob("test_*.py"))
    found = dict.fromkeys(str(file.parent.relative_to(PROJECT)) for file in files)
    kept = [folder for folder in found if not LEFT_OUT.match(folder) and folder != "tests"]

    def rank(folder: str) -> int:
        known = [i for i, name in enumerate(FIRST) if (folder + "/").startswith(name + "/")]
        return known[0] if known else len(FIRST)

    return sorted(kept, key=rank)


def emulated_python(*, build: bool) -> Path:
    """A script that runs the emulated interpreter with ingot and the dependencies installed."""
    tool = str(Path(__file__).parent)
    if build:
        run([sys.executable, tool, "--only", f"{TARGET.tag}-{TARGET.machine}", "--no-trial"])
    (wheel,) = (PROJECT / "dist").glob(f"*-{TARGET.tag}-*_{TARGET.machine}.whl")
    site = WORK / "site"
    if not (site / "complete").exists():
        install(TARGET, site, [str(wheel), *DEPENDENCIES])
        (site / "complete").touch()
    # That of today.
    shutil.rmtree(WORK / "wheel", ignore_errors=True)
    run([sys.executable, "-m", "wheel", "unpack", "--dest", str(WORK / "wheel"), str(wheel)])
    shutil.rmtree(site / "ingot")
    (package,) = (WORK / "wheel").glob("*/ingot")
    shutil.move(package, site / "ingot")
    script = WORK / "python"
    script.write_text(f'#!/bin/sh\nexec {" ".join(TARGET.command())} "$@"\n')
    script.chmod(0o755)
    # Programs that tests start are emulated too.
    (site / "sitecustomize.py").write_text(f"import sys\n\nsys.executable = {str(script)!r}\n")
    return script


def tested(python: Path, folder: str, sample: int, patience: float) -> str:
    """The last line that pytest prints for the tests directly in a folder."""
    files = sorted(str(path) for path in (PROJECT / folder).glob("test_*.py"))
    variables = environment(TARGET, WORK / "site")
    variables["PYTHONPATH"] += f":{Path(__file__).resolve().parent}"
    variables["INGOT_SAMPLE"] = str(sample)
    command = [
        str(python),
        "-u",
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "sampled",
        "--tb=line",
        *files,
    ]
    log = WORK / (folder.replace("/", "_") + ".txt")
    with log.open("w") as file:
        try:
            subprocess.run(
                command,
                cwd=PROJECT,
                env={**variables, "LANG": os.environ.get("LANG", "C.UTF-8")},
                check=False,
                stdout=file,
                stderr=subprocess.STDOUT,
                timeout=patience,
            )
        except subprocess.TimeoutExpired:
            return f"no end in {patience:.0f} s, see {log}"
    lines = log.read_text(errors="replace").splitlines() or ["printed nothing"]
    said = lines[-1].strip("= ")
    return said if "passed" in said and "failed" not in said else f"{said}, see {log}"


if __name__ == "__main__":
    sys.exit(main())
