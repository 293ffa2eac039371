"""Numerical methods, compiled and not: Sinkhorn, CTC, edit distances, graphs, filters, spectra."""

import mlx.core as mx


def numbers(*shape, seed=0):
    return mx.random.normal(shape, key=mx.random.key(seed))


def show(name, function, *args):
    """Sums that tell the results apart, which must not depend on `compile`."""
    plain, fast = function(*args), mx.compile(function)(*args)
    weights = mx.cos(mx.arange(plain.size)).reshape(plain.shape)
    for result in (plain, fast):
        total = (result.astype(mx.float32) * weights).sum()
        print(f"{name}: {result.shape} {result.dtype} {total.item():.3e}")


def sinkhorn(cost):
    rows, columns = mx.zeros((cost.shape[0],)), mx.zeros((cost.shape[1],))
    for _ in range(20):
        rows = -0.5 * mx.logsumexp((columns[None] - cost) / 0.5, axis=1)
        columns = -0.5 * mx.logsumexp((rows[:, None] - cost) / 0.5, axis=0)
    return mx.exp((rows[:, None] + columns[None] - cost) / 0.5)


def ctc(logits, labels):
    (_, batch, _), length = logits.shape, labels.shape[1]
    likely = logits - mx.logsumexp(logits, axis=-1, keepdims=True)
    spread = mx.stack([mx.zeros_like(labels), labels], axis=-1).reshape(batch, 2 * length)
    spread = mx.concatenate([spread, mx.zeros((batch, 1), dtype=spread.dtype)], axis=1)
    may_skip = (spread[:, 2:] != 0) & (spread[:, 2:] != spread[:, :-2])
    may_skip = mx.concatenate([mx.zeros((batch, 2), dtype=mx.bool_), may_skip], axis=1)
    first = mx.take_along_axis(likely[0], spread[:, :2], axis=1)
    state = mx.concatenate([first, mx.full((batch, 2 * length - 1), -1e30)], axis=1)
    for step in likely[1:]:
        one = mx.concatenate([mx.full((batch, 1), -1e30), state[:, :-1]], axis=1)
        two = mx.concatenate([mx.full((batch, 2), -1e30), state[:, :-2]], axis=1)
        before = mx.logaddexp(mx.logaddexp(state, one), mx.where(may_skip, two, -1e30))
        state = before + mx.take_along_axis(step, spread, axis=1)
    return -mx.logaddexp(state[:, -1], state[:, -2])


def edit_distances(one, other):
    positions = mx.arange(other.shape[1] + 1)
    row = mx.broadcast_to(positions, (one.shape[0], positions.size))
    for i in range(one.shape[1]):
        changed = mx.minimum(row[:, :-1] + (one[:, i : i + 1] != other), row[:, 1:] + 1)
        begun = mx.full((one.shape[0], 1), i + 1, dtype=row.dtype)
        row = positions - mx.cummax(positions - mx.concatenate([begun, changed], axis=1), axis=1)
    return row[:, -1]


def attention_over_edges(x, edges, weights):
    source, target = edges
    h = x @ weights
    score = (h[source] * h[target]).sum(axis=1)
    largest = mx.full((x.shape[0],), -1e9).at[target].maximum(score)
    share = mx.exp(score - largest[target])
    share = share / mx.zeros((x.shape[0],)).at[target].add(share)[target]
    return mx.zeros_like(h).at[target].add(share[:, None] * h[source])


def bags(table, index, weights):
    rows = table[index]
    parts = [(rows * weights[..., None]).sum(1), rows.max(axis=1), rows.mean(axis=1)]
    lengths = mx.sqrt(mx.square(table[index]).sum(-1))
    return mx.concatenate([*parts, mx.softmax(lengths, axis=1)], axis=1)


def gradient_of_bags(table, index, weights):
    return mx.grad(lambda table: mx.square(bags(table, index, weights)).mean())(table)


def poisson(density):
    n = density.shape[0]
    waves = mx.concatenate([mx.arange(n // 2), mx.arange(-(n // 2), 0)])
    squares = waves[:, None] ** 2 + waves[None] ** 2
    return mx.fft.ifft2(mx.fft.fft2(density) / mx.maximum(squares, 1)).real


def spectra_along_time(signals):
    return mx.abs(mx.fft.rfft(signals * signals.shape[0] ** -0.5, axis=0))


def kalman(seen):
    move, look = mx.eye(4) + 0.1 * mx.eye(4, k=2), mx.eye(2, 4)
    state, spread, states = mx.zeros((4,)), mx.eye(4), []
    for each in seen:
        state, spread = move @ state, move @ spread @ move.T + 0.01 * mx.eye(4)
        noise = look @ spread @ look.T + mx.eye(2)
        gain = spread @ look.T @ mx.linalg.inv(noise, stream=mx.cpu)
        state = state + gain @ (each - look @ state)
        spread = spread - gain @ look @ spread
        states.append(state)
    return mx.stack(states)


def hessian(x, matrix):
    slope = mx.grad(lambda x: mx.square(mx.tanh(matrix @ x)).sum() + mx.exp(-(x * x).sum()))
    return mx.vmap(lambda v: mx.jvp(slope, (x,), (v,))[1][0])(mx.eye(x.size))


letters = mx.random.randint(0, 4, (2, 6, 9), key=mx.random.key(1))
edges = mx.random.randint(0, 40, (2, 150), key=mx.random.key(2))
index = mx.random.randint(-60, 60, (7, 5), key=mx.random.key(3))
show("sinkhorn", sinkhorn, mx.abs(numbers(23, 17)))
show("ctc", ctc, numbers(12, 3, 7), mx.random.randint(1, 7, (3, 4), key=mx.random.key(4)))
show("edit distances", edit_distances, letters[0], letters[1, :, :7])
show("attention over edges", attention_over_edges, numbers(40, 8), edges, numbers(8, 8) * 0.3)
for width in (3, 12, 24, 32):
    show(f"bags of {width}", bags, numbers(60, width), index, numbers(7, 5))
show("gradient of bags", gradient_of_bags, numbers(60, 12), index, numbers(7, 5))
show("poisson", poisson, numbers(20, 20))
for shape in ((40, 33), (256, 18), (34, 2, 3)):
    show("spectra along time", spectra_along_time, numbers(*shape))
show("kalman", kalman, numbers(9, 2))
show("hessian", hessian, numbers(6), numbers(5, 6))
