"""Calls of shapeless functions with new shapes for which nothing has to be compiled.

Only the numbers are missing: there is a trace whose guards hold, and a symbolic program whose
conditions the shapes satisfy. Most of these calls are handled in C, which creates the instance
(`_native/calls/shape_table.c`); the others have side effects, results that contain lengths, or
keyword arguments.
"""

from __future__ import annotations

from ingot._native import Instance
from ingot.compiler.call.cache import Entry, FunctionCache, Known
from ingot.compiler.run.program import Compiled

__all__ = ["reshaped"]


def reshaped(cache: FunctionCache, entry: Entry, known: Known) -> Instance | None:
    """The instance of a trace for new shapes, if nothing has to be compiled."""
    for variant in tuple(entry.variants):
        trace = variant.trace
        if not variant.programs or not trace.fits(known.arrays, known.objects):
            continue
        values = trace.guards.checked(known.shapes)
        if values is None:
            continue
        for symbolic in tuple(variant.programs):
            program = symbolic.program_if_ready(values)
            if program is not None:
                result = trace.result and trace.result.resolved(values)
                instance = Instance(variant.reference, trace, Compiled(program), result, values)
                with cache.lock:
                    cache.add_instance(known.shapes, instance)
                cache.counts.add_reshaped(known.shapes)
                return instance
    return None
