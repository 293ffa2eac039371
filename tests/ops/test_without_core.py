"""Layers hold at run time: the rules of all ops work in a process without the public module."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.transforms.examples.ops import ELSEWHERE

import ingot.core  # all ops, to compare with  # noqa: F401
from ingot.graph.op import registry

PROGRAM = """
import runpy, sys

class NoCore:
    def find_spec(self, name, path=None, target=None):
        if name == "ingot.core" or name.startswith("ingot.core."):
            raise ImportError(f"{name} is not for the layers below it")

sys.meta_path.insert(0, NoCore())
runpy.run_module("tests.ops.without_core", run_name="__main__")
"""
PROJECT = Path(__file__).resolve().parent.parent.parent


def test_every_rule_of_every_op_works_without_core() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=PROJECT,
        check=False,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    used = set(done.stdout.split())
    # Those that compiled programs alone hold have no rules for transforms.
    elsewhere = ("tests/compiler", "tests/distributed")
    in_programs = {name for name, where in ELSEWHERE.items() if where.startswith(elsewhere)}
    missing = {
        name
        for name, kind in registry().items()
        if kind.__module__.startswith("ingot.ops.") and name not in used | in_programs
    }
    assert not missing, f"no example without core for {', '.join(sorted(missing))}"
