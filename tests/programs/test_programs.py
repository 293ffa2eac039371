"""MLX programs, unchanged, print under `ingot run` what they print with the real MLX.

The words must be the same, and the numbers but for one unit in the last place that is printed: MLX
and ingot add numbers up in different orders, and so do two kinds of processor.
"""

from __future__ import annotations

import re
from decimal import Decimal

import pytest

from .processes import HERE, printed, start

PROGRAMS = sorted(
    str(path.relative_to(HERE))
    for path in (*HERE.glob("*.py"), *HERE.glob("methods/*.py"), *HERE.glob("models/*.py"))
    if not path.stem.startswith("test_") and path.stem not in ("processes", "run_cells")
)
NUMBER = re.compile(r"(-?\d+\.\d+(?:e[+-]?\d+)?)")


def same_text(ours: str, theirs: str) -> bool:
    """Whether two texts are equal, but for the last places of numbers with a decimal point."""
    ours_parts, theirs_parts = NUMBER.split(ours), NUMBER.split(theirs)
    if len(ours_parts) != len(theirs_parts) or ours_parts[::2] != theirs_parts[::2]:
        return False
    pairs = zip(map(Decimal, ours_parts[1::2]), map(Decimal, theirs_parts[1::2]), strict=True)
    return all(abs(a - b) <= max(_unit(a), _unit(b)) for a, b in pairs)


def _unit(number: Decimal) -> Decimal:
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int)
    return Decimal(1).scaleb(exponent)


@pytest.mark.parametrize("program", PROGRAMS)
def test_prints_the_same(program: str) -> None:
    path = HERE / program
    theirs, ours = start(path, with_ingot=False), start(path, with_ingot=True)
    expected = printed(theirs)
    found = printed(ours)
    assert expected.count("\n") >= 5
    assert found == expected or same_text(found, expected), f"{found}\nMLX printed:\n{expected}"


def test_there_are_ten() -> None:
    assert len(PROGRAMS) >= 10


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("loss 0.123 after 7", "loss 0.124 after 7", True),
        ("loss 0.123 after 7", "loss 0.125 after 7", False),
        ("loss 0.123 after 7", "loss 0.123 after 8", False),
        ("[1.0, 2.50e-05]", "[1.0, 2.51e-05]", True),
        ("[1.0, 2.50e-05]", "[1.0, 2.50e-04]", False),
        ("array(-0.25, dtype=float32)", "array(-0.25, dtype=float16)", False),
        ("0.5 0.5", "0.5", False),
    ],
)
def test_the_comparison(one: str, other: str, same: bool) -> None:
    assert same_text(one, other) is same
