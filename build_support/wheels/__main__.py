"""Builds wheels for all versions and processors, and tries each in a clean environment.

    python build_support/wheels [--only cp314-aarch64] [--no-trial]

In: the sources, Zig and auditwheel from the package index, interpreters from Debian's packages.
Out: dist/ingot_ml-*.whl. What is not compiled is the same in all wheels and is taken from that of
this interpreter; the extension is compiled for each.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent))

from compilation import GLIBC, build_module
from installation import environment, install, run
from interpreters import DEBIAN_NAMES, PROJECT, SUITES, PackagesMissingError, Target

WORK = PROJECT / "build" / "wheels"
DIST = PROJECT / "dist"
TARGETS = [Target(version, machine) for machine in DEBIAN_NAMES for version in SUITES]


def main() -> None:
    """Builds, checks and tries the wheels that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", metavar="cp314-aarch64", help="such targets")
    parser.add_argument("--no-trial", action="store_true", help="build, and run nothing")
    options = parser.parse_args()
    names = {f"{target.tag}-{target.machine}": target for target in TARGETS}
    if unknown := set(options.only or ()) - names.keys():
        sys.exit(f"error: no target {', '.join(sorted(unknown))}; there are {', '.join(names)}.")
    chosen = [names[name] for name in options.only or names]
    common = unpacked_wheel()
    try:
        for target in chosen:
            make(target, common, trial=not options.no_trial)
    except PackagesMissingError as error:
        sys.exit(f"error: {error}")


def make(target: Target, common: Path, *, trial: bool) -> None:
    """One wheel, checked, and tried with its interpreter."""
    started = time.monotonic()
    wheel = packed(target, common)
    audit(wheel, target)
    print(f"{wheel.relative_to(PROJECT)}  built in {time.monotonic() - started:.0f} s", flush=True)
    if trial:
        started = time.monotonic()
        said = tried(target, wheel)
        how = "" if target.native else ", emulated"
        print(f"    {said} ({time.monotonic() - started:.0f} s{how})", flush=True)


def unpacked_wheel() -> Path:
    """The wheel of this interpreter, unpacked."""
    shutil.rmtree(WORK, ignore_errors=True)
    run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet"]
        + ["--no-deps", "--no-build-isolation", "--wheel-dir", str(WORK / "own"), str(PROJECT)]
    )
    (wheel,) = (WORK / "own").glob("*.whl")
    run([sys.executable, "-m", "wheel", "unpack", "--dest", str(WORK / "common"), str(wheel)])
    (folder,) = (WORK / "common").iterdir()
    for module in (folder / "ingot").glob("_native*.so"):
        module.unlink()
    return folder


def packed(target: Target, common: Path) -> Path:
    """The wheel of a target: what is common, and its extension."""
    work = WORK / f"{target.tag}-{target.machine}"
    module = build_module(target, work / "objects")
    folder = work / common.name
    shutil.copytree(common, folder)
    shutil.copy2(module, folder / "ingot" / module.name)
    (metadata,) = folder.glob("*.dist-info/WHEEL")
    tag = f"{target.tag}-{target.tag}-manylinux_{GLIBC.replace('.', '_')}_{target.machine}"
    lines = [line for line in metadata.read_text().splitlines() if not line.startswith("Tag:")]
    metadata.write_text("\n".join([*filter(None, lines), f"Tag: {tag}"]) + "\n")
    DIST.mkdir(exist_ok=True)
    run([sys.executable, "-m", "wheel", "pack", "--dest-dir", str(DIST), str(folder)])
    (wheel,) = DIST.glob(f"*-{tag}.whl")
    return wheel


def audit(wheel: Path, target: Target) -> None:
    """Has auditwheel confirm what the name of the wheel promises."""
    said = run([sys.executable, "-m", "auditwheel", "show", str(wheel)])
    policies = [word.strip('".,') for word in said.split() if "manylinux_" in word]
    promised = tuple(map(int, GLIBC.split(".")))
    fitting = [
        policy
        for policy in policies
        if policy.endswith(target.machine) and tuple(map(int, policy.split("_")[1:3])) <= promised
    ]
    if not fitting:
        sys.exit(f"error: {wheel.name} needs more than its name says:\n{said}")


def tried(target: Target, wheel: Path) -> str:
    """Installs a wheel into a new folder with what it depends on, and runs the smoke program."""
    site = WORK / f"{target.tag}-{target.machine}" / "site"
    install(target, site, [str(wheel)])
    smoke = str(Path(__file__).with_name("smoke.py"))
    said = run([*target.command(), smoke], environment(target, site))
    return said.splitlines()[-1]  # NumPy's BLAS warns of sums that emulated processors flag


if __name__ == "__main__":
    main()
