"""The program of a symbolic plan for one set of shapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from ingot import _native
from ingot._native import Dtype, NativeProgram, ShapedBase
from ingot.compiler.forms.sizes import Sizes
from ingot.compiler.forms.tape import Step, Tape
from ingot.compiler.machine.about import About
from ingot.compiler.machine.work import Work
from ingot.graph.shape import Shape
from ingot.tuning import MAX_LAYOUTS

__all__ = ["AboutShapes", "ShapedProgram"]


class Source(Protocol):
    """A source of programs for given shapes."""

    name: str

    def native(self, values: Sequence[Any]) -> NativeProgram:
        """The native program for some values of the dimensions."""

    def native_for_layout(
        self, values: Sequence[Any], inputs: tuple[np.ndarray, ...]
    ) -> NativeProgram | None:
        """The same for the layout of some inputs; None if copying them is better."""

    def tape_for(self, values: Sequence[Any]) -> Tape:
        """The traced tape for some values of the dimensions."""


class ShapedProgram(ShapedBase):
    """A program that shares its machine code with those for other shapes. The C extension also
    creates them, bypassing `__init__`.
    """

    __slots__ = ()

    def __init__(
        self,
        source: Source,
        values: Sequence[Any],
        shapes: tuple[Shape, ...],
        dtypes: tuple[Dtype, ...],
        native: NativeProgram | None,
    ) -> None:
        self._source = source
        self._given = values
        self.shapes = shapes
        self.dtypes = dtypes
        self.native = native  # None until the first evaluation, if there is no machine code yet
        self.by_strides = None

    @property
    def results(self) -> tuple[tuple[Shape, Dtype], ...]:
        """The shapes and dtypes of the outputs."""
        return tuple(zip(self.shapes, self.dtypes, strict=True))

    @property
    def _values(self) -> Sequence[Any]:
        """The values of the dimensions."""
        if self._given is None:
            assert self.native is not None
            self._given = self.native.values
        assert self._given is not None
        return self._given

    @property
    def name(self) -> str:
        """The name in profiles."""
        return self._source.name

    @property
    def traced(self) -> Tape:
        """The traced tape, op by op."""
        return self._source.tape_for(self._values)

    def plan(self) -> NativeProgram:
        """The native program for contiguous inputs, generated on first use."""
        if self.native is None:
            self.native = self._source.native(self._values)
        return self.native

    def run(self, inputs: tuple[np.ndarray, ...]) -> Any:
        """The outputs for inputs of these shapes."""
        contiguous = self.native or self.plan()
        found = contiguous.run(inputs)
        if found is not NotImplemented:
            return found
        native = self._for_layout(inputs)
        if native is not None:
            return native.run(inputs)
        return contiguous.run(tuple(np.asarray(x, order="C") for x in inputs))

    def native_if_known(self, inputs: tuple[np.ndarray, ...]) -> NativeProgram | None:
        """The native program that ran for inputs of this layout, unless they were copied."""
        if all(x.flags.c_contiguous for x in inputs):
            return self.native
        return (self.by_strides or {}).get(tuple([x.strides for x in inputs]))

    def _for_layout(self, inputs: tuple[np.ndarray, ...]) -> NativeProgram | None:
        if self.by_strides is None:
            self.by_strides = {}
        strides = tuple([x.strides for x in inputs])
        found = self.by_strides.get(strides)
        if found is None:
            found = self._source.native_for_layout(self._values, inputs)
            if found is not None and len(self.by_strides) < MAX_LAYOUTS:
                self.by_strides[strides] = found
        return found


class AboutShapes:
    """The description of a program for one set of shapes, computed on demand."""

    __slots__ = ("_made_for", "_symbolic", "_work", "name")

    def __init__(self, symbolic: About, sizes: Sizes, values: Sequence[Any]) -> None:
        self.name = symbolic.name
        self._symbolic = symbolic
        self._made_for = sizes, values
        self._work: list[Work] | None = None

    @property
    def work(self) -> list[Work]:
        """The instructions in order."""
        if self._work is None:
            self._work = [_ShapedWork(each, *self._made_for) for each in self._symbolic.work]
        return self._work


class _ShapedWork(Work):
    """A description of an instruction with numbers for symbolic sizes."""

    def __init__(self, work: Work, sizes: Sizes, values: Sequence[Any]) -> None:
        def number(x: Any) -> int:
            return sizes.number(x, values)

        steps = [_numbered(step, number) for step in work.steps]
        super().__init__(work.kind, steps, work.kernel, work.code, number(work.scratch), work.packs)
        self.__dict__["reads"] = [_numbered(step, number) for step in work.reads]
        self.__dict__["writes"] = [_numbered(step, number) for step in work.writes]
        self.__dict__["nbytes"] = number(work.nbytes)


def _numbered(step: Step, number: Callable[[Any], int]) -> Step:
    """A step with numeric lengths, as are those of its inputs, which error messages quote."""

    def numbers(shape: Any) -> Any:
        if type(shape) is tuple:
            return tuple([numbers(item) for item in shape])
        return number(shape)

    inputs = [
        Step(source.op, (), numbers(source.shape), source.dtype, source.stream, source.source)
        for source in step.inputs
    ]
    made = Step(
        step.op,
        inputs,
        numbers(step.shape),
        step.dtype,
        step.stream,
        step.source,
        step.value,
    )
    if step.expanded_from is not None:
        made.expanded_from = _numbered(step.expanded_from, number)
    return made


_native.set_callbacks(shaped_type=ShapedProgram)
