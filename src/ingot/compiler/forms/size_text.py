"""Sizes and the conditions on them, as text."""

from __future__ import annotations

from collections.abc import Callable

from ingot.compiler.forms.size import Number, Size
from ingot.compiler.forms.sizes import Range, Sizes

__all__ = ["condition_lines"]


def condition_lines(sizes: Sizes, name_of: Callable[[int], str]) -> list[str]:
    """Every condition on shapes. `name_of` names the dimension with a number."""
    lines = [
        f"{name_of(number)} == {value}: an op needs the number"
        for number, value in sizes.numbers.items()
    ]
    for form, known in sizes.ranges.items():
        if known.is_condition:
            size = Size(sizes, dict(form), 0, 0)
            lines += _lines(_text(sizes, size, name_of), known)
    return lines


def _lines(size: str, known: Range) -> list[str]:
    why = f": {known.why} needs the number" if known.why else ""
    found = []
    if known.low is not None and known.low == known.high:
        return [f"{size} == {known.low}{why}"]
    if known.low is not None and known.high is not None:
        found.append(f"{known.low} <= {size} <= {known.high}")
    elif known.low is not None:
        found.append(f"{size} >= {known.low}")
    elif known.high is not None:
        found.append(f"{size} <= {known.high}")
    found += [f"{size} != {number}" for number in sorted(known.excluded)]
    return found


def _text(sizes: Sizes, x: Number, name_of: Callable[[int], str]) -> str:
    """A size in terms of dimensions."""
    if type(x) is not Size:
        return str(x)
    names: dict[int, str] = {}
    for monomial in x.terms:
        for number in monomial:
            atom = sizes.atoms[number]
            if atom.kind == "dimension":
                names[number] = name_of(atom.operands[0])
                continue
            operands = [_text(sizes, operand, name_of) for operand in atom.operands]
            if atom.kind == "max":
                names[number] = f"max({', '.join(operands)})"
            elif atom.kind == "later":
                names[number] = f"({operands[0]})"
            else:
                sign = "//" if atom.kind == "floordiv" else "%"
                names[number] = f"(({operands[0]}) {sign} ({operands[1]}))"
    return x.text(names)
