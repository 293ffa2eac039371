"""Reading and writing with indices: the game of life, a sieve, histograms, scattered updates."""

import mlx.core as mx


def draw(board):
    return "\n".join("".join(".#"[cell] for cell in row) for row in board.tolist())


def life(board):
    shifts = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0)]
    neighbours = sum(mx.roll(board, shift, axis=(0, 1)) for shift in shifts)
    return ((neighbours == 3) | ((board == 1) & (neighbours == 2))).astype(mx.int32)


board = mx.zeros((8, 8), dtype=mx.int32)
board[mx.array([0, 1, 2, 2, 2]), mx.array([1, 2, 0, 1, 2])] = 1
for _ in range(5):
    board = life(board)
print(draw(board))
print("alive", board.sum().item())

prime = mx.ones(60, dtype=mx.bool_)
prime[:2] = False
for n in range(2, 8):
    if prime[n].item():
        prime[n * n :: n] = False
print("primes", [n for n, p in enumerate(prime.tolist()) if p])

values = mx.array([3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5])
counts = mx.zeros(10, dtype=mx.int32).at[values].add(1)
print("histogram", counts.tolist())
order = mx.argsort(values)
print("sorted", values[order].tolist(), "largest", mx.topk(values, 3).tolist())
best = mx.zeros(4).at[mx.array([0, 1, 0, 3])].maximum(mx.array([2.0, -1.0, 5.0, 7.0]))
print("best", best)

grid = mx.arange(24).reshape(2, 3, 4)
print("ellipsis", grid[..., -1].tolist(), grid[:, None, 1].shape, grid[0, ::-1, 1::2].tolist())
print("arrays", grid[mx.array([0, 1]), :, mx.array([3, 0])].tolist())
print("take", mx.take(grid, mx.array([[0, 2]]), axis=1).shape)
columns = mx.array([[[1], [0], [3]], [[2], [2], [0]]])
print("along", mx.take_along_axis(grid, columns, axis=2).squeeze(-1).tolist())
put = mx.put_along_axis(grid, columns, mx.array(-1), axis=2)
print("put", put[1].tolist())

matrix = mx.zeros((4, 4))
matrix[1:3, 1:3] = mx.array([[1.0, 2.0], [3.0, 4.0]])
matrix[-1] += 10
matrix[:, 0] = matrix[:, 3]
print(matrix)
a = mx.array([1, 2, 3])
b = a
b[0] = 100
print("the same array", a.tolist(), "an older result", (a + 0).tolist())
masked = mx.where(values > 3, values, -values)
print("masked", masked.tolist(), mx.argmax(masked).item(), mx.any(masked < -3).item())
padded = mx.pad(mx.arange(4).reshape(2, 2), [(1, 0), (0, 2)], constant_values=9)
print("padded", padded.tolist())
windows = mx.as_strided(mx.arange(6), (4, 3), (1, 1))
print("windows", windows.sum(axis=1).tolist())
print("tril", mx.tril(mx.ones((3, 3), dtype=mx.int32), -1).tolist())
