"""Layout: the positions of a graph's boxes, in layers from top to bottom.

Layers come from the longest path to a box. Edges over several layers go straight down through
each, between its boxes, and bend in between. Boxes of a layer are sorted by the mean position of
their neighbours, and then moved towards it as far as their order and their widths allow. All of it
takes time about linear in the number of boxes, edges and bends.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from ingot.graph.lazy_dataclass import dataclass

__all__ = ["Layout", "layered"]

GAP_ACROSS, GAP_DOWN = 24.0, 36.0
BEND_WIDTH = 10.0
LONGEST_BENT = 60  # layers; longer edges go straight
MAX_BENDS = 20_000  # in all; then long edges go straight
SORTING_SWEEPS, MOVING_SWEEPS = 6, 8
BEND_WEIGHT = 4.0  # the weight of a bend relative to that of a box


@dataclass
class Layout:
    """The left upper corners of the boxes, the bends of the edges (where they leave their own
    layer, and enter and leave each that they go through), and the size of it all.
    """

    positions: list[tuple[float, float]]
    bends: list[list[tuple[float, float]]]
    width: float
    height: float


def layered(sizes: Sequence[tuple[float, float]], edges: Sequence[tuple[int, int]]) -> Layout:
    """Arranges boxes of given widths and heights; edges lead from earlier boxes to later ones."""
    if not sizes:
        return Layout([], [[] for _ in edges], 0.0, 0.0)
    layer_of = _layers(len(sizes), edges)
    widths = [width for width, _ in sizes]
    links, chains = _with_bends(widths, layer_of, edges)
    rows = _rows(layer_of)
    above: list[list[int]] = [[] for _ in widths]
    below: list[list[int]] = [[] for _ in widths]
    for first, second in links:
        below[first].append(second)
        above[second].append(first)
    _sort(rows, above, below)
    centres = _centres(rows, widths, above, below, len(sizes))
    left = min(x - width / 2 for x, width in zip(centres, widths, strict=True))
    tops, row_heights, bottom = _heights(rows, sizes)
    positions = [
        (centres[box] - left - sizes[box][0] / 2, tops[layer_of[box]]) for box in range(len(sizes))
    ]
    bends: list[list[tuple[float, float]]] = []
    for (first, _), chain in zip(edges, chains, strict=True):
        bottom_of_row = tops[layer_of[first]] + row_heights[layer_of[first]]
        # the edge first goes down past taller boxes of the same layer
        points = [(centres[first] - left, bottom_of_row)]
        for bend in chain:
            across, top = centres[bend] - left, tops[layer_of[bend]]
            points += [(across, top), (across, top + row_heights[layer_of[bend]])]
        bends.append(points)
    right = max(x + width / 2 for x, width in zip(centres, widths, strict=True))
    return Layout(positions, bends, right - left, bottom)


def _layers(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """The longest path to each box; then boxes go down to their users where edges do not become
    longer for it, so that what is needed late stands late.
    """
    sources: list[set[int]] = [set() for _ in range(count)]
    users: list[set[int]] = [set() for _ in range(count)]
    for first, second in edges:
        sources[second].add(first)
        users[first].add(second)
    layers = [0] * count
    for box in range(count):
        layers[box] = max((layers[source] + 1 for source in sources[box]), default=0)
    for box in reversed(range(count)):
        if users[box] and len(sources[box]) <= len(users[box]):
            layers[box] = min(layers[user] for user in users[box]) - 1
    return layers


def _with_bends(
    widths: list[float], layer_of: list[int], edges: Sequence[tuple[int, int]]
) -> tuple[list[tuple[int, int]], list[list[int]]]:
    """Adds a narrow box for each bend; the edges between neighbouring layers, and each edge's
    bends.
    """
    spans = [layer_of[second] - layer_of[first] for first, second in edges]
    left = MAX_BENDS
    bent: set[int] = set()
    for number in sorted(range(len(edges)), key=spans.__getitem__):
        left -= spans[number] - 1
        if left < 0 or spans[number] > LONGEST_BENT:
            break
        bent.add(number)
    links: list[tuple[int, int]] = []
    chains: list[list[int]] = []
    for number, (first, second) in enumerate(edges):
        chain: list[int] = []
        if number in bent:
            for layer in range(layer_of[first] + 1, layer_of[second]):
                chain.append(len(widths))
                widths.append(BEND_WIDTH)
                layer_of.append(layer)
            stops = [first, *chain, second]
            links += pairwise(stops)
        chains.append(chain)
    return links, chains


def _rows(layer_of: list[int]) -> list[list[int]]:
    rows: list[list[int]] = [[] for _ in range(max(layer_of) + 1)]
    for box, layer in enumerate(layer_of):
        rows[layer].append(box)
    return rows


def _sort(rows: list[list[int]], above: list[list[int]], below: list[list[int]]) -> None:
    """Sorts each row by the mean position of what it is connected with, downwards and upwards."""
    position_of = {box: float(position) for row in rows for position, box in enumerate(row)}
    for sweep in range(SORTING_SWEEPS):
        downwards = sweep % 2 == 0
        neighbours = above if downwards else below
        for row in rows if downwards else reversed(rows):
            means = {
                box: sum(position_of[x] for x in neighbours[box]) / len(neighbours[box])
                if neighbours[box]
                else position_of[box]
                for box in row
            }
            row.sort(key=means.__getitem__)
            middle = (len(row) - 1) / 2
            for position, box in enumerate(row):
                position_of[box] = position - middle


def _centres(
    rows: list[list[int]],
    widths: list[float],
    above: list[list[int]],
    below: list[list[int]],
    boxes: int,
) -> list[float]:
    """Where the middle of each box is across: near its neighbours, and clear of the next box."""
    centres = [0.0] * len(widths)
    for row in rows:
        across = -sum(widths[box] + GAP_ACROSS for box in row) / 2
        for box in row:
            centres[box] = across + widths[box] / 2
            across += widths[box] + GAP_ACROSS
    for sweep in range(MOVING_SWEEPS):
        downwards = sweep % 2 == 0
        for row in rows if downwards else reversed(rows):
            wanted = []
            weights = []
            for box in row:
                near = above[box] if downwards else below[box]
                near = near or (below[box] if downwards else above[box])
                wanted.append(sum(centres[x] for x in near) / len(near) if near else centres[box])
                weights.append(BEND_WEIGHT if box >= boxes else 1.0)
            for box, centre in zip(row, _apart(row, widths, wanted, weights), strict=True):
                centres[box] = centre
    return centres


def _apart(
    row: list[int], widths: list[float], wanted: list[float], weights: list[float]
) -> list[float]:
    """The positions nearest to those wanted, in the sense of least squares, at which no two boxes
    of a row touch and their order stays: an isotonic regression.
    """
    offsets = [0.0]
    for first, second in pairwise(row):
        offsets.append(offsets[-1] + (widths[first] + widths[second]) / 2 + GAP_ACROSS)
    blocks: list[tuple[float, float, int]] = []  # mean, weight, how many boxes
    for position, weight in enumerate(weights):
        mean, count = wanted[position] - offsets[position], 1
        while blocks and blocks[-1][0] > mean:
            before, other, boxes = blocks.pop()
            mean = (mean * weight + before * other) / (weight + other)
            weight += other
            count += boxes
        blocks.append((mean, weight, count))
    fitted = [mean for mean, _, count in blocks for _ in range(count)]
    return [mean + offset for mean, offset in zip(fitted, offsets, strict=True)]


def _heights(
    rows: list[list[int]], sizes: Sequence[tuple[float, float]]
) -> tuple[list[float], list[float], float]:
    """Where each row begins, how high it is, and where the last one ends."""
    tops: list[float] = []
    heights: list[float] = []
    top = 0.0
    for row in rows:
        height = max((sizes[box][1] for box in row if box < len(sizes)), default=0.0)
        tops.append(top)
        heights.append(height)
        top += height + GAP_DOWN
    return tops, heights, top - GAP_DOWN
