"""Prepares `.venv` for `make demo`, `make test` or `make bench`.

In: the names of the extras wanted. Out: a `.venv` that has them, with ingot installed in place and
its extension built. A step is skipped when it was done before and nothing it depends on has
changed; a `.venv` that was left half-made or was copied from elsewhere is made again. pip's own
configuration (index, proxy, certificates) is used as it is. Progress is one line a step; the full
output is in build/setup.log, and its end is shown when a step fails.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import re
import shlex
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from compiler import extra_requirements, find_compiler
from diagnose import diagnose

PROJECT = Path(__file__).resolve().parent.parent
VENV = PROJECT / ".venv"
PYTHON = VENV / "bin" / "python"
# Exists while .venv is being made or filled: found at the start, the last run was cut off.
UNFINISHED = PROJECT / "build" / "venv-unfinished"
# What was installed: the key that says whether there is anything to do.
STATE = VENV / "ingot-state.json"
LOG = PROJECT / "build" / "setup.log"
TAIL = 25

# Run by the .venv's own interpreter: what it is and what it has. A package is whole if it has the
# list of its files, which pip writes last, and all of them are there; that is looked at on request.
PROBE = """
import importlib.metadata, importlib.util, json, sys
import pip
def whole(package):
    return package.files is not None and all(
        path.locate().exists() for path in package.files if path.suffix != ".pyc"
    )
packages = list(importlib.metadata.distributions())
ingot = importlib.util.find_spec("ingot")
print(json.dumps({
    "version": sys.version_info[:2],
    "packages": [package.metadata["Name"] for package in packages if package.metadata["Name"]],
    "whole": "whole" not in sys.argv or all(map(whole, packages)),
    "ingot": ingot and ingot.origin,
}))
"""


class SetupError(Exception):
    """A step that failed, with what to tell the user."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("extras", nargs="*", help="extras of pyproject.toml that are wanted")
    wanted = parser.parse_args().extras
    LOG.parent.mkdir(exist_ok=True)
    try:
        # `make demo` and `make test` at once must not install into the same .venv at the same time.
        with open(LOG.parent / "setup.lock", "w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                say("waiting for another set-up of this folder to finish ...")
                fcntl.flock(lock, fcntl.LOCK_EX)
            LOG.write_text("")
            prepare(wanted)
    except SetupError as failure:
        print(f"ingot: FAILED: {failure}", file=sys.stderr)
        print(f"       The whole output is in {LOG.relative_to(PROJECT)}.", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ningot: interrupted; the same command picks up from here.", file=sys.stderr)
        return 130
    return 0


def prepare(wanted: list[str]) -> None:
    probe = make_venv()
    state = read_state()
    # What was installed once stays: `make test` after `make bench` takes nothing away.
    extras = sorted({*wanted, *state.get("extras", [])})
    needed = requirements(extras)
    installed = {canonical(name) for name in probe["packages"]}
    if state.get("requirements") != needed or not set(map(project_name, needed)) <= installed:
        install_requirements(needed, extras)
    # Whoever has the test dependencies is a developer; users may have a compiler unknown to us.
    if "test" in extras:
        os.environ["INGOT_WARNINGS_ARE_ERRORS"] = "1"
    build_native()
    # What the installed metadata is made from: names, versions and entry points.
    description = (PROJECT / "pyproject.toml").read_text()
    in_place = probe["ingot"] == str(PROJECT / "src" / "ingot" / "__init__.py")
    if state.get("description") != description or not in_place:
        with step("installing ingot in place"):
            pip("install", "--no-deps", "--no-build-isolation", "--editable", ".")
        write_state(description=description)
    load_native()


def make_venv() -> dict:
    """Keeps a sound .venv; makes one where there is none or the present one is broken."""
    reason = ""
    if VENV.exists():
        probe, trouble = inspect_venv()
        if probe is not None:
            return probe
        reason = f": the present one {trouble}"
    version = ".".join(map(str, sys.version_info[:3]))
    with step(f"making .venv with Python {version}{reason}"):
        # `venv --clear` empties a folder, but cannot replace a file or a dangling link.
        if VENV.is_symlink() or VENV.is_file():
            VENV.unlink()
        UNFINISHED.touch()
        run([sys.executable, "-m", "venv", "--clear", str(VENV)])
        UNFINISHED.unlink()
    probe, trouble = inspect_venv()
    if probe is None:
        raise SetupError(f"the new .venv {trouble}.")
    return probe


def inspect_venv() -> tuple[dict | None, str]:
    """What the .venv has, or None and what is wrong with it."""
    if not PYTHON.exists():
        return None, "has no Python"
    # Packages are looked at closely only where an installation was cut off: it takes a second.
    closely = ["whole"] if UNFINISHED.exists() else []
    found = subprocess.run([str(PYTHON), "-c", PROBE, *closely], **quiet())
    if found.returncode != 0:
        return None, "does not run or has no pip"
    probe = json.loads(found.stdout)
    if not probe["whole"]:
        return None, "was left half-made"
    UNFINISHED.unlink(missing_ok=True)
    if tuple(probe["version"]) < (3, 11):
        return None, "has a Python older than 3.11"
    if os.environ.get("PYTHON") and tuple(probe["version"]) != sys.version_info[:2]:
        return None, f"has another Python than PYTHON={os.environ['PYTHON']}"
    # A copied .venv still runs, but the ingot in it is that of the folder it was copied from.
    activate = VENV / "bin" / "activate"
    if not activate.exists() or str(VENV) not in activate.read_text():
        return None, "was made in another folder"
    return probe, ""


def requirements(extras: list[str]) -> list[str]:
    """Everything to install, from pyproject.toml: to build, to run, and for the extras."""
    content = tomllib.loads((PROJECT / "pyproject.toml").read_text())
    project = content["project"]
    lines = [*content["build-system"]["requires"], *extra_requirements(), *project["dependencies"]]
    pending, seen = list(extras), set()
    while pending:
        extra = pending.pop()
        if extra in seen:
            continue
        seen.add(extra)
        if extra not in project["optional-dependencies"]:
            raise SetupError(f"pyproject.toml has no extra called {extra!r}.")
        for line in project["optional-dependencies"][extra]:
            # An extra made of other extras: "ingot-ml[test,cli]".
            if found := re.fullmatch(rf"{project['name']}\[(.+)\]", line):
                pending += [name.strip() for name in found[1].split(",")]
            else:
                lines.append(line)
    return sorted(set(lines))


def install_requirements(needed: list[str], extras: list[str]) -> None:
    purpose = f" for {', '.join(extras)}" if extras else ""
    with step(f"installing {len(needed)} packages and what they need{purpose}"):
        UNFINISHED.touch()
        try:
            pip("install", *needed)
        except SetupError:
            # pip itself undoes what it had begun; only being killed leaves things half-made.
            UNFINISHED.unlink(missing_ok=True)
            raise
        write_state(requirements=needed, extras=extras)
        UNFINISHED.unlink()


def build_native() -> None:
    """Compiles what changed; quick when nothing did."""
    before = {path: path.stat().st_mtime_ns for path in built_modules()}
    compiler = Path(find_compiler().command[0]).name if not extra_requirements() else "Zig"
    if not before:
        say(f"building the extension with {compiler}, which takes a minute or two ...")
    started = time.monotonic()
    output = run([str(PYTHON), "setup.py", "build_ext", "--inplace"])
    if {path: path.stat().st_mtime_ns for path in built_modules()} != before:
        done = "  done in" if not before else f"built the extension with {compiler} in"
        say(f"{done} {time.monotonic() - started:.1f} s")
    for line in output.splitlines():
        if re.search(r"\.[ch]:\d+.*warning:", line):
            print(f"       {line}")


def load_native() -> None:
    """Finds out now, not in a puzzling ImportError later, if what was built cannot be loaded."""
    loaded = subprocess.run([str(PYTHON), "-c", "import ingot._native"], **quiet())
    if loaded.returncode != 0:
        log(loaded.stderr)
        raise failed("loading the extension", loaded.stderr)


def built_modules() -> list[Path]:
    return list((PROJECT / "src" / "ingot").glob("_native*.so"))


def pip(*arguments: str) -> str:
    return run([str(PYTHON), "-m", "pip", "--disable-pip-version-check", *arguments])


def run(command: list[str]) -> str:
    """Runs a command with its output in the log; a failure says why, with the end of the output."""
    log(f"\n$ {shlex.join(command)}\n")
    done = subprocess.run(command, **quiet(stderr=subprocess.STDOUT))
    log(done.stdout)
    if done.returncode != 0:
        raise failed(shlex.join(command[:4]) + " ...", done.stdout)
    return done.stdout


def failed(what: str, output: str) -> SetupError:
    # The compiler's command lines are long and say nothing; they are in the log.
    lines = [line if len(line) <= 160 else f"{line[:160]} ..." for line in output.splitlines()]
    tail = "\n".join(f"       | {line}" for line in lines[-TAIL:])
    cause = diagnose(output) or f"{what} went wrong; its last words:"
    return SetupError(f"{cause}\n{tail}")


def quiet(**changes: object) -> dict:
    """How to run a command: captured, in the project, without the user's other Python settings."""
    foreign = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PIP_USER", "PIP_TARGET", "PIP_PREFIX"}
    environment = {name: value for name, value in os.environ.items() if name not in foreign}
    # `user = true` in pip's configuration would make every installation into a .venv fail.
    environment.update(PYTHONNOUSERSITE="1", PIP_USER="0", LC_ALL="C.UTF-8")
    settings: dict = {
        "cwd": PROJECT,
        "env": environment,
        "stdin": subprocess.DEVNULL,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        "text": True,
        "errors": "replace",
    }
    return {**settings, **changes}


@contextmanager
def step(what: str) -> Iterator[None]:
    """Says what is being done, and how long it took."""
    started = time.monotonic()
    say(f"{what} ...")
    yield
    say(f"  done in {time.monotonic() - started:.1f} s")


def say(text: str) -> None:
    print(f"ingot: {text}", flush=True)


def log(text: str) -> None:
    with open(LOG, "a") as file:
        file.write(text)


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def project_name(requirement: str) -> str:
    """The project that a requirement line names."""
    return canonical(re.match(r"[A-Za-z0-9._-]+", requirement)[0])  # type: ignore[index]


def read_state() -> dict:
    try:
        return json.loads(STATE.read_text())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return {}


def write_state(**changes: object) -> None:
    STATE.write_text(json.dumps({**read_state(), **changes}, indent=1))


if __name__ == "__main__":
    sys.exit(main())
