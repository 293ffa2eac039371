"""Einstein summation: `einsum` in terms of diagonals, sums, elementwise and matrix products.

Input: subscripts such as "ij,jk->ik" and arrays. Output: an array made of ordinary ops, so that
transforms and `compile` need no special support. With more than two arrays, opt_einsum finds the
cheapest contraction order; `einsum_path` reports that of MLX.

Internally, an axis has a label of one character; the axes of an ellipsis get non-letter characters,
counted from the last axis, as they broadcast.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from ingot._native import array
from ingot.graph.device import StreamLike
from ingot.graph.libraries import opt_einsum_paths
from ingot.graph.shape import Shape, shape_text, size_of
from ingot.ops.products.contraction import matmul
from ingot.ops.products.greedy_path import contraction_flops, greedy_path
from ingot.ops.reduce.reduction import sum
from ingot.ops.shape.diagonals import diagonal
from ingot.ops.shape.movement import reshape, squeeze, transpose

__all__ = ["einsum", "einsum_path"]

Path = tuple[tuple[int, ...], ...]

_ELLIPSIS = "..."
# Labels for the axes of ellipses, as many as an array can have: circled numbers.
_HIDDEN = "".join(map(chr, range(0x2460, 0x2460 + 64)))


class _Term(NamedTuple):
    """An array and the labels of its axes."""

    labels: str
    value: array

    def shape_of(self, labels: str) -> list[int]:
        """The lengths of some of its axes."""
        return [self.value.shape[self.labels.index(label)] for label in labels]


def einsum(subscripts: str, *operands: array, stream: StreamLike = None) -> array:
    """Sums of products, described by a letter for each axis.

    Args:
        subscripts: The letters of each operand's axes, separated by commas, and, behind "->", those
            of the result; axes with other letters are summed over. Without "->" the result has the
            letters that occur once, sorted. "..." stands for axes that are broadcast.
        operands: The arrays.
        stream: The stream or device to run on.
    """
    inputs, output = _parsed("einsum", subscripts, operands)
    sizes = _sizes("einsum", subscripts, inputs, operands)
    for label in output:
        if label not in sizes:
            raise ValueError(
                f"[einsum] the result of {subscripts!r} has an axis {label!r} that no operand has."
            )
    terms = [
        _prepared(labels, operand, sizes, stream)
        for labels, operand in zip(inputs, operands, strict=True)
    ]
    for group in _path([term.labels for term in terms], output, sizes):
        chosen = [terms[position] for position in group]
        terms = [term for position, term in enumerate(terms) if position not in group]
        while len(chosen) > 1:
            others = "".join(term.labels for term in (*chosen[2:], *terms)) + output
            chosen[:2] = [_contracted(chosen[0], chosen[1], others, stream)]
        terms.append(chosen[0])
    result = _summed(terms[0], output, stream)
    return transpose(result.value, [result.labels.index(label) for label in output], stream=stream)


def einsum_path(subscripts: str, *operands: array) -> tuple[list[tuple[int, ...]], str]:
    """The order in which MLX's `einsum` contracts its operands.

    ingot's takes the cheapest order that opt_einsum finds, which is the same or a better one.

    Args:
        subscripts: The subscripts as `einsum` takes them.
        operands: The arrays.

    Returns:
        A list with the positions of the operands of each step, whose result then becomes the last
        operand, and a text with the cost.
    """
    inputs, output = _parsed("einsum_path", subscripts, operands)
    sizes = _sizes("einsum_path", subscripts, inputs, operands)
    path = greedy_path(inputs, output, sizes)
    labels = [set(term) for term in inputs]
    naive = contraction_flops(labels, output, sizes)
    scaling, flops = 0, 0
    for group in path:
        chosen = [labels[position] for position in group]
        labels = [term for position, term in enumerate(labels) if position not in group]
        involved = set().union(*chosen)
        kept = involved & set(output).union(*labels)
        scaling = max(scaling, len(involved))
        flops += contraction_flops(chosen, kept, sizes)
        labels.append(kept)
    text = (
        f"  Complete contraction:  {subscripts}\n"
        f"         Naive scaling:  {len(sizes)}\n"
        f"     Optimized scaling:  {scaling}\n"
        f"      Naive FLOP count:  {naive}\n"
        f"  Optimized FLOP count:  {flops}\n"
    )
    return [tuple(group) for group in path], text


def _parsed(name: str, subscripts: str, operands: tuple[array, ...]) -> tuple[tuple[str, ...], str]:
    """The labels of each operand's axes and those of the result's."""
    if not isinstance(subscripts, str):
        raise TypeError(
            f"[{name}] subscripts must be a string such as 'ij,jk->ik', got {subscripts!r}."
        )
    if not operands:
        raise ValueError(f"[{name}] {subscripts!r} needs at least one operand.")
    for operand in operands:
        if not isinstance(operand, array):
            raise RuntimeError(
                f"[{name}] operands must be arrays, got {type(operand).__name__}: make an "
                "array with mx.array first."
            )
    return _parsed_text(name, subscripts, tuple(operand.ndim for operand in operands))


@lru_cache(maxsize=512)
def _parsed_text(name: str, subscripts: str, ndims: tuple[int, ...]) -> tuple[tuple[str, ...], str]:
    before, arrow, behind = subscripts.replace(" ", "").partition("->")
    texts = before.split(",")
    if len(texts) != len(ndims):
        raise ValueError(
            f"[{name}] {subscripts!r} describes {len(texts)} operands but {len(ndims)} were given."
        )
    inputs = tuple(
        _expanded(name, text, ndim - len(text.replace(_ELLIPSIS, "")), ndim)
        for text, ndim in zip(texts, ndims, strict=True)
    )
    joined = "".join(inputs)
    hidden = "".join(sorted((set(joined) & set(_HIDDEN)), key=_HIDDEN.index, reverse=True))
    if not arrow:
        once = sorted(label for label in set(joined) - set(hidden) if joined.count(label) == 1)
        return inputs, hidden + "".join(once)
    output = _expanded(name, behind, len(hidden), None)
    if len(set(output)) != len(output):
        raise ValueError(f"[{name}] the result of {subscripts!r} has a letter twice.")
    return inputs, output


def _expanded(name: str, text: str, hidden: int, ndim: int | None) -> str:
    """One operand's labels with its ellipsis replaced by labels for `hidden` axes."""
    letters = text.replace(_ELLIPSIS, "", 1)
    for character in letters:
        if not (character.isascii() and character.isalpha()):
            raise ValueError(
                f"[{name}] axes have letters as names, and an ellipsis of three dots may be there "
                f"once: {text!r} has {character!r}."
            )
    has_ellipsis = len(letters) != len(text)
    if ndim is not None and (hidden < 0 or (hidden > 0 and not has_ellipsis)):
        raise ValueError(
            f"[{name}] {text!r} names {len(letters)} axes of an operand that has {ndim}."
        )
    return text.replace(_ELLIPSIS, _HIDDEN[:hidden][::-1])


def _sizes(
    name: str, subscripts: str, inputs: tuple[str, ...], operands: tuple[array, ...]
) -> dict[str, int]:
    """The length of each label; operands may have length 1 instead."""
    sizes: dict[str, int] = {}
    for labels, operand in zip(inputs, operands, strict=True):
        shape = operand.shape
        own: dict[str, int] = {}
        for label, length in zip(labels, shape, strict=True):
            if own.setdefault(label, length) != length:
                raise ValueError(
                    f"[{name}] {label!r} in {subscripts!r} names axes of lengths {own[label]} and "
                    f"{length} of one operand, of shape {shape_text(shape)}."
                )
            known = sizes.get(label, 1)
            if known == 1:
                sizes[label] = length
            elif length != 1 and length != known:
                named = _ELLIPSIS if label in _HIDDEN else label
                raise ValueError(
                    f"[{name}] {named!r} in {subscripts!r} has length {known}, but the operand of "
                    f"shape {shape_text(shape)} has length {length} there."
                )
    return sizes


def _path(inputs: list[str], output: str, sizes: dict[str, int]) -> Path:
    """Which operands each step contracts; their result becomes the last one."""
    if len(inputs) <= 2:
        return (tuple(range(len(inputs))),)
    # Labels that only one operand has are summed first and cost nothing here.
    joined = "".join("".join(set(labels)) for labels in inputs) + output
    shared = tuple(
        frozenset(label for label in labels if joined.count(label) > 1) for labels in inputs
    )
    return _cheapest_path(shared, frozenset(output), tuple(sorted(sizes.items())))


@lru_cache(maxsize=512)
def _cheapest_path(
    inputs: tuple[frozenset[str], ...], output: frozenset[str], sizes: tuple[tuple[str, int], ...]
) -> Path:
    found = opt_einsum_paths().auto(list(inputs), output, dict(sizes), None)
    return tuple(tuple(sorted(group)) for group in found)


def _prepared(labels: str, value: array, sizes: dict[str, int], stream: StreamLike) -> _Term:
    """An operand with each label once, and without the axes along which it is broadcast."""
    for label in sorted(set(labels)):
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            value = diagonal(value, 0, first, second, stream)
            labels = labels[:first] + labels[first + 1 : second] + labels[second + 1 :] + label
    broadcast = [
        axis
        for axis, (label, length) in enumerate(zip(labels, value.shape, strict=True))
        if length == 1 and sizes[label] != 1
    ]
    if not broadcast:
        return _Term(labels, value)
    kept = "".join(label for axis, label in enumerate(labels) if axis not in broadcast)
    return _Term(kept, squeeze(value, broadcast, stream=stream))


def _summed(term: _Term, kept: str, stream: StreamLike) -> _Term:
    """The term summed over all labels but those in `kept`."""
    axes = [axis for axis, label in enumerate(term.labels) if label not in kept]
    if not axes:
        return term
    labels = "".join(label for label in term.labels if label in kept)
    return _Term(labels, sum(term.value, axes, stream=stream))


def _contracted(a: _Term, b: _Term, others: str, stream: StreamLike) -> _Term:
    """The product of two terms, summed over the labels that are not in `others`."""
    a = _summed(a, b.labels + others, stream)
    b = _summed(b, a.labels + others, stream)
    shared = [label for label in a.labels if label in b.labels]
    batch = "".join(label for label in shared if label in others)
    contracted = "".join(label for label in shared if label not in others)
    only_a = "".join(label for label in a.labels if label not in shared)
    only_b = "".join(label for label in b.labels if label not in shared)
    if not contracted:
        return _multiplied(a, b, only_b, stream)
    lengths = a.shape_of(batch)
    rows = a.shape_of(only_a)
    columns = b.shape_of(only_b)
    common = size_of(a.shape_of(contracted))
    left = _arranged(a, batch + only_a + contracted, (*lengths, size_of(rows), common), stream)
    right = _arranged(b, batch + contracted + only_b, (*lengths, common, size_of(columns)), stream)
    product = matmul(left, right, stream=stream)
    shape = (*lengths, *rows, *columns)
    if product.shape != shape:
        product = reshape(product, shape, stream=stream)
    return _Term(batch + only_a + only_b, product)


def _multiplied(a: _Term, b: _Term, only_b: str, stream: StreamLike) -> _Term:
    """The product of two terms without any sum."""
    labels = a.labels + only_b
    order = "".join(label for label in labels if label in b.labels)
    aligned = tuple(1 if label not in b.labels else b.shape_of(label)[0] for label in labels)
    left = _arranged(a, a.labels, (*a.value.shape, *(1 for _ in only_b)), stream)
    return _Term(labels, left * _arranged(b, order, aligned, stream))


def _arranged(term: _Term, order: str, shape: Shape, stream: StreamLike) -> array:
    """The term's axes in the order of these labels, then reshaped."""
    value = term.value
    if order != term.labels:
        value = transpose(value, [term.labels.index(label) for label in order], stream=stream)
    return value if value.shape == shape else reshape(value, shape, stream=stream)
