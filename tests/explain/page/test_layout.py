"""Layouts: layers, boxes that do not touch, edges that go round boxes."""

from __future__ import annotations

import random
from itertools import combinations

import pytest

from ingot.explain.page.layout import BEND_WIDTH, layered


def random_graph(seed: int, count: int) -> tuple[list[tuple[float, float]], list[tuple[int, int]]]:
    source = random.Random(seed)
    sizes = [(source.uniform(40, 200), source.choice([40.0, 90.0])) for _ in range(count)]
    edges = {
        (source.randrange(max(0, box - 12), box), box)
        for box in range(1, count)
        for _ in range(source.choice([0, 1, 2]))
    }
    return sizes, sorted(edges)


@pytest.mark.parametrize("seed", range(3))
def test_boxes_do_not_touch_and_edges_lead_down(seed: int) -> None:
    sizes, edges = random_graph(seed, 60)
    found = layered(sizes, edges)
    boxes = [(x, y, x + w, y + h) for (x, y), (w, h) in zip(found.positions, sizes, strict=True)]
    for a, b in combinations(boxes, 2):
        apart = a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]
        assert apart, (a, b)
    for (first, second), bends in zip(edges, found.bends, strict=True):
        heights = [boxes[first][3], *(y for _, y in bends), boxes[second][1]]
        assert heights == sorted(heights)
        # straight down past the boxes of a layer, bent only between layers
        points = [((boxes[first][0] + boxes[first][2]) / 2, boxes[first][3]), *bends]
        for (x, top), (end, bottom) in zip(points[::2], points[1::2], strict=True):
            assert x == pytest.approx(end)
            inside = [b for b in boxes if b[0] < x < b[2] and b[1] < bottom and top < b[3]]
            assert not inside
    assert min(box[0] for box in boxes) >= -1e-9
    assert max(box[2] for box in boxes) <= found.width + BEND_WIDTH
    assert max(box[3] for box in boxes) == found.height


def test_what_is_needed_late_stands_late() -> None:
    # 0 -> 1 -> 2 -> 3, and 4 -> 3
    found = layered([(50, 40)] * 5, [(0, 1), (1, 2), (2, 3), (4, 3)])
    layers = [y for _, y in found.positions]
    assert layers[0] < layers[1] < layers[2] < layers[3]
    assert layers[4] == layers[2]


def test_a_chain_is_straight() -> None:
    found = layered([(50, 40)] * 6, [(box, box + 1) for box in range(5)])
    assert {x for x, _ in found.positions} == {0.0}


def test_nothing_and_single_boxes() -> None:
    assert layered([], []).positions == []
    assert layered([(50, 40)], []).positions == [(0.0, 0.0)]
