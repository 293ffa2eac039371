"""Templates: native programs for new shapes, instantiated without Python.

Input: the arguments of a `NativeProgram`, as functions of sizes. Output: a `ProgramTemplate`: a
program for an example, and a list of the numbers in it that depend on shapes. Python is called only
for host steps whose ops have parameters that depend on shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ingot._native import NativeProgram, ProgramTemplate
from ingot.compiler.forms.size import Size
from ingot.compiler.forms.size_code import (
    DeferredCall,
    DimensionValue,
    SizeFunction,
    depends_on_shapes,
)
from ingot.compiler.machine.callbacks import length_value, number_table

__all__ = ["program_template"]

Patch = tuple[str, int, int, int]  # kind, index, and the register of the number
_MAX_STACK_AXES = 6  # as in product.h


def program_template(
    function: SizeFunction, example: Sequence[Any], about: Callable[[Sequence[Any]], Any]
) -> ProgramTemplate | None:
    """The template of parts that are functions of sizes; None if 64 bits do not suffice. `about`
    describes the instructions.
    """
    if function.code is None or len(example) != function.inputs:
        return None
    parts: tuple[Any, ...] = function.structure
    (_, _, _, _, constants, _, _, _, instructions, *_) = parts
    tables = [
        each for each in constants if type(each) is DeferredCall and each.function is number_table
    ]
    numbers = len(tables[0].arguments) if tables else -1
    program = NativeProgram(*function(example))
    hosts = tuple(
        [
            (position, function.part(host))
            for position, (kind, host, *_) in enumerate(instructions)
            if kind in ("host", "check") and depends_on_shapes(host)
        ]
    )
    patches = list(_patches(parts, function))
    return ProgramTemplate(program, function.code, patches, numbers, about, hosts)


def _patches(parts: tuple[Any, ...], function: SizeFunction) -> Iterator[Patch]:
    (_, shapes, _, _, constants, _, _, arena, instructions, views, _, releases_gil, *_) = parts
    for what, where, inside, number in (
        ("arena", 0, 0, arena),
        ("releases gil", 0, 0, releases_gil),
        *_in_shapes(shapes),
        *_in_constants(constants),
        *_in_instructions(instructions),
        *_in_views(views),
    ):
        if type(number) is Size:
            yield what, where, inside, function.registers[number.key]
        elif type(number) is DimensionValue:
            yield what, where, inside, number.number


def _in_shapes(shapes: Sequence[Sequence[Any]]) -> Iterator[tuple[str, int, int, Any]]:
    for output, shape in enumerate(shapes):
        for axis, length in enumerate(shape):
            yield "shape", output, axis, length


def _in_constants(constants: Sequence[Any]) -> Iterator[tuple[str, int, int, Any]]:
    for position, constant in enumerate(constants):
        if type(constant) is not DeferredCall:
            continue
        if constant.function is number_table:
            for entry, number in enumerate(constant.arguments):
                yield "number", entry, 0, number
        else:
            assert constant.function is length_value
            yield "length", position, 0, constant.arguments[0]


def _in_instructions(
    instructions: Sequence[tuple[Any, ...]],
) -> Iterator[tuple[str, int, int, Any]]:
    for position, (kind, *rest) in enumerate(instructions):
        if kind == "kernel":
            _, parts, grain, arguments = rest
            yield "parts", position, 0, parts
            yield "grain", position, 0, grain
        elif kind != "gemm":
            _, _, arguments = rest
        else:
            product, arguments = rest
            for field, number in _in_product(product):
                yield "product", position, field, number
        for argument, (_, offset) in enumerate(arguments):
            yield "offset", position, argument, offset


def _in_views(views: Sequence[tuple[Any, ...]]) -> Iterator[tuple[str, int, int, Any]]:
    for position, (_, _, offset, shape, strides) in enumerate(views):
        for index, number in enumerate((offset, *shape, *strides)):
            yield "view", position, index, number


def _in_product(product: tuple[Any, ...]) -> Iterator[tuple[int, Any]]:
    """The shape-dependent numbers of a product, with the index of their field in product.h."""
    _, _, *scalars, lengths, strides = product
    yield from enumerate(scalars)
    for number, axes in enumerate((lengths, *strides)):
        for axis, value in enumerate(axes):
            yield len(scalars) + number * _MAX_STACK_AXES + axis, value
