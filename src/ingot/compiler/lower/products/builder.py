"""The builder of the nests of matrix products: operands as buffers, a parallel loop over tiles, and
the epilogue of each tile.

The elementwise operations that follow a product (a bias, an activation, a residual) are its
epilogue, a group of maps. If there is one, a tile is written to the stack, and loops compute the
epilogue from there while it is in L1; otherwise it is stored from registers.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from ingot.compiler.forms.affine import Affine, Extent, Index, affine
from ingot.compiler.forms.nest.data import Buffer, Constant, Repeated, Value
from ingot.compiler.forms.nests import Area, Kernel
from ingot.compiler.forms.schedule import Group, without_ones
from ingot.compiler.forms.size import Number
from ingot.compiler.forms.tape import Step
from ingot.compiler.lower.domain import Operand
from ingot.compiler.lower.group import GroupBuilder, Known, Memory
from ingot.compiler.lower.kernel import kernel_of
from ingot.compiler.lower.products.fetching import fetch_lines
from ingot.compiler.lower.products.numbers import code_key, numbers_of
from ingot.compiler.lower.products.operands import Matrices, Product
from ingot.compiler.lower.products.panels import Panels
from ingot.compiler.lower.products.register_tile import TileShape, accumulate, last_shape
from ingot.compiler.lower.products.tasks import (
    grain_of,
    is_by_blocks,
    is_by_columns,
    tiles_per_block,
    tiles_per_task,
)
from ingot.graph.dtype import uint32
from ingot.graph.roles import View
from ingot.graph.shape import size_of
from ingot.tuning import SUM_BLOCK

__all__ = ["ProductBuilder", "epilogue_of", "has_axes_of"]

Strides = dict[Step, tuple[int, ...]]
Elements = Callable[[int, tuple[Index | Affine, ...]], Value]
TileBody = Callable[[list[Affine], Affine, Affine, Affine], None]

# descriptions of kernels in explanations
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
    """The group of a product without an epilogue."""
    return Group("fused", [], [], [step], without_ones(step.shape))


def has_axes_of(group: Group, product: Product) -> bool:
    """Whether the domain of an epilogue has the axes of a product's result: columns last, before
    them the axes of the stack and the rows, or axes whose combination is the rows.
    """
    *above, columns = group.domain or (1,)
    if columns != product.n or columns == 1:
        return False
    rows = without_ones((*product.stack, product.m))
    return tuple(above) == rows or (not product.stack and size_of(above) == product.m)


class ProductBuilder(GroupBuilder):
    """The base of the kernels of all strategies for products."""

    def __init__(
        self,
        variant: str,
        product: Product,
        tile: TileShape,
        epilogue: Group,
        strides_of: Strides,
        left: Panels | None = None,
    ) -> None:
        self.numbers = numbers_of(product.stack, (product.m, product.n, product.k))
        self.product = product
        # a result in scratch memory, or of parts of complex numbers, has no epilogue
        step, dtype = product.result.step, product.result.dtype
        self.step = step if isinstance(step, Step) and step.dtype is dtype else None
        # keep rows, columns and the axes of the stack as separate axes of the domain
        axes = range(len(epilogue.domain))
        super().__init__(epilogue, strides_of, axes if product.stack else axes[-1:])
        self.variant = variant
        self.tile = tile
        self.last: TileShape | None = None  # tile shape of the last columns, if different
        self.tiles_per_task = 1  # vertically adjacent tiles per iteration
        self.by_columns = is_by_columns(product)  # whether threads share columns, rather than rows
        self.by_blocks = False  # whether threads share rows, each with all columns of results
        self.packed = left  # the left operand, if it is packed
        self.unpaired: Buffer | None = None  # the same, if its rows' last elements are in no pair
        self.details: tuple[Hashable, ...] = ()  # what else the code depends on
        if left is None:
            self.left = self.operand(product.left, "a")
        else:
            self.left = left.rows_buffer(self, self.argument(left.area), self.numbers)
        self.alone = self.operand(product.result, "c") if self.step is None else None
        self.m = affine(self.numbers("a.rows", product.m))
        self.n = affine(self.numbers("n", product.n))
        self.k = affine(self.numbers("a.columns", product.k))

    # Memory

    def _memory(self, operand: Operand) -> Memory:
        """The buffer of an operand of the epilogue. The product itself gets a placeholder, since it
        is never in memory then.
        """
        assert self.step is not None
        if _is_view_of(operand.step, self.step) and operand.step not in self.group.outputs:
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

    def argument(self, step: Step | Area | None) -> int:
        """The position of the argument for the memory of a value, or for scratch memory."""
        if step not in self.operands:
            self.operands.append(step)
        return self.operands.index(step)

    def operand(self, matrices: Matrices, name: str) -> Buffer:
        """The buffer of an operand of the product."""
        return matrices.buffer(self, name, self.argument(matrices.step), self.numbers)

    # Loops

    def tiles(self, body: TileBody) -> None:
        """A loop over the tiles of the result, blocks of which run in parallel. `body` is called
        with the indices along the stack, the first row, the number of the column of tiles and its
        first column. It must compute a tile of shape `tile`.
        """
        product, tile = self.product, self.tile
        across = -(-product.n // tile.columns)
        down = -(-product.m // tile.rows)
        self.by_blocks = across > 1 and is_by_blocks(product, down)
        if self.by_blocks:
            self.tiles_per_task = tiles_per_block(product, tile)
        else:
            self.tiles_per_task = tiles_per_task(product, across * down)
        if tile.lanes > 1:
            # each panel of a packed left operand has the rows of one tile
            self.last = last_shape(
                tile, product.n, self.tiles_per_task if self.packed is None else 1
            )
        if self.by_blocks:
            self._blocks_of_rows(body, across)
            return
        if self.last is None:
            self._columns_of_tiles(body, across)
            return
        self._columns_of_tiles(body, across - 1)
        self.tile = self.last
        self._columns_of_tiles(body, across - 1, tile)
        self.tile = tile

    def _blocks_of_rows(self, body: TileBody, across: Number) -> None:
        """A loop over blocks of rows, each with all of its columns of tiles."""
        product, tile = self.product, self.tile
        height = self.tiles_per_task * tile.rows
        lengths = [self.numbers(f"s{axis}", length) for axis, length in enumerate(product.stack)]
        lengths.append(self.numbers("blocks", -(-product.m // height)))
        whole = self.numbers("across", across - 1 if self.last else across)
        with self.parallel(lengths) as (*indices, block):
            stack, top = [affine(each) for each in indices], affine(block) * height
            with self.loop(0, whole) as panel:
                column = affine(panel) * tile.columns
                with self.loop(top, top + height, self.m, step=tile.rows) as row:
                    body(stack, affine(row), affine(panel), column)
            if self.last is not None:
                self.tile, rest = self.last, affine(self.multiple(whole, whole, by=1))
                with self.loop(top, top + height, self.m, step=self.last.rows) as row:
                    body(stack, affine(row), rest, rest * tile.columns)
                self.tile = tile
        self.nest.parallel[-1].grain = grain_of(product, height, product.n)

    def _columns_of_tiles(
        self,
        body: TileBody,
        across: Number,
        before: TileShape | None = None,
    ) -> None:
        """A loop over this many columns of tiles, or over the last column, which follows columns of
        tiles of the shape `before`.
        """
        product, tile = self.product, self.tile
        height = self.tiles_per_task * (before or tile).rows
        down, columns = -(-product.m // height), self.numbers("across", across)
        lengths: list[Extent] = [
            self.numbers(f"s{axis}", length) for axis, length in enumerate(product.stack)
        ]
        # a result of one row has no axis of rows, so the nest must show that there is one block
        axes: list[Extent] = [1 if product.m == 1 else self.numbers("blocks", down)]
        count = size_of(product.stack) * down
        if before is None:
            axes.insert(0 if self.by_columns else 1, columns)
            count *= across
        lengths += axes
        # if there are several parallel loops, each must have a single index
        if is_flat := self.last is not None and len(lengths) > 1:
            flat = [self.numbers("last tasks" if before else "tasks", count)]
        with self.parallel(flat if is_flat else lengths) as indices:
            found = self.split(indices[0], lengths) if is_flat else indices
            stack = [affine(each) for each in found[: len(product.stack)]]
            first, last = (affine(each) for each in (found[len(product.stack)], found[-1]))
            block, panel = (last, first) if self.by_columns else (first, last)
            if before is not None:
                # a symbol times a symbolic stride is not affine, but an index times a stride is
                panel = affine(self.multiple(columns, columns, by=1))
            top, column = block * height, panel * (before or tile).columns
            with self.loop(top, top + height, self.m, step=tile.rows) as row:
                body(stack, affine(row), panel, column)
        self.nest.parallel[-1].grain = grain_of(product, height, tile.columns)

    def clamped(self, first: Affine, count: int, end: Affine) -> list[Affine]:
        """`count` indices from `first` on, clamped to `end` - 1."""
        if count == 1:
            return [first]
        return [
            affine(self.multiple(first, first + offset, end - 1, by=1)) for offset in range(count)
        ]

    def elements(self, stack: Sequence[Affine], rows: Sequence[Affine]) -> Elements:
        """A function that loads elements of the left operand, broadcast to all lanes."""

        def element(row: int, indices: tuple[Index | Affine, ...]) -> Value:
            k = affine(indices[-1])
            at = (rows[row], k)
            if self.packed is not None:
                at = (rows[0], k * self.packed.tile.columns + row)
            found = self.load(self.left, (*stack, *at))
            return self.splat(self.operand_value(found), self.tile.lanes)

        return element

    def operand_value(self, x: Value) -> Value:
        """An element or bundle of an operand, cast to the dtype of the sums; pairs stay packed."""
        return x if x.dtype is uint32 else self.words.cast(x, self.product.dtype)

    def combine(self, total: Value, a: Value, b: Value) -> Value:
        """Adds a product, or the two products of a pair, to a sum."""
        if a.dtype is uint32:
            return self.words.dot_bfloat16(total, a, b)
        return self.words.fused_multiply_add(a, b, total)

    # Tiles

    def outer_products(
        self, stack: Sequence[Affine], row: Affine, columns: Elements, first: Affine
    ) -> None:
        """Computes and stores the tile at a row and column. `columns` loads bundles of the right
        operand.
        """
        rows = self.clamped(row, self.tile.rows, self.m)
        ahead = self._fetch(stack, row, first)
        left, dtype = self.elements(stack, rows), self.product.dtype
        if self.product.k <= SUM_BLOCK:
            loops = [(0, self.k)]
            tile = accumulate(
                self, dtype, self.tile, loops, left, columns, self.combine, ahead=ahead
            )
            totals: list[Value] = [total for row in tile.sums for total in row]
            totals = self._with_ends(totals, stack, rows, columns)
            if self._is_written_from_stack:
                for index, total in zip(self._bundle_indices(), totals, strict=True):
                    self.store(total, self._on_stack, index)
        else:
            self._add_blocks(left, columns, ahead)
            if not self._is_written_from_stack:
                lanes = self.tile.lanes
                totals = [
                    self.load_lanes(self._on_stack, at, lanes) for at in self._bundle_indices()
                ]
        if self._is_written_from_stack:
            self.write(stack, row, first)
        else:
            self._store(totals, stack, rows, first)

    @property
    def _is_written_from_stack(self) -> bool:
        return bool(self.group.steps) or self._is_scattered

    @property
    def _is_scattered(self) -> bool:
        """Whether the columns of a tile are rows of the result."""
        return self.product.is_transposed and self.product.m != 1

    def _fetch(
        self, stack: Sequence[Affine], row: Affine, first: Affine
    ) -> Callable[[Index], None] | None:
        """Prefetches what has an element for each of the tile's: operands of the epilogue, and the
        results, which stores would otherwise wait for; or returns a function that does so.
        """
        found = self._read_and_written()

        def fetch(down: Affine, along: Affine) -> None:
            inside = affine(self.multiple(row, row + down, self.m - 1, by=1))
            for memory in found:
                at = memory.index(self.point(stack, inside, first + along))
                self.prefetch(memory.buffer, [x for x in at if isinstance(x, Affine)])

        ahead = fetch_lines(self, self.tile, self.product.k, fetch) if found else None
        self.details += (ahead is None,)
        return ahead

    def _read_and_written(self) -> list[Memory]:
        """The memory of what a tile's epilogue reads and writes, by rows of the tile."""
        if self._is_scattered:
            return []
        last = len(self.domain.lengths) - 1
        found = [(each, self.read_of[each.step]) for each in self.reads]
        found += [(each, self.write_of[each.step]) for each in self.writes]
        return [
            memory
            for operand, memory in found
            if last in memory.axes
            and len(memory.axes) > 1
            and memory.buffer.name != "product"
            and operand.strides[last] == operand.dtype.size
        ]

    @property
    def _on_stack(self) -> Buffer:
        name = "last tile" if self.tile is self.last else "tile"
        found = next((b for b in self.nest.buffers if b.name == name), None)
        if found is None:
            found = self.stack(name, self.product.dtype, (self.tile.rows, self.tile.columns))
        return found

    def _with_ends(
        self,
        totals: list[Value],
        stack: Sequence[Affine],
        rows: Sequence[Affine],
        columns: Elements,
    ) -> list[Value]:
        """Sums with the products of the last elements, which belong to no pair. The right operand
        has zeros beside its own.
        """
        if self.unpaired is None:
            return totals
        last, lanes = affine(self.unpaired.shape[-1]) - 1, self.tile.lanes
        right = [columns(vector, (self.k,)) for vector in range(self.tile.vectors)]
        found: list[Value] = []
        for row in rows:
            end = self.words.cast(self.load(self.unpaired, (*stack, row, last)), uint32)
            left = self.splat(end, lanes)
            found += [self.combine(totals[len(found) + n], left, x) for n, x in enumerate(right)]
        return found

    def _add_blocks(
        self, left: Elements, columns: Elements, ahead: Callable[[Index], None] | None
    ) -> None:
        """Computes a tile with long sums on the stack, one block of each sum at a time."""
        dtype, lanes = self.product.dtype, self.tile.lanes
        memory = self._on_stack
        zero = Repeated(dtype, Constant(dtype, 0), lanes)
        indices = self._bundle_indices()
        for index in indices:
            self.store(zero, memory, index)
        with self.loop(0, self.k, step=SUM_BLOCK) as block:
            begin = affine(block)
            loops = [(begin, begin + SUM_BLOCK, self.k)]
            tile = accumulate(
                self, dtype, self.tile, loops, left, columns, self.combine, ahead=ahead
            )
            flat = [total for row in tile.sums for total in row]
            for index, total in zip(indices, flat, strict=True):
                before = self.load_lanes(memory, index, lanes)
                self.store(self.words.add(before, total), memory, index)

    def _bundle_indices(self) -> list[tuple[Affine, Affine]]:
        """The indices of a tile's bundles on the stack."""
        return [
            (affine(row), affine(vector * self.tile.lanes))
            for row in range(self.tile.rows)
            for vector in range(self.tile.vectors)
        ]

    @property
    def _result(self) -> Buffer:
        """The buffer of a result that has no epilogue."""
        if self.step is not None:
            return self.write_of[self.step].buffer
        assert self.alone is not None
        return self.alone

    def _store(
        self,
        totals: Sequence[Value],
        stack: Sequence[Affine],
        rows: Sequence[Affine],
        first: Affine,
    ) -> None:
        """Stores a tile from registers."""
        result = self._result
        # Rows past the last one are clamped to it, so store that one last.
        for (down, along), total in reversed(
            list(zip(self._bundle_indices(), totals, strict=True))
        ):
            value = self.words.cast(total, result.dtype)
            at = self.point(stack, rows[down.constant], first + along)
            self.store(value, result, at, self.n)

    def write(self, stack: Sequence[Affine], row: Affine, first: Affine) -> None:
        """Computes the epilogue of a tile on the stack and stores its outputs."""
        self.write_block(self._on_stack, stack, (row, self.tile.rows), (first, self.tile.columns))

    def write_block(
        self,
        memory: Buffer,
        stack: Sequence[Affine],
        rows: tuple[Affine, int],
        columns: tuple[Affine, int],
    ) -> None:
        """Computes the epilogue of a block of the product on the stack and stores its outputs.
        `rows` and `columns` are the first one of the product and the most that there are.
        """
        (row, height), (first, width) = rows, columns
        if self._is_scattered:
            with self.loop(0, width, self.n - first) as along:
                above = self.point(stack, row, first + along)[:-1]
                with self.loop(0, height, self.m - row, kind="vector") as down:
                    total = self.load(memory, (affine(down), affine(along)))
                    self.element((*above, row + down), total)
            return
        with self.loop(0, height, self.m - row) as down:
            above = self.point(stack, row + down, first)[:-1]
            with self.loop(0, width, self.n - first, kind="vector") as along:
                total = self.load(memory, (affine(down), affine(along)))
                self.element((*above, first + along), total)

    def element(self, point: tuple[Affine, ...], total: Value) -> None:
        """Computes the epilogue of one element of the product and stores its outputs."""
        if self.step is None:
            self.store(total, self._result, point)
            return
        value = self.words.cast(total, self.step.dtype)
        known: Known = {self.step: value}
        for view in self.group.inputs:
            if _is_view_of(view, self.step):
                known[view] = value
        self.compute(self.group.steps, known, point)
        self.store_outputs([self.step, *self.group.steps], known, point)

    def point(self, stack: Sequence[Affine], row: Affine, column: Affine) -> tuple[Affine, ...]:
        """The point of the epilogue's domain that an element of the product belongs to."""
        if self.step is None:
            return (*stack, row, column)
        if self.product.m == 1 and self.product.n == 1:
            return tuple(affine(0) for _ in self.domain.lengths)
        *lengths, _ = self.domain.lengths
        count = self.product.m
        if self.product.is_transposed and count != 1:
            row, column, count = column, row, self.product.n
        axes = [*zip(stack, self.product.stack, strict=True), (row, count)]
        above = [at for at, length in axes if length != 1]
        if len(above) != len(lengths):
            numbers = [self.numbers(f"d{axis}", length) for axis, length in enumerate(lengths)]
            above = [affine(index) for index in self.split(row, numbers)]
        return (*above, column)

    def kernel(self) -> Kernel:
        """The kernel of the nest."""
        self.nest.buffers = [each for each in self.nest.buffers if each.name != "product"]
        self.nest.strategy = STRATEGIES.get(self.variant, "")
        product = self.product
        parts = (self.variant, self.tile, self.last, self.tiles_per_task, product.dtype.name)
        is_transposed, is_row = product.is_transposed, product.m == 1
        is_long = bool(product.k > SUM_BLOCK)
        order = (self.by_columns, self.by_blocks)
        facts = (self.packed is None, is_row, is_transposed, is_long, *order)
        known = (*parts, *facts, *self.details)
        key = None if self.group.steps else code_key(self, self.numbers, *known)
        return kernel_of(self.nest, self.operands, key)


def _is_view_of(view: Step, step: Step) -> bool:
    """Whether a value is another one, or a view of it with the elements in the same order."""
    while view is not step and isinstance(view.op, View):
        view = view.inputs[0]
    return view is step
