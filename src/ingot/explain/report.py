"""Explanations: how a function was compiled for one signature, for people and programs."""

from __future__ import annotations

import html
import time
from dataclasses import field
from functools import cached_property
from typing import Any, overload

import numpy as np

from ingot import _native
from ingot._native import Node, array
from ingot.compiler.call.cache_info import CacheInfo
from ingot.compiler.call.describe import Description
from ingot.compiler.call.symbolic_program import SymbolicProgram
from ingot.compiler.forms.nests import step_namer
from ingot.compiler.forms.schedule import Group
from ingot.compiler.forms.tape import Step
from ingot.compiler.lower.materialise import Materialise
from ingot.compiler.machine.jit import assembly
from ingot.compiler.machine.work import Work, bytes_in_memory
from ingot.compiler.pipeline import Stages
from ingot.compiler.run.program import Compiled
from ingot.compiler.trace.symbolic import symbolic_tape
from ingot.compiler.trace.trace import Trace
from ingot.explain.page import page_html
from ingot.explain.text import explanation_text, section_text
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.outputs import apply_multiple
from ingot.graph.reporting.source import Source
from ingot.graph.roles import Host, View
from ingot.runtime.files.access import write_text
from ingot.runtime.profile.profiler import program_times

__all__ = ["CacheReport", "Explanation"]

MAX_RUNS = 20
LONGEST = 0.4  # seconds after which to stop measuring, after at least three runs
NOTEBOOK_HEIGHT = 760


@dataclass(frozen=True)
class CacheReport:
    """The function's cache: its hit and miss counts, and the signatures it holds."""

    info: CacheInfo | None = None
    entries: list[Description] = field(default_factory=list)


class Explanation:
    """Prints the stages of a compilation. `to_dict()` returns the same as plain values, and
    `to_html("page.html")` writes a page that draws the graphs and shows the code.
    """

    def __init__(
        self,
        name: str,
        stages: Stages,
        traced: Trace,
        inputs: list[Node] | None = None,
        cache: CacheReport | None = None,
    ) -> None:
        self.name = name
        self.stages = stages
        self.cache = cache or CacheReport()
        self._trace = traced
        self._inputs = inputs
        self._plan = stages.plan  # generates the machine code now

    # Results of compilation

    @cached_property
    def _numbers(self) -> dict[Step, int]:
        return self.stages.schedule.tape.numbers()

    @property
    def kernels(self) -> list[Group]:
        """The fused groups, including products with their epilogues."""
        groups = self.stages.schedule.groups
        return [group for group in groups if group.kind in ("fused", "scan", "product")]

    @property
    def work(self) -> list[Work]:
        """What the program runs, in order: kernels, BLAS calls and host steps."""
        return self.stages.executable.work

    @property
    def constants(self) -> list[Step]:
        """The values that are known at compile time."""
        return [step for step in self.stages.schedule.tape.steps if step.is_constant]

    @property
    def guards(self) -> list[str]:
        """The conditions on the sizes of arguments, for shapeless functions."""
        return self._trace.guards.lines()

    @cached_property
    def conditions(self) -> list[str]:
        """The sizes for which the machine code of a shapeless function is valid, besides the
        guards. Code for other sizes is generated on demand; if an op needs a fixed size, that is
        reported here.
        """
        dimensions = self._trace.guards.dimensions
        if not dimensions:
            return []
        values = [each.value for each in dimensions]
        sizes, tape = symbolic_tape(self._trace.tape, self._trace.guards, values)
        program = SymbolicProgram(sizes, tape, values, name=self.name)
        return program.conditions(lambda number: dimensions[number].text())

    @property
    def captured_state(self) -> bool:
        """Whether calls change captured containers."""
        return self._trace.recipe is not None

    @property
    def bytes_before(self) -> int:
        """The bytes that the traced steps would read and write if each ran on its own."""
        return sum(
            step.nbytes + sum(map(bytes_in_memory, step.inputs))
            for step in self.stages.traced.steps
            if step.op is not None and not isinstance(step.op, View)
        )

    @property
    def bytes_after(self) -> int:
        """The bytes that the groups read and write."""
        return sum(map(_group_bytes, self.stages.schedule.groups))

    @property
    def arena(self) -> int:
        """The size of the memory for intermediate values, in bytes."""
        return self._plan.arena

    @property
    def peak(self) -> int:
        """The bytes that a call needs besides its arguments: intermediate values, results and
        constants.
        """
        return self._plan.peak

    @property
    def donations(self) -> dict[Step, Step]:
        """Results that reuse the memory of arguments or captured state that nothing else uses, and
        whose memory each reuses.
        """
        return self._plan.donated_steps

    @property
    def code(self) -> list[str]:
        """The LLVM IR of the kernels."""
        return [code.text for code in self.stages.executable.codes]

    def kernel_text(self, work: Work, form: str) -> str:
        """A kernel as "loops", "llvm" or "assembly"."""
        assert work.code is not None
        if form == "loops":
            return self.loops(work)
        return work.code.text if form == "llvm" else assembly(work.code.text)

    def loops(self, work: Work) -> str:
        """The loop nest of a kernel, with the names of the tape."""
        assert work.kernel is not None
        return work.kernel.text("kernel", step_namer(self.stages.schedule))

    def reason(self, work: Work) -> str:
        """Why an entry is not a kernel."""
        op = work.steps[0].op
        if work.kind == "kernel" or op is None:
            return ""
        if isinstance(op, Materialise):
            return "what reads it needs its elements one after the other"
        return self._reasons.get(work.steps[0]) or (op.why_host if isinstance(op, Host) else "")

    @cached_property
    def _reasons(self) -> dict[Step, str]:
        return {group.steps[0]: group.reason for group in self.stages.schedule.groups}

    # Times

    @cached_property
    def seconds_by_work(self) -> list[float] | None:
        """The shortest time of each entry of `work`, measured now on the arguments that were
        explained; None if these have no values.
        """
        if not self._inputs_known or not self.work:
            return None
        assert self._inputs is not None
        inputs = [array(np.ascontiguousarray(node.data)) for node in self._inputs]
        program = Compiled(self.stages.program)

        def run() -> None:
            began = time.perf_counter()
            for number in range(MAX_RUNS):
                _native.evaluate(apply_multiple(program, *inputs))
                if number >= 2 and time.perf_counter() - began > LONGEST:
                    return

        runs = program_times(self.stages.executable.native.about, run)
        if not runs:
            return None  # these inputs run another program
        times = np.array([np.frombuffer(each, np.int64) for each in runs])[:, 2:]
        shortest: list[float] = ((times[:, 1::2] - times[:, ::2]).min(axis=0) / 1e9).tolist()
        return shortest

    @property
    def _inputs_known(self) -> bool:
        return self._inputs is not None and not _native.in_tracing() and not _native.recording()

    # Output formats

    def to_dict(self) -> dict[str, Any]:
        """The contents of the text as plain values."""
        stages = self.stages
        report = stages.report
        numbers = stages.traced.numbers()
        return {
            "name": self.name,
            "tapes": {
                "traced": stages.traced.text().splitlines(),
                "simplified": stages.simplified.text().splitlines(),
                "fused": stages.schedule.text().splitlines(),
            },
            "merged": [[numbers[gone], numbers[stays]] for gone, stays in report.merged],
            "folded": [numbers[step] for step in report.folded],
            "no_ops": [numbers[step] for step in report.no_ops],
            "unused": [numbers[step] for step in report.unused],
            "groups": [self._group(group) for group in stages.schedule.groups],
            "constants": [_constant(step) for step in self.constants],
            "captured_state": self.captured_state,
            "bytes": {"before": self.bytes_before, "after": self.bytes_after},
            "native": self._native(),
            "program": [self._work(work) for work in self.work],
            "guards": self.guards,
            "conditions": self.conditions,
            "seconds": dict(stages.seconds),
            "cache": self._cache(),
        }

    def _native(self) -> dict[str, Any]:
        host = [work.steps[0].op for work in self.work if work.kind == "host"]
        return {
            "kernels": len(self.stages.nests.kernels),
            "blas_calls": sum(work.kind == "BLAS" for work in self.work),
            "host_steps": [type(op).__name__ for op in host],
            "arena": self.arena,
            "peak": self.peak,
            "donations": [
                [self._numbers[result], self._numbers[given]]
                for result, given in self.donations.items()
            ],
        }

    def _group(self, group: Group) -> dict[str, Any]:
        numbers = self._numbers
        return {
            "kind": group.kind,
            "steps": [numbers[step] for step in group.steps],
            "reads": [numbers[step] for step in group.inputs],
            "writes": [numbers[step] for step in group.outputs],
            "bytes": _group_bytes(group),
            "reason": group.reason,
            "sources": _sources(group.steps),
        }

    def _work(self, work: Work) -> dict[str, Any]:
        return {
            "kind": work.kind,
            "name": work.name,
            "bytes": work.nbytes,
            "flops": work.flops,
            "reason": self.reason(work),
            "sources": _sources(work.steps),
        }

    def _cache(self) -> dict[str, Any] | None:
        info = self.cache.info
        if info is None:
            return None
        return {
            "entries": [{k: str(v) for k, v in entry.items()} for entry in self.cache.entries],
            "hits": info.hits,
            "misses": info.misses,
            "new_shapes": info.new_shapes,
            "new_layouts": info.new_layouts,
            "evictions": info.evictions,
            "seconds": info.seconds,
            "reasons": [
                {"kind": each.kind, "reason": each.reason, "seconds": each.seconds}
                for each in info.compilations
            ],
        }

    def section(self, name: str) -> str:
        """One section of the text, "trace", "program", "memory" or "cache", or the output of a
        compiler pass: "simplify", "narrow", "expand", "late casts", "fuse", "lower", "plan",
        "generate".
        """
        return section_text(self, name)

    def __str__(self) -> str:
        return explanation_text(self)

    __repr__ = __str__

    @overload
    def to_html(self, file: None = None) -> str: ...

    @overload
    def to_html(self, file: object) -> None: ...

    def to_html(self, file: Any = None) -> str | None:
        """Write a page that draws the graph of every stage and shows the code of every kernel.

        The page is self-contained. Times are measured now, on the arguments that were explained.

        Args:
            file: A path, or an object with a method `write` that takes text.

        Returns:
            The page if no file is given, else None, so that interactive sessions do not print it.
        """
        page = page_html(self)
        if file is None:
            return page
        write_text("Report.to_html", file, page)
        return None

    def _repr_html_(self) -> str:
        """The page for notebooks, in a frame that isolates their styles and scripts."""
        style = f"width:100%;height:{NOTEBOOK_HEIGHT}px;border:0;border-radius:8px"
        return f'<iframe srcdoc="{html.escape(self.to_html())}" style="{style}"></iframe>'


def _constant(step: Step) -> dict[str, Any]:
    return {"shape": list(step.shape), "dtype": step.dtype.name, "bytes": step.nbytes}


def _group_bytes(group: Group) -> int:
    if group.kind in ("view", "iota", "check"):
        return 0
    return sum(map(bytes_in_memory, group.inputs)) + sum(step.nbytes for step in group.outputs)


def _sources(steps: list[Step]) -> list[str]:
    found = dict.fromkeys(step.source.short for step in steps if isinstance(step.source, Source))
    return list(found)
