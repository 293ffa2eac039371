"""The text of an explanation: the tapes, the program with reasons, memory and the cache."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ingot.compiler import pipeline
from ingot.compiler.forms.nests import value_name
from ingot.compiler.forms.tape import Step, program_lines
from ingot.compiler.lower.products.choose import why_blas
from ingot.compiler.machine.work import Work
from ingot.compiler.options import SparseUpdate
from ingot.compiler.run.program import Program
from ingot.graph.reporting.source import Source

if TYPE_CHECKING:
    from ingot.explain.report import Explanation

__all__ = ["explanation_text", "section_text", "source_lines"]

MAX_REASONS = 10  # the latest reasons for compilations
MAX_LINES = 6  # lines of the user's source for one entry of the program


def explanation_text(explanation: Explanation) -> str:
    """All sections."""
    stages = explanation.stages
    work = explanation.work
    counts = [sum(each.kind == kind for each in work) for kind in ("kernel", "BLAS", "host")]
    lines = [
        f"{explanation.name}: {_count(len(stages.traced.steps), 'step')} traced, "
        f"{len(stages.simplified.steps)} after simplification, "
        f"{_count(counts[0], 'kernel')}, {_count(counts[1], 'BLAS call')}, "
        f"{_count(counts[2], 'host step')}"
    ]
    for name, (heading, _) in SECTIONS.items():
        body = section_text(explanation, name)
        if body:
            lines += ["", heading, *("  " + line for line in body.splitlines())]
    seconds = ", ".join(f"{name} {_time_text(x)}" for name, x in stages.seconds.items())
    total = _time_text(sum(stages.seconds.values()))
    return "\n".join([*lines, "", f"Compiled in {total}: {seconds}"])


def section_text(explanation: Explanation, name: str) -> str:
    """A section without its heading, or the output of a pass."""
    if name in SECTIONS:
        return "\n".join(SECTIONS[name][1](explanation))
    passes = [each.name for each in pipeline.PASSES]
    if name not in passes:
        known = ", ".join(dict.fromkeys(["trace", *passes, *SECTIONS]))
        raise ValueError(f"[explain] there is no section {name!r}: use one of {known}.")
    return str(explanation.stages.form(name).text())


def _traced(explanation: Explanation) -> Iterator[str]:
    yield explanation.stages.traced.text()


def _simplified(explanation: Explanation) -> Iterator[str]:
    yield from _simplifications(explanation)
    yield explanation.stages.simplified.text()


def _fused(explanation: Explanation) -> Iterator[str]:
    yield explanation.stages.schedule.text()
    yield from _remarks(explanation)


def _simplifications(explanation: Explanation) -> list[str]:
    report = explanation.stages.report
    numbers = explanation.stages.traced.numbers()
    return [
        *(f"merged %{numbers[gone]} into %{numbers[stays]}" for gone, stays in report.merged),
        *(f"computed %{numbers[step]} in advance" for step in report.folded),
        *(f"dropped no-op %{numbers[step]}" for step in report.no_ops),
        *(f"dropped unused %{numbers[step]}" for step in report.unused),
        *map(sparse_update_text, report.sparse),
    ]


def sparse_update_text(update: SparseUpdate) -> str:
    """A sentence about an update of some rows of a table."""
    lookup = f" of {update.source.short}" if isinstance(update.source, Source) else ""
    return (
        f"only the rows that the gradient{lookup} touches are updated, "
        f"at most {update.touched:,} of {update.rows:,}"
    )


def _remarks(explanation: Explanation) -> list[str]:
    """Captured state, and conditions on sizes."""
    numbers = explanation.stages.schedule.tape.numbers()
    constants = [step for step in explanation.constants if step.ndim > 0]
    return [
        *(f"%{numbers[s]} is captured: a constant of {s.nbytes:,} bytes" for s in constants),
        *(f"guard: {line}" for line in explanation.guards),
        *(f"machine code is valid for sizes with {line}" for line in explanation.conditions),
    ]


def _program(explanation: Explanation) -> Iterator[str]:
    """What runs, in order: what it reads and writes, the user's source lines, and the reason."""
    numbers = explanation.stages.schedule.tape.numbers()
    for position, work in enumerate(explanation.work):
        reason = explanation.reason(work)
        yield f"{position}: {_work_text(work, numbers)}"
        if work.kind == "host":
            yield f"     on the host: {reason}"
        elif work.kind == "routine":
            yield f"     by a native routine: {reason}"
        elif work.kind == "BLAS":
            yield f"     by BLAS: {why_blas(work.steps[0])}"
        elif work.kernel is not None and work.kernel.nest.strategy:
            yield f"     {work.kernel.nest.strategy}"
        sources = source_lines(work.steps)
        for source in sources[:MAX_LINES]:
            yield f"     {source.short}  {_line_text(source)}".rstrip()
        if len(sources) > MAX_LINES:
            yield f"     and {len(sources) - MAX_LINES} more lines"
        yield from program_lines(work.steps[0].op, _body)


def _work_text(work: Work, numbers: dict[Step, int]) -> str:
    """The values that an instruction reads and writes."""

    def names(steps: list[Step]) -> str:
        nothing = "partial results" if work.uses_scratch else "nothing"
        return ", ".join(value_name(step, numbers, "a copy") for step in steps) or nothing

    return (
        f"{work.kind} {work.name}: reads {names(work.reads)}; "
        f"writes {names(work.writes)}; {_bytes_text(work.nbytes)}{_parallelism(work)}"
    )


def _body(program: Program) -> str:
    """What the body of a loop or branch runs, in order."""
    numbers = program.schedule.tape.numbers()
    lines: list[str] = []
    for position, work in enumerate(program.executable.work):
        lines.append(f"{position}: {_work_text(work, numbers)}")
        lines += program_lines(work.steps[0].op, _body)
    return "\n".join(lines) or "nothing"


def _parallelism(work: Work) -> str:
    code = work.code
    if code is None:
        return ""
    if code.parts <= code.grain:
        return ", on one thread"
    return f", {code.parts:,} parallel iterations"


def _memory(explanation: Explanation) -> Iterator[str]:
    before, after = explanation.bytes_before, explanation.bytes_after
    yield f"bytes read and written: {before:,} step by step, {after:,} as compiled"
    yield (
        f"peak: {explanation.peak:,} bytes besides the arguments: "
        f"{explanation.arena:,} for intermediate values, the rest for results and constants"
    )
    if explanation.donations:
        saved = sum(step.nbytes for step in explanation.donations)
        numbers = explanation.stages.schedule.tape.numbers()
        names = explanation.stages.schedule.tape.names
        pairs = [
            f"%{numbers[result]} that of {names.get(given, f'%{numbers[given]}')}"
            for result, given in explanation.donations.items()
        ]
        more = f" and {len(pairs) - MAX_LINES} more" if len(pairs) > MAX_LINES else ""
        yield (
            f"{saved:,} bytes less if nothing else refers to the inputs: results take their "
            f"memory, {', '.join(pairs[:MAX_LINES])}{more}"
        )


def _cache(explanation: Explanation) -> Iterator[str]:
    info = explanation.cache.info
    if info is None:
        return
    yield (
        f"{_count(info.entries, 'entry', 'entries')}, {_count(info.hits, 'hit')}, "
        f"{_count(info.misses, 'miss', 'misses')}, {info.new_shapes} with new shapes, "
        f"{info.new_layouts} with a new layout, {_count(info.evictions, 'eviction')}"
    )
    for each in info.compilations[-MAX_REASONS:]:
        yield f"{each.kind}, compiled in {_time_text(each.seconds)}: {each.reason}"


SECTIONS: dict[str, tuple[str, Callable[[Explanation], Iterator[str]]]] = {
    "trace": ("Traced", _traced),
    "simplify": ("Simplified", _simplified),
    "fuse": ("Groups", _fused),
    "program": ("Program", _program),
    "memory": ("Memory", _memory),
    "cache": ("Cache", _cache),
}


def _count(number: int, one: str, several: str = "") -> str:
    return f"{number:,} {one if number == 1 else several or one + 's'}"


def source_lines(steps: list[Step]) -> list[Source]:
    """The lines of the user's source that created some steps."""
    return list(dict.fromkeys(s.source for s in steps if isinstance(s.source, Source)))


def _line_text(source: Source) -> str:
    """The text of a line; empty if the file cannot be read."""
    return linecache.getline(source.filename, source.line).strip()


def _bytes_text(number: float) -> str:
    """A number of bytes: "16.8 MB"."""
    for scale, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if number >= scale:
            return f"{number / scale:.3g} {unit}"
    return f"{number:.0f} bytes"


def _time_text(seconds: float) -> str:
    """A duration: "3.2 ms"."""
    for scale, unit in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"
