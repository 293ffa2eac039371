"""Checks the layers' import rules (pyproject.toml, [tool.importlinter]): silent when they hold.

import-linter prints a page of banner and progress in every case; here a failure shows the broken
contracts only.
"""

from __future__ import annotations

import contextlib
import io
import sys

from importlinter.cli import lint_imports


def main() -> int:
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        status = lint_imports()
    if status != 0:
        _, found, broken = output.getvalue().partition("Broken contracts")
        print(broken if found else output.getvalue(), file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
