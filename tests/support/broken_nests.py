"""Builders of nests that break one rule of the verifier, with what it must say about each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ingot.compiler.forms.nest.build import NestBuilder
from ingot.compiler.forms.nest.verify import NestError, verify

__all__ = ["Broken", "BrokenNests"]

Broken = Callable[[Any], Any]  # builds the nest with the example of its module


class BrokenNests(dict[str, tuple[str, Broken]]):
    """The builders of a module by name; `reported_as` adds one."""

    def reported_as(self, problem: str) -> Callable[[Broken], Broken]:
        """A decorator: the verifier reports the nest of the builder as `problem`."""

        def add(build: Broken) -> Broken:
            self[build.__name__] = (problem, build)
            return build

        return add

    def check(self, name: str, example: NestBuilder) -> None:
        """Builds a nest with the example, which the verifier must reject."""
        problem, build = self[name]
        build(example)
        with pytest.raises(NestError, match=problem):
            verify(example.nest)
