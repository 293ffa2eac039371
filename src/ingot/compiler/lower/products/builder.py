"""The nest of a product under construction: its operands as buffers, tiles in parallel, and what is
computed of a tile before it is written.

What follows a product element by element (a bias, an activation, a residual) is its epilogue, a
group of maps. A tile that has one is put on the stack, where loops compute the group's steps of it
while it is in L1; a tile without one is stored from registers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ingot.compiler.forms.affine import Affine, Index, affine
from ingot.compiler.forms.nest.data import Buffer, Constant, Repeated, Value
from ingot.compiler.forms.nests import Kernel
from ingot.compiler.forms.schedule import Group, without_ones
from ingot.compiler.forms.size import Number, largest
from ingot.compiler.forms.tape import Step
from ingot.compiler.lower.domain import Operand
from ingot.compiler.lower.group import GroupBuilder, Known, Memory
from ingot.compiler.lower.kernel import kernel_of
from ingot.compiler.lower.products.numbers import Numbers, code_key
from ingot.compiler.lower.products.operands import Matrices, Product
from ingot.compiler.lower.products.panels import Panels
from ingot.compiler.lower.products.register_tile import TileShape, accumulate, last_shape
from ingot.graph.dtype import uint32
from ingot.graph.roles import View
from ingot.graph.shape import size_of
from ingot.tuning import (
    CACHE_LINE,
    MIN_PRODUCT_TASKS,
    MIN_PRODUCT_THREAD_WORK,
    SUM_BLOCK,
    TILES_PER_TASK,
)

__all__ = ["ProductBuilder", "epilogue_of", "has_axes_of"]

Strides = dict[Step, tuple[int, ...]]
Elements = Callable[[int, tuple[Index, ...]], Value]
TileBody = Callable[[list[Affine], Affine, Affine, Affine], None]

# what explanations say of kernels
STRATEGIES = {
    "panels": "tiles from packed panels of the right operand",
    "rows": "tiles from the right operand in place, which stays in L2",
    "rows once": "tiles from the right operand in place, fetched ahead",
    "strips": "strips of few rows from the right operand in place, in blocks of rows",
    "streams": "strips of very few rows from the right operand in place, as streams",
    "dots": "sums along vectors, on which both operands are contiguous",
    "chunks": "the sum of chunks, which threads shared",
}


def epilogue_of(step: Step) -> Group:
    """The group of a product that nothing is computed of."""
    return Group("fused", [], [], [step], without_ones(step.shape))


def has_axes_of(group: Group, product: Product) -> bool:
    """Whether the elements of an epilogue are those of a product's result: its last axis that of
    columns, and the others those of the stack and the rows, or what the rows are made of.
    """
    *above, columns = group.domain or (1,)
    if columns != product.n or columns == 1:
        return False
    rows = without_ones((*product.stack, product.m))
    return tuple(above) == rows or (not product.stack and size_of(above) == product.m)


class ProductBuilder(GroupBuilder):
    """What the kernels of a product have in common."""

    def __init__(
        self,
        way: str,
        product: Product,
        tile: TileShape,
        epilogue: Group,
        strides_of: Strides,
        left: Panels | None = None,
    ) -> None:
        self.numbers = Numbers()
        self.product = product
        self.step = product.result.step
        # rows and columns stay apart, and so do the axes of a stack
        axes = range(len(epilogue.domain))
        super().__init__(epilogue, strides_of, axes if product.stack else axes[-1:])
        self.way = way
        self.tile = tile
        self.last: TileShape | None = None  # the shape of tiles of the last columns, if another
        self.together = 1  # tiles, one below the other, that one iteration computes
        self.packed = left  # the left operand, if it was packed
        if left is None:
            self.left = self.operand(product.left, "a")
        else:
            self.left = left.rows_buffer(self, self.argument(None), self.numbers)
        # chunks of sums are in scratch memory, and nothing is computed of them
        self.scratch = self.operand(product.result, "c") if self.step is None else None
        self.m = affine(self.numbers("a.rows", product.m))
        self.n = affine(self.numbers("n", product.n))
        self.k = affine(self.numbers("a.columns", product.k))

    # Memory

    def _memory(self, operand: Operand) -> Memory:
        """The buffer of an operand of the epilogue; the product itself is never in memory then."""
        assert self.step is not None
        if _shows(operand.step, self.step) and operand.step not in self.group.outputs:
            return Memory(self.buffer("product", operand.dtype, (), (), 0), ())
        axes = tuple(axis for axis, stride in enumerate(operand.strides) if stride)
        name = f"e{len(self.operands)}"
        size = operand.dtype.size
        shape = [self.numbers(f"d{axis}", self.domain.lengths[axis]) for axis in axes]
        strides = [
            self.numbers.stride(f"{name}.d{axis}", operand.strides[axis], size) for axis in axes
        ]
        offset = self.numbers(f"{name}.offset", operand.offset) if operand.offset else 0
        argument = self.argument(operand.step)
        found = self.buffer(name, operand.dtype, shape, strides, argument, offset, operand.step)
        return Memory(found, axes)

    def argument(self, step: Step | None) -> int:
        """The number of the argument that is the memory of a value, or scratch memory."""
        if step not in self.operands:
            self.operands.append(step)
        return self.operands.index(step)

    def operand(self, matrices: Matrices, name: str) -> Buffer:
        """The buffer of an operand of the product."""
        return matrices.buffer(self, name, self.argument(matrices.step), self.numbers)

    # Loops

    def tiles(self, body: TileBody) -> None:
        """The tiles of the result, blocks of them in parallel: `body` is given the place in the
        stack, the first row, the number of the column of tiles and its first column. The shape of
        the tile is `tile`.
        """
        product, tile = self.product, self.tile
        across = -(-product.n // tile.columns)
        down = -(-product.m // tile.rows)
        if size_of(product.stack) * across * down >= MIN_PRODUCT_TASKS * TILES_PER_TASK:
            self.together = TILES_PER_TASK
        if tile.lanes > 1:
            # a packed left operand has the rows of one tile in each panel
            self.last = last_shape(tile, product.n, self.together if self.packed is None else 1)
        if self.last is None:
            self._columns_of_tiles(body, across)
            return
        self._columns_of_tiles(body, across - 1)
        self.tile = self.last
        self._columns_of_tiles(body, across - 1, tile)
        self.tile = tile

    def _columns_of_tiles(
        self,
        body: TileBody,
        across: Number,
        before: TileShape | None = None,
    ) -> None:
        """So many columns of tiles, or the one behind so many of another shape."""
        product, tile = self.product, self.tile
        height = self.together * (before or tile).rows
        down, columns = -(-product.m // height), self.numbers("across", across)
        lengths = [self.numbers(f"s{axis}", length) for axis, length in enumerate(product.stack)]
        lengths.append(self.numbers("blocks", down))
        count = size_of(product.stack) * down
        if before is None:
            lengths.append(columns)
            count *= across
        # one of several parallel loops has one index
        flat = [self.numbers("last tasks" if before else "tasks", count)]
        with self.parallel(lengths if self.last is None else flat) as indices:
            found = indices if self.last is None else self.split(indices[0], lengths)
            *stack, block = (affine(each) for each in found[: len(product.stack) + 1])
            # what addresses are made of are indices: a symbol times a stride is not affine
            panel = affine(self.multiple(columns, columns, by=1) if before else found[-1])
            top, column = block * height, panel * (before or tile).columns
            with self.loop(top, top + height, self.m, step=tile.rows) as row:
                body(stack, affine(row), panel, column)
        work = height * tile.columns * product.k
        self.nest.parallel[-1].grain = largest((1, MIN_PRODUCT_THREAD_WORK // work))

    def clamped(self, first: Affine, count: int, end: Affine) -> list[Affine]:
        """Indices from `first` on; behind the last one, that one again."""
        if count == 1:
            return [first]
        return [
            affine(self.multiple(first, first + place, end - 1, by=1)) for place in range(count)
        ]

    def elements(self, stack: Sequence[Affine], rows: Sequence[Affine]) -> Elements:
        """The left operand in all lanes."""

        def element(row: int, indices: tuple[Index, ...]) -> Value:
            k = affine(indices[-1])
            if self.packed is None:
                at = (rows[row], k)
            else:
                at = (rows[0], k * self.packed.tile.columns + row)
            found = self.load(self.left, (*stack, *at))
            return self.splat(self.operand_value(found), self.tile.lanes)

        return element

    def operand_value(self, x: Value) -> Value:
        """An element of an operand, or a bundle, as it is multiplied: pairs as they are."""
        return x if x.dtype is uint32 else self.words.cast(x, self.product.dtype)

    def combine(self, total: Value, a: Value, b: Value) -> Value:
        """A sum with one more product, or with those of a pair."""
        if a.dtype is uint32:
            return self.words.dot_bfloat16(total, a, b)
        return self.words.fused_multiply_add(a, b, total)

    # Tiles

    def outer_products(
        self, stack: Sequence[Affine], row: Affine, columns: Elements, first: Affine
    ) -> None:
        """Computes a tile, from a row and a column on, and writes it. `columns` gives bundles of
        the right operand.
        """
        rows = self.clamped(row, self.tile.rows, self.m)
        self._fetch(stack, rows, first)
        left, dtype = self.elements(stack, rows), self.product.dtype
        if self.product.k <= SUM_BLOCK:
            tile = accumulate(self, dtype, self.tile, [(0, self.k)], left, columns, self.combine)
            totals: list[Value] = [total for row in tile.sums for total in row]
            if self.group.steps:
                for place, total in zip(self._places(), totals, strict=True):
                    self.store(total, self._on_stack, place)
        else:
            self._add_blocks(left, columns)
            if not self.group.steps:
                lanes = self.tile.lanes
                totals = [self.load_lanes(self._on_stack, at, lanes) for at in self._places()]
        if self.group.steps:
            self.write(stack, row, first)
        else:
            self._store(totals, stack, rows, first)

    def _fetch(self, stack: Sequence[Affine], rows: Sequence[Affine], first: Affine) -> None:
        """Has what the epilogue reads for each element of a tile fetched while it is computed."""
        last = len(self.domain.lengths) - 1
        for operand in self.reads:
            memory = self.read_of[operand.step]
            if last not in memory.axes or len(memory.axes) == 1 or memory.buffer.name == "product":
                continue
            if operand.strides[last] != operand.dtype.size:
                continue
            for row in rows:
                for line in range(0, self.tile.columns, CACHE_LINE // operand.dtype.size):
                    at = memory.index(self.point(stack, row, first + line))
                    self.prefetch(memory.buffer, [x for x in at if isinstance(x, Affine)])

    @property
    def _on_stack(self) -> Buffer:
        name = "last tile" if self.tile is self.last else "tile"
        found = next((b for b in self.nest.buffers if b.name == name), None)
        if found is None:
            found = self.stack(name, self.product.dtype, (self.tile.rows, self.tile.columns))
        return found

    def _add_blocks(self, left: Elements, columns: Elements) -> None:
        """A tile of long sums on the stack, to which blocks of sums are added."""
        dtype, lanes = self.product.dtype, self.tile.lanes
        memory = self._on_stack
        zero = Repeated(dtype, Constant(dtype, 0), lanes)
        places = self._places()
        for place in places:
            self.store(zero, memory, place)
        with self.loop(0, self.k, step=SUM_BLOCK) as block:
            begin = affine(block)
            loops = [(begin, begin + SUM_BLOCK, self.k)]
            tile = accumulate(self, dtype, self.tile, loops, left, columns, self.combine)
            flat = [total for row in tile.sums for total in row]
            for place, total in zip(places, flat, strict=True):
                before = self.load_lanes(memory, place, lanes)
                self.store(self.words.add(before, total), memory, place)

    def _places(self) -> list[tuple[Affine, Affine]]:
        """Where the bundles of a tile are on the stack."""
        return [
            (affine(row), affine(vector * self.tile.lanes))
            for row in range(self.tile.rows)
            for vector in range(self.tile.vectors)
        ]

    @property
    def _result(self) -> Buffer:
        """Where a product is stored that nothing is computed of."""
        if self.step is not None:
            return self.write_of[self.step].buffer
        assert self.scratch is not None
        return self.scratch

    def _store(
        self,
        totals: Sequence[Value],
        stack: Sequence[Affine],
        rows: Sequence[Affine],
        first: Affine,
    ) -> None:
        """Puts a tile into the result from registers."""
        result = self._result
        # Rows that are not there are written where the last one is, which follows them.
        for (down, along), total in reversed(list(zip(self._places(), totals, strict=True))):
            value = self.words.cast(total, result.dtype)
            at = self.point(stack, rows[down.constant], first + along)
            self.store(value, result, at, self.n)

    def write(self, stack: Sequence[Affine], row: Affine, first: Affine) -> None:
        """Computes the epilogue of a tile on the stack, and writes its outputs."""
        memory = self._on_stack
        with self.loop(0, self.tile.rows, self.m - row) as down:
            above = self.point(stack, row + down, first)[:-1]
            with self.loop(0, self.tile.columns, self.n - first, kind="vector") as along:
                total = self.load(memory, (affine(down), affine(along)))
                self.element((*above, first + along), total)

    def element(self, point: tuple[Affine, ...], total: Value) -> None:
        """What is computed of one element of the product, and written."""
        if self.step is None:
            self.store(total, self._result, point)
            return
        value = self.words.cast(total, self.step.dtype)
        known: Known = {self.step: value}
        for view in self.group.inputs:
            if _shows(view, self.step):
                known[view] = value
        self.compute(self.group.steps, known, point)
        self.store_outputs([self.step, *self.group.steps], known, point)

    def point(self, stack: Sequence[Affine], row: Affine, column: Affine) -> tuple[Affine, ...]:
        """Where an element of the product is in the domain of its epilogue."""
        if self.step is None:
            return (*stack, row, column)
        if self.product.m == 1 and self.product.n == 1:
            return tuple(affine(0) for _ in self.domain.lengths)
        *lengths, _ = self.domain.lengths
        axes = [*zip(stack, self.product.stack, strict=True), (row, self.product.m)]
        above = [at for at, length in axes if length != 1]
        if len(above) != len(lengths):
            numbers = [self.numbers(f"d{axis}", length) for axis, length in enumerate(lengths)]
            above = [affine(index) for index in self.split(row, numbers)]
        return (*above, column)

    def kernel(self) -> Kernel:
        """The kernel of the nest."""
        self.nest.buffers = [each for each in self.nest.buffers if each.name != "product"]
        self.nest.strategy = STRATEGIES.get(self.way, "")
        parts = (self.way, self.tile, self.last, self.together, self.product.dtype.name)
        way = (self.packed is None, bool(self.product.k > SUM_BLOCK))
        key = None if self.group.steps else code_key(self, self.numbers, *parts, *way)
        return kernel_of(self.nest, self.operands, key)


def _shows(view: Step, step: Step) -> bool:
    """Whether a value is another one, or a view of it that has its elements in order."""
    while view is not step and isinstance(view.op, View):
        view = view.inputs[0]
    return view is step
