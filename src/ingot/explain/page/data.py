"""The contents of the page as plain values: the graph of each stage with its layout, the
instructions, and the texts of the kernels.
"""

from __future__ import annotations

import linecache
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ingot import __version__
from ingot.compiler.forms.nests import value_name
from ingot.compiler.forms.schedule import Group
from ingot.compiler.forms.tape import Step, Tape, program_lines
from ingot.compiler.lower.domain import immediate_value, is_immediate
from ingot.compiler.machine.jit import assembly, machine_description
from ingot.compiler.machine.work import Work
from ingot.compiler.pipeline import Stages
from ingot.explain.limits import machine_limits
from ingot.explain.page.hot_loop import hot_loop
from ingot.explain.page.layout import layered
from ingot.explain.text import source_lines
from ingot.graph.op import parameters
from ingot.graph.reporting.source import Source
from ingot.graph.roles import View, role_of

if TYPE_CHECKING:
    from ingot.explain.report import Explanation

__all__ = ["kernel_texts", "page_data"]

LETTER = 7.2  # the width of a letter of a box's title, in pixels
SMALL_LETTER = 6.0
BOX_HEIGHT = 40.0
CARD_LINE = 15.0
MAX_CARD_LINES = 7
CONTEXT = 1  # lines of context around a source line


def page_data(explanation: Explanation) -> dict[str, Any]:
    """Everything but the long texts."""
    stages = explanation.stages
    work_of = _work_of_groups(explanation)
    group_of = {
        step: number
        for number, group in enumerate(stages.schedule.groups)
        for step in group.steps
        if group.kind not in ("view", "iota")
    }
    described = explanation.to_dict()
    return {
        "name": explanation.name,
        "version": __version__,
        "machine": " ".join(machine_description().split()[:3]),
        "limits": _limits(explanation),
        "stages": [
            _tape_stage("Trace", stages.traced, {}, _fates(explanation)),
            _tape_stage("Simplify", stages.simplified, group_of, {}),
            *_expanded_stage(stages, group_of),
            _fused_stage(explanation, work_of),
        ],
        "texts": described["tapes"],
        "work": _work(explanation, group_of),
        "bytes": described["bytes"],
        "native": described["native"],
        "constants": described["constants"],
        "capturedState": described["captured_state"],
        "guards": described["guards"],
        "seconds": described["seconds"],
        "cache": described["cache"],
    }


def _limits(explanation: Explanation) -> dict[str, float] | None:
    """The peak rates of the machine, if there are times to compare with them."""
    if explanation.seconds_by_work is None:
        return None
    limits = machine_limits()
    return {"bytes": limits.bytes_per_second, "flops": limits.flops_per_second}


def kernel_texts(explanation: Explanation) -> list[dict[str, str]]:
    """Loops, LLVM code and machine code of each entry of the program; empty for what is no
    kernel.
    """
    made: dict[str, str] = {}
    texts: list[dict[str, str]] = []
    for work in explanation.work:
        if work.code is None:
            texts.append(_body_texts(work))
            continue
        code = work.code.text
        if code not in made:
            made[code] = assembly(code)
        texts.append(
            {
                "loops": explanation.loops(work),
                "llvm": code,
                "assembly": made[code],
                "hot": hot_loop(made[code]),
            }
        )
    return texts


def _body_texts(work: Work) -> dict[str, str]:
    """The loops and the LLVM code of the programs that a host step runs; empty if it runs none."""
    op = work.steps[0].op
    loops = program_lines(op, lambda program: program.form("lower").text())
    code = program_lines(op, lambda program: program.form("generate").text())
    return {"loops": "\n".join(loops), "llvm": "\n".join(code)} if loops else {}


# Graphs of tapes


def _tape_stage(
    title: str, tape: Tape, group_of: dict[Step, int], fates: dict[Step, str]
) -> dict[str, Any]:
    """The graph of a tape. Constant numbers, broadcast or not, are shown in each step that
    takes them.
    """
    numbers = tape.numbers()
    outputs = set(tape.outputs)
    nodes: list[dict[str, Any]] = []
    box_of: dict[Step, int] = {}
    edges: dict[tuple[int, int], None] = {}

    def add(step: Step) -> int:
        details = {"group": group_of.get(step, -1), "fate": fates.get(step, "")}
        nodes.append(_node(step, tape, numbers) | details | {"result": step in outputs})
        return len(nodes) - 1

    for step in tape.steps:
        if is_immediate(step) and step not in outputs:
            continue
        taken = {s: add(s) for s in step.inputs if is_immediate(s) and s not in box_of}
        box_of[step] = add(step)
        for source in step.inputs:
            edges[taken[source] if source in taken else box_of[source], box_of[step]] = None
    return _placed(title, nodes, list(edges)) | {"count": len(tape.steps)}


def _expanded_stage(stages: Stages, group_of: dict[Step, int]) -> list[dict[str, Any]]:
    """The tape that was fused, if passes have changed it since it was simplified."""
    tape = stages.schedule.tape
    if tape.steps == stages.simplified.steps:
        return []
    return [_tape_stage("Expand", tape, group_of, {})]


def _node(step: Step, tape: Tape, numbers: dict[Step, int]) -> dict[str, Any]:
    line = tape.line(step, numbers)
    what, _, kind_of_value = line.partition(" = ")[2].rpartition(" : ")
    number = immediate_value(step)
    if number is not None:
        kind, title = "constant", str(number[0])
    elif step.is_constant:
        kind, title = "constant", what.removeprefix("constant ")
    elif step.op is None:
        name = what.removeprefix("input ").removeprefix("argument ").removeprefix("captured ")
        kind, title = "input", name.replace("`", "")
    else:
        kind, title = role_of(type(step.op)).__name__.lower(), type(step.op).__name__
    return {
        "id": numbers[step],
        "kind": kind,
        "title": _shortened(title, 34),
        "below": _shortened(kind_of_value, 34),
        "line": line,
        "type": kind_of_value,
        "bytes": step.nbytes,
        "parameters": {
            name: _shortened(str(value), 80)
            for name, value in parameters(step.op).items()
            if step.op is not None
        },
        "source": _source(step),
    }


def _fates(explanation: Explanation) -> dict[Step, str]:
    """The fates of the traced steps that simplification removed."""
    report = explanation.stages.report
    numbers = explanation.stages.traced.numbers()
    fates = {gone: f"merged into %{numbers[stays]}" for gone, stays in report.merged}
    fates.update((step, "computed in advance") for step in report.folded)
    fates.update((step, "dropped: it changes nothing") for step in report.no_ops)
    fates.update((step, "dropped: nothing needs it") for step in report.unused)
    return fates


# The graph of groups


def _work_of_groups(explanation: Explanation) -> dict[int, list[int]]:
    """For each group, by number, its entries in the program."""
    first = {id(group.steps): n for n, group in enumerate(explanation.stages.schedule.groups)}
    single = {group.steps[0]: n for n, group in enumerate(explanation.stages.schedule.groups)}
    found: dict[int, list[int]] = {}
    for position, work in enumerate(explanation.work):
        number = first.get(id(work.steps), single.get(work.steps[0]))
        if number is not None:
            found.setdefault(number, []).append(position)
    return found


def _fused_stage(explanation: Explanation, work_of: dict[int, list[int]]) -> dict[str, Any]:
    """Groups as cards. Views are left out: what reads one reads what it is a view of; so are
    positions, which loops know.
    """
    schedule = explanation.stages.schedule
    tape = schedule.tape
    numbers = tape.numbers()
    views = {group.steps[0] for group in schedule.groups if group.kind == "view"}
    results = {_seen_through(step, views) for step in tape.outputs}
    nodes: list[dict[str, Any]] = []
    box_of: dict[Step, int] = {}
    edges: dict[tuple[int, int], None] = {}
    for step in tape.steps:
        if step.op is None and not is_immediate(step):
            box_of[step] = len(nodes)
            nodes.append(_node(step, tape, numbers) | {"group": -1, "fate": ""})
            nodes[-1]["result"] = step in results
    for number, group in enumerate(schedule.groups):
        if group.kind in ("view", "iota"):
            continue
        box = len(nodes)
        for source in group.inputs:
            origin = _seen_through(source, views)
            if origin in box_of:
                edges[box_of[origin], box] = None
        box_of.update((step, box) for step in group.steps)
        card = _card(explanation, group, number, work_of.get(number, []), numbers)
        card["result"] = any(step in results for step in group.outputs)
        nodes.append(card)
    return _placed("Fuse", nodes, list(edges)) | {"count": len(explanation.work)}


def _seen_through(step: Step, views: set[Step]) -> Step:
    while step in views:
        step = step.inputs[0]
    return step


def _card(
    explanation: Explanation, group: Group, number: int, work: list[int], numbers: dict[Step, int]
) -> dict[str, Any]:
    entries = [explanation.work[position] for position in work]
    kind = entries[0].kind if entries else "nothing"
    steps = [s for s in group.steps if not isinstance(s.op, View)] or group.steps
    lines = [f"%{numbers[step]} {type(step.op).__name__}" for step in steps]
    if len(lines) > MAX_CARD_LINES:
        lines = [*lines[: MAX_CARD_LINES - 1], f"and {len(lines) - MAX_CARD_LINES + 1} more"]
    shapes = {_type(step) for step in group.outputs}
    if kind == "nothing":
        title = "no work"
    elif len(work) > 1:
        title = f"{kind} {work[0]}-{work[-1]}"
    else:
        title = f"{kind} {work[0]}"
    return {
        "id": number,
        "kind": kind,
        "title": title,
        "below": ", ".join(sorted(shapes)) if len(shapes) <= 2 else f"{len(group.outputs)} results",
        "card": lines,
        "group": number,
        "work": work,
        "reason": group.reason,
        "fate": "",
        "line": "",
        "bytes": sum(entry.nbytes for entry in entries),
    }


def _type(step: Step) -> str:
    if isinstance(step.dtype, tuple):
        return f"{len(step.dtype)} results"
    return f"{step.dtype.name}{list(step.shape)}"


def _placed(
    title: str, nodes: list[dict[str, Any]], edges: Sequence[tuple[int, int]]
) -> dict[str, Any]:
    """A stage with the positions of its boxes."""
    sizes = []
    for node in nodes:
        lines = node.get("card", [])
        widest = max([SMALL_LETTER * len(node["below"]), *(LETTER * len(x) for x in lines)])
        # Cards show their share of the time next to the title.
        first = LETTER * (len(node["title"]) + (6 if lines else 0))
        width = max(64.0, 30.0 + max(first + 12.0, widest))
        sizes.append((width, BOX_HEIGHT + CARD_LINE * len(lines) + (8.0 if lines else 0.0)))
    layout = layered(sizes, edges)
    for node, (x, y), (width, height) in zip(nodes, layout.positions, sizes, strict=True):
        node["box"] = [round(x, 1), round(y, 1), round(width, 1), height]
    return {
        "title": title,
        "nodes": nodes,
        "edges": [
            [first, second, [[round(x, 1), round(y, 1)] for x, y in bends]]
            for (first, second), bends in zip(edges, layout.bends, strict=True)
        ],
        "width": layout.width,
        "height": layout.height,
    }


# What runs


def _work(explanation: Explanation, group_of: dict[Step, int]) -> list[dict[str, Any]]:
    numbers = explanation.stages.schedule.tape.numbers()
    seconds = explanation.seconds_by_work
    found = []
    for position, work in enumerate(explanation.work):
        code, op = work.code, work.steps[0].op
        programs = () if op is None else op.programs()
        found.append(
            {
                "kind": work.kind,
                "name": _title(explanation, work),
                "bytes": work.nbytes,
                "flops": work.flops,
                "seconds": None if seconds is None else seconds[position],
                "reason": explanation.reason(work),
                "programs": [title for title, _ in programs],
                "reads": [_name(step, numbers) for step in work.reads],
                "writes": [_name(step, numbers) for step in work.writes],
                "parts": 0 if code is None else code.parts,
                "grain": 0 if code is None else code.grain,
                "scratch": work.uses_scratch,
                "kept": work.is_kept,
                "group": group_of.get(work.steps[0], -1),
                "steps": len(work.steps),
                "lines": [source.short for source in source_lines(work.steps)],
                "snippets": _snippets(source_lines(work.steps)),
            }
        )
    return found


def _title(explanation: Explanation, work: Work) -> str:
    """The name of an entry; kernels that only pack the operands of a product are marked."""
    computes = (other.flops for other in explanation.work if other.steps is work.steps)
    return f"{work.name}: packing" if not work.flops and any(computes) else work.name


def _name(step: Step, numbers: dict[Step, int]) -> str:
    return f"{value_name(step, numbers, 'a copy')} {_type(step)}"


def _source(step: Step) -> dict[str, Any] | None:
    source = step.source
    if not isinstance(source, Source):
        return None
    text = linecache.getline(source.filename, source.line).strip()
    return {"place": source.short, "function": source.function, "text": text}


def _snippets(sources: list[Source]) -> list[dict[str, Any]]:
    """The source lines of the program with some context, by file."""
    by_file: dict[str, set[int]] = {}
    for source in sources:
        by_file.setdefault(source.filename, set()).add(source.line)
    snippets = []
    for filename, meant in by_file.items():
        shown = {line + near for line in meant for near in range(-CONTEXT, CONTEXT + 1)}
        lines = [
            [number, text.rstrip("\n"), number in meant]
            for number in sorted(shown)
            if (text := linecache.getline(filename, number))
        ]
        short = filename.replace(chr(92), "/").rsplit("/", 1)[-1]
        snippets.append({"file": short, "lines": lines})
    return snippets


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
