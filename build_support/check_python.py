"""Says whether the interpreter that runs this can build and run ingot.

Out: exit status 0, or 1 and one line for each thing that is missing. Written so that any Python
since 2.7 can read it: its first job is to tell an old one that it is too old.
"""

import os
import sys

OLDEST = (3, 11)


def problems():
    """What this interpreter lacks, as (sentence, Debian package or None) pairs."""
    if sys.version_info[:2] < OLDEST:
        return [("is Python %d.%d, older than %d.%d" % (sys.version_info[:2] + OLDEST), None)]
    import importlib.util
    import sysconfig

    package = "python%d.%d" % sys.version_info[:2]
    if sys.executable == "/usr/bin/python3":
        package = "python3"
    found = []
    # Debian has `venv` without `ensurepip` until python3-venv is installed.
    if not (importlib.util.find_spec("venv") and importlib.util.find_spec("ensurepip")):
        found.append(("cannot make virtual environments (no ensurepip)", package + "-venv"))
    if not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")):
        found.append(("has no C headers (no Python.h)", package + "-dev"))
    return found


def main():
    found = problems()
    for sentence, _ in found:
        print("  %s %s" % (sys.executable, sentence))
    packages = [package for _, package in found if package]
    if packages:
        print("    on Debian or Ubuntu: sudo apt install %s" % " ".join(packages))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
