"""The tests on an emulated ARM processor: `make test-arm`.

    python build_support/wheels/emulated_tests.py [--seconds 3600] [--sample 0] [tests/ops/fft ...]

In: Debian's Python for arm64 and qemu-user, both unpacked below build/interpreters, the wheel that
`make wheels` builds for them, and the test dependencies' wheels from the package index. Out: a line
for each batch of test files, and how many tests passed.

One emulated core is some twenty times as slow as a real one. So LLVM compiles kernels for the
emulated processor outside of the emulation (`cross_compiler.py`), except in the tests of what calls
it; of the parameter sets of a test function one is run, which `--seed` chooses, and of the examples
of hypothesis a few. What differs between processors runs twice: with the vectors of NEON, and with
those of SVE. Left out is what needs a browser, MPI or real models, and the longest campaigns.
A process that crashes or hangs costs the file it was at; another goes on with the rest.
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
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent))

from cross_compiler import DESCRIBE, Processor, serving, version
from installation import environment, install, run
from interpreters import PROJECT, Target

TARGET = Target("3.13", "aarch64")  # whose C library is new enough for MLX's wheel
WORK = PROJECT / "build" / "test-arm"
SITE = WORK / "site-packages"
DEPENDENCIES = """
    pytest>=8.2 hypothesis>=6.100 mlx[cpu]>=0.29 mpmath>=1.3 scikit-learn>=1.4 matplotlib>=3.8
    rich>=13 gguf>=0.17
""".split()
# The emulated processors. Signing of return addresses is emulated slowly, and is not tested here.
NEON = "max,pauth=off,sve=off"
SVE = "max,pauth=off,sve-default-vector-length=32"
# Where LLVM is emulated too: what loads and calls it.
WITH_LLVM = """
    tests/compiler/machine/test_jit.py tests/compiler/machine/test_llvm_library.py
    tests/compiler/machine/test_object_file.py tests/compiler/machine/test_kernels.py
""".split()
# What differs between processors comes first: machine code, the math library, products.
FIRST = """
    tests/compiler/machine tests/compiler/llvm tests/ops/products tests/compiler/lower/products
    tests/ops/elementwise tests/ops/reduce tests/ops/attention tests/ops/quantized tests/native
""".split()
WITH_SVE = """
    tests/compiler/llvm tests/ops/products tests/compiler/lower/products tests/ops/elementwise
    tests/ops/reduce
""".split()
# The last two start MPI, which is not installed there.
LEFT_OUT = re.compile(
    "tests/(language_models|examples|cli|fuzz|array_api|support|search|programs|explain/page"
    "|benchmarks|compiler/llvm/agreement|compiler/goldens|oracle/(cases|harness|walk)"
    r"|distributed|ops/test_distributed\.py)(/|$)"
)
# Importing what tests need takes a quarter of a minute.
FILES_IN_A_BATCH = 48


@dataclass(frozen=True)
class Batch:
    """Test files that one emulated process runs."""

    name: str
    files: list[str]
    processor: str = NEON
    emulates_llvm: bool = False


@dataclass
class Result:
    """What became of a batch: lines of the form `passed 0.31 tests/...::test_some[1]`, and
    `covered 4.20 tests/...` for a file that is done.
    """

    batch: Batch
    lines: list[str]
    problem: str
    seconds: float

    def counts(self) -> Counter[str]:
        """How many tests passed, failed, ..."""
        found = Counter(line.partition(" ")[0] for line in self.lines)
        found["failed"] += bool(self.problem)
        del found["covered"]
        return found

    def covered(self) -> list[str]:
        """The files that are done, in order."""
        lines = (line.split(" ", 2) for line in self.lines)
        return [file for word, _, file in lines if word == "covered"]

    def rest(self) -> Batch | None:
        """What is left to another process, if this one crashed or hung: the files after that at
        which it did.
        """
        done = set(self.covered())
        left = [file for file in self.batch.files if file not in done][1:]
        if not self.problem or not left:
            return None
        return replace(self.batch, name=f"{self.batch.name}, the rest", files=left)

    def text(self) -> str:
        """A line about it, and one for each failure."""
        failed = [line for line in self.lines if line.startswith("failed")]
        problems = failed + [self.problem] * bool(self.problem)
        return "\n    ".join(
            [f"{self.batch.name}: {told(self.counts())} ({self.seconds:.0f} s)", *problems]
        )


def main() -> int:
    """Runs the folders that were asked for, or all, until the time is up."""
    options = arguments()
    python = emulated_python(build=not options.no_build)
    started = time.monotonic()
    deadline = time.time() + options.seconds
    batches = batches_of(options.folders)
    total: Counter[str] = Counter()
    covered: Counter[str] = Counter()
    with ExitStack() as stack:
        sockets = {name: stack.enter_context(compiling(python, name)) for name in (NEON, SVE)}

        def ran(batch: Batch) -> Result:
            variables = {
                "INGOT_SAMPLE": str(options.sample),
                "INGOT_SEED": str(options.seed),
                "INGOT_HYPOTHESIS": "few",
                "INGOT_DEADLINE": str(deadline),
            }
            if not batch.emulates_llvm:
                variables["INGOT_TEST_COMPILER"] = sockets[batch.processor]
            return tested(python, batch, variables, options.patience)

        for result in results(batches, ran, options.workers, deadline):
            print(result.text(), flush=True)
            total.update(result.counts())
            covered.update(result.covered())
    wanted = Counter(file for batch in batches for file in batch.files)
    done = sum(covered[file] >= times for file, times in wanted.items())
    print(
        f"ingot: make test-arm: {told(total)} in {time.monotonic() - started:.0f} s, "
        f"in {done} of {len(wanted)} test files"
    )
    return 1 if total["failed"] else 0


def results(
    batches: list[Batch], ran: Callable[[Batch], Result], workers: int, deadline: float
) -> Iterator[Result]:
    """The results of batches as they end, with those of the processes that went on with the rest of
    one that crashed. After the deadline none begins.
    """
    waiting = batches[::-1]
    with ThreadPoolExecutor(workers) as pool:
        running: set[Future[Result]] = set()
        while running or waiting:
            while waiting and len(running) < workers:
                batch = waiting.pop()
                if time.time() < deadline:
                    running.add(pool.submit(ran, batch))
            ended, running = wait(running, return_when=FIRST_COMPLETED)
            for future in ended:
                result = future.result()
                yield result
                if (rest := result.rest()) is not None:
                    waiting.append(rest)


def arguments() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--seconds", type=float, default=3600, help="begin nothing after that")
    add("--sample", type=int, default=1, help="parameter sets of a test function; 0: all")
    add("--seed", type=int, default=0, help="chooses the parameter sets")
    add("--workers", type=int, default=os.cpu_count(), help="emulated processes at a time")
    # On a busy machine, a test that starts an emulated program takes minutes.
    add("--patience", type=float, default=1800, help="seconds without an end of any test")
    add("--no-build", action="store_true", help="take the wheel of the last run")
    add("folders", nargs="*", help="such as tests/ops/fft, or files")
    return parser.parse_args()


def told(counts: Counter[str]) -> str:
    """Counts as text."""
    return ", ".join(f"{count} {word}" for word, count in counts.items() if count) or "no tests"


def batches_of(asked: list[str]) -> list[Batch]:
    """All batches, the most interesting ones first; those of some folders or files only, if any
    were asked for.
    """
    files = sorted(
        str(file.relative_to(PROJECT)) for file in (PROJECT / "tests").rglob("test_*.py")
    )
    if asked:
        kept = [file for file in files if is_below(file, asked)]
        return [*split("SVE", kept, SVE), *split("NEON", kept, NEON)]
    kept = [file for file in files if not LEFT_OUT.match(file) and file.count("/") > 1]
    with_llvm = [file for file in kept if is_below(file, WITH_LLVM)]
    kept = [file for file in kept if file not in with_llvm]
    first = [file for folder in FIRST for file in kept if is_below(file, [folder])]
    return [
        Batch("NEON with emulated LLVM", with_llvm, emulates_llvm=True),
        *split("SVE", [file for file in first if is_below(file, WITH_SVE)], SVE),
        *split("NEON", list(dict.fromkeys([*first, *kept])), NEON),
    ]


def is_below(file: str, folders: list[str]) -> bool:
    """Whether a file is one of those, or in one of them."""
    return any(file == folder or file.startswith(folder.rstrip("/") + "/") for folder in folders)


def split(name: str, files: list[str], processor: str) -> Iterator[Batch]:
    """Batches of neighbouring files."""
    for start in range(0, len(files), FILES_IN_A_BATCH):
        some = files[start : start + FILES_IN_A_BATCH]
        where = os.path.commonpath(some) if len(some) > 1 else some[0]
        yield Batch(f"{name} {start // FILES_IN_A_BATCH + 1}, {where}", some, processor)


def emulated_python(*, build: bool) -> Path:
    """A script that runs the emulated interpreter with ingot and the dependencies installed."""
    folder = Path(__file__).parent
    if build:
        run([sys.executable, str(folder), "--only", f"{TARGET.tag}-{TARGET.machine}", "--no-trial"])
    (wheel,) = (PROJECT / "dist").glob(f"*-{TARGET.tag}-*_{TARGET.machine}.whl")
    site = SITE
    # The same version of LLVM as here.
    llvm = run([sys.executable, "-c", "import llvmlite; print(llvmlite.__version__)"]).strip()
    wanted = [*DEPENDENCIES, f"llvmlite=={llvm}"]
    complete = site / "complete"
    if not complete.exists() or complete.read_text() != str(wanted):
        shutil.rmtree(site, ignore_errors=True)
        install(TARGET, site, [str(wheel), *wanted])
        complete.write_text(str(wanted))
    # That of today.
    shutil.rmtree(WORK / "wheel", ignore_errors=True)
    run([sys.executable, "-m", "wheel", "unpack", "--dest", str(WORK / "wheel"), str(wheel)])
    shutil.rmtree(site / "ingot")
    (package,) = (WORK / "wheel").glob("*/ingot")
    shutil.move(package, site / "ingot")
    script = WORK / "python"
    # Also for programs whose environment is not that of the test that starts them.
    script.write_text(
        f'#!/bin/sh\nexport PYTHONHOME={TARGET.root / "usr"} QEMU_CPU="${{QEMU_CPU:-{NEON}}}"\n'
        f'export PYTHONPATH="{site}${{PYTHONPATH:+:$PYTHONPATH}}"\n'
        f'exec {" ".join(TARGET.command())} "$@"\n'
    )
    script.chmod(0o755)
    # Programs that tests start are emulated too.
    shutil.copy(folder / "remote_llvm.py", site)
    (site / "sitecustomize.py").write_text(
        f"import site\nimport sys\n\nimport remote_llvm\n\nsys.executable = {str(script)!r}\n"
        f"site.USER_SITE = {str(site)!r}  # what is there is not the user's code\n"
        "remote_llvm.install()\n"
    )
    return script


def variables_of(processor: str) -> dict[str, str]:
    """The environment of emulated processes."""
    return {
        **environment(TARGET, SITE),
        "QEMU_CPU": processor,
        "LANG": os.environ.get("LANG", "C.UTF-8"),
        "INGOT_CACHE": "on",
        "INGOT_CACHE_DIR": str(WORK / "cache"),
        "INGOT_CACHE_SIZE": "4000",
    }


def compiling(python: Path, processor: str) -> AbstractContextManager[str]:
    """The service that compiles for an emulated processor."""
    described = Processor.of(run([str(python), "-c", DESCRIBE], variables_of(processor)))
    if described.version != version():
        sys.exit(
            f"error: LLVM is {version()} here, and {described.version} in {SITE}: "
            "remove that folder."
        )
    return serving(described)


def tested(python: Path, batch: Batch, variables: dict[str, str], patience: float) -> Result:
    """Runs a batch; it is ended if no test ends for too long."""
    begun = time.monotonic()
    stem = re.sub(r"\W+", "_", batch.name)
    log, record = WORK / f"{stem}.txt", WORK / f"{stem}.record"
    record.write_text("")
    environment = {**variables_of(batch.processor), **variables, "INGOT_RECORD": str(record)}
    environment["PYTHONPATH"] += f":{Path(__file__).resolve().parent}"
    command = [str(python), "-u", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "sampled"]
    command += ["--continue-on-collection-errors"]
    with log.open("w") as file:
        process = subprocess.Popen(
            [*command, "--tb=short", *batch.files],
            cwd=PROJECT,
            env=environment,
            stdout=file,
            stderr=subprocess.STDOUT,
        )
        problem = ""
        while process.poll() is None:
            time.sleep(0.2)
            if time.time() - record.stat().st_mtime > patience:
                process.kill()
                problem = f"no test ended in {patience:.0f} s, see {log}"
    stopped = time.time() > float(variables["INGOT_DEADLINE"])
    # Passed, failed, no tests; 2 where it was interrupted.
    if not problem and process.returncode not in (0, 1, 5, *[2] * stopped):
        problem = f"pytest ended with {process.returncode}, see {log}"
    return Result(batch, record.read_text().splitlines(), problem, time.monotonic() - begun)


if __name__ == "__main__":
    sys.exit(main())
