"""Results as text and as JSON."""

from __future__ import annotations

from typing import Any

from benchmarks.run import Result

__all__ = ["as_json", "lines"]

_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


def lines(result: Result) -> list[str]:
    """The table of one benchmark: times, and the ratios of ingot's time to the others'."""
    benchmark = result.benchmark
    table = [f"{benchmark.name}: {benchmark.title}"]
    for contender in result.contenders:
        if contender in result.missing:
            table.append(f"  {contender:<16}{result.missing[contender]}")
            continue
        row = f"  {contender:<16}{_time_text(result.best(contender)):>10}"
        ratio = result.ratio(contender)
        if ratio is not None:
            row += f"   ingot/{contender} = {ratio.value:.2f}"
            if ratio.target is not None:
                row += f"   target {ratio.target:g}: {'met' if ratio.met else 'MISSED'}"
        table.append(row)
    return table


def as_json(machine: dict[str, Any], results: list[Result]) -> dict[str, Any]:
    """Everything that was measured."""
    return {"machine": machine, "benchmarks": [_result_as_json(result) for result in results]}


def _result_as_json(result: Result) -> dict[str, Any]:
    contenders: dict[str, Any] = {}
    for contender in result.contenders:
        if contender in result.missing:
            contenders[contender] = {"missing": result.missing[contender]}
            continue
        numbers: dict[str, Any] = {
            "seconds": result.best(contender),
            "rounds": result.rounds[contender],
        }
        ratio = result.ratio(contender)
        if ratio is not None:
            numbers |= {"ratio": ratio.value, "target": ratio.target, "met": ratio.met}
        contenders[contender] = numbers
    return {
        "name": result.benchmark.name,
        "title": result.benchmark.title,
        "contenders": contenders,
    }


def _time_text(seconds: float) -> str:
    for size, unit in _UNITS:
        if seconds >= 0.9995 * size:  # what is rounded to 1000 is 1 of the next unit
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"
