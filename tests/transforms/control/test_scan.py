"""Loops against the same loops written out in Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.transforms.control.unrolled import close, scanned

import ingot.core as mx

rng = np.random.default_rng(0)
W = mx.array(rng.normal(size=(4, 4)).astype(np.float32) * 0.5)
XS = mx.array(rng.normal(size=(7, 3, 4)).astype(np.float32))
H = mx.array(rng.normal(size=(3, 4)).astype(np.float32))


def recurrent(scan: Any, w: mx.array, h: mx.array, xs: mx.array, reverse: bool = False) -> mx.array:
    def step(state: mx.array, x: mx.array) -> Any:
        new = mx.tanh(state @ w + x)
        return new, mx.sin(new) * x

    end, ys = scan(step, h, xs, reverse=reverse)
    return (end * end).sum() + (ys**3).sum()


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("compiled", [False, True])
def test_values(reverse: bool, compiled: bool) -> None:
    def step(state: mx.array, x: mx.array) -> Any:
        new = mx.tanh(state @ W + x)
        return new, {"twice": new * 2, "pair": (x, new.sum())}

    def run(h: mx.array, xs: mx.array) -> Any:
        return mx.scan(step, h, xs, reverse=reverse)

    found = (mx.compile(run) if compiled else run)(H, XS)
    close(found, scanned(step, H, XS, reverse=reverse))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("compiled", [False, True])
def test_gradients(reverse: bool, compiled: bool) -> None:
    def run(scan: Any) -> Any:
        gradient = mx.grad(lambda *args: recurrent(scan, *args, reverse), (0, 1, 2))
        return (mx.compile(gradient) if compiled else gradient)(W, H, XS)

    close(run(mx.scan), run(scanned), 1e-5)


def test_second_derivatives() -> None:
    def run(scan: Any) -> Any:
        first = mx.grad(lambda *args: recurrent(scan, *args), (0, 1, 2))
        return mx.grad(lambda w: sum((g**2).sum() for g in first(w, H, XS)))(W)

    close(run(mx.scan), run(scanned), 1e-5)


def test_forward_mode_and_both() -> None:
    tangents = [mx.array(rng.normal(size=x.shape).astype(np.float32)) for x in (W, H, XS)]

    def run(scan: Any) -> Any:
        forward = mx.jvp(lambda *args: recurrent(scan, *args), (W, H, XS), tangents)
        # only the sequence varies: the carry gets its tangent from it
        one = mx.jvp(lambda xs: recurrent(scan, W, H, xs), (XS,), tangents[2:])
        twice = mx.grad(
            lambda w: mx.jvp(lambda xs: recurrent(scan, w, H, xs), (XS,), tangents[2:])[1][0]
        )(W)
        return forward, one, twice

    close(run(mx.scan), run(scanned), 1e-5)


@pytest.mark.parametrize("axes", [(0, None, None), (None, 0, None), (None, None, 1), (0, 0, 0)])
@pytest.mark.parametrize("what", [lambda f: f, mx.grad])
def test_vmap(axes: Any, what: Any) -> None:
    many = [
        mx.array(rng.normal(size=(*x.shape[: axis or 0], 5, *x.shape[axis or 0 :])) * 0.4).astype(
            mx.float32
        )
        if axis is not None
        else x
        for x, axis in zip((W, H, XS), axes, strict=True)
    ]

    def run(scan: Any) -> Any:
        return mx.vmap(what(lambda *args: recurrent(scan, *args)), axes)(*many)

    close(run(mx.scan), run(scanned), 1e-5)


def test_gradient_under_vmap_inside_compile() -> None:
    def run(scan: Any) -> Any:
        return mx.compile(mx.grad(lambda w: mx.vmap(lambda h: recurrent(scan, w, h, XS))(H3).sum()))

    H3 = mx.stack([H, H * 2, H - 1])
    close(run(mx.scan)(W), run(scanned)(W), 1e-5)


def test_nested() -> None:
    def outer(scan: Any, w: mx.array) -> mx.array:
        def inner(total: mx.array, row: mx.array) -> Any:
            return mx.sin(total + (row @ w).sum()), total

        def step(carry: mx.array, x: mx.array) -> Any:
            end, ys = scan(inner, carry, x)
            return end, ys

        end, ys = scan(step, mx.array(0.5), XS)
        return end + ys.sum()

    for make in (mx.value_and_grad, lambda f: mx.compile(mx.grad(f))):
        close(make(lambda w: outer(mx.scan, w))(W), make(lambda w: outer(scanned, w))(W), 1e-5)


def test_random_numbers_are_those_of_the_unrolled_loop() -> None:
    def step(total: mx.array, _: Any) -> Any:
        return total + mx.random.normal((2,)), mx.random.uniform()

    results = []
    for scan in (mx.scan, scanned):
        for compiled in (False, True):
            mx.random.seed(3)
            run = lambda start, scan=scan: scan(step, start, length=5)  # noqa: E731
            found = (mx.compile(run) if compiled else run)(mx.zeros((2,)))
            results.append((found, mx.random.uniform()))
    for other in results[1:]:
        close(results[0], other)


def test_random_numbers_under_vmap() -> None:
    """They are the same for all examples, as without a loop, and the state goes on as before."""
    start = mx.array([1.0, 2.0])
    results = []
    for scan in (mx.scan, scanned):
        mx.random.seed(1)
        step = lambda c, _: (c + mx.random.normal(()), None)  # noqa: E731
        found = mx.vmap(lambda c, scan=scan, step=step: scan(step, c, length=3)[0])(start)
        results.append((found, mx.random.uniform()))
    close(*results)


def test_random_numbers_that_depend_on_the_example_are_refused() -> None:
    mx.random.seed(1)
    with pytest.raises(ValueError, match="draw them outside"):
        mx.vmap(lambda c: mx.cond(c > 1, lambda: mx.random.uniform(), lambda: c))(mx.arange(3.0))
    found = mx.random.uniform().item()
    mx.random.seed(1)
    assert found == mx.random.uniform().item()


def test_numbers_that_a_body_returns_are_not_truncated() -> None:
    assert mx.scan(lambda c, x: (0.5, c), 0, mx.arange(3))[0].item() == 0.5
    assert mx.scan(lambda c, x: (2**40, c), 0, mx.arange(3))[0].item() == 2**40
    with pytest.raises(ValueError, match="comes out as float32"):
        mx.scan(lambda c, x: (0.5, c), mx.array(7), mx.arange(3))


def test_structures_and_numbers() -> None:
    def step(carry: Any, x: Any) -> Any:
        return {"n": carry["n"] + 1, "sum": [carry["sum"][0] + x[0]]}, None

    end, ys = mx.scan(step, {"n": 0, "sum": [0]}, (mx.arange(4.0), None))
    assert ys is None
    assert end["n"].item() == 4
    assert end["sum"][0].dtype == mx.float32  # a number takes the dtype that the body gives it
    assert end["sum"][0].item() == 6


def test_what_the_body_leaves_alone_comes_back() -> None:
    end, ys = mx.scan(lambda c, x: ((c[0], c[1] + x), c[0]), (W, mx.array(0)), mx.arange(3))
    assert end[0].tolist() == W.tolist()
    assert ys.shape == (3, 4, 4)


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16, mx.float32, mx.int32, mx.complex64])
def test_dtypes(dtype: mx.Dtype) -> None:
    xs = mx.array(rng.integers(-3, 4, size=(9, 5))).astype(dtype)
    step = lambda c, x: (c * 2 - x, c + x)  # noqa: E731
    close(mx.scan(step, xs[0], xs), scanned(step, xs[0], xs))


def test_no_steps_and_one() -> None:
    end, ys = mx.scan(lambda c, x: (c + x, c * x), mx.ones((2,)), mx.zeros((0, 2)))
    assert end.tolist() == [1, 1]
    assert ys.shape == (0, 2)
    end, ys = mx.scan(lambda c, x: (c + x, c * x), mx.ones((2,)), mx.ones((1, 2)) * 3)
    assert end.tolist() == [4, 4]
    assert ys.tolist() == [[3, 3]]
    gradient = mx.grad(lambda c: mx.scan(lambda c, x: (c * x, None), c, mx.zeros((0,)))[0])
    assert gradient(mx.array(2.0)).item() == 1


def test_strided_sequences_and_large_carries() -> None:
    xs = mx.array(rng.normal(size=(6, 8, 5)).astype(np.float32))
    step = lambda c, x: (mx.concatenate([c[1:], x[None]]), c.mean())  # noqa: E731
    for each in (mx.swapaxes(xs, 0, 1), xs[::2], xs[:, ::-1]):
        start = mx.zeros((64, *each.shape[1:]))
        close(mx.scan(step, start, each), scanned(step, start, each))


def test_integer_carries_have_no_gradient() -> None:
    def loss(x: mx.array) -> mx.array:
        def step(carry: Any, _: Any) -> Any:
            return (carry[0] + 1, carry[1] * mx.cos(x * carry[0])), carry[0]

        (_, value), counts = mx.scan(step, (mx.array(0), x), length=4)
        return value + counts.sum()

    def unrolled(x: mx.array) -> mx.array:
        value = x
        for n in range(4):
            value = value * mx.cos(x * n)
        return value + 6

    close(mx.value_and_grad(loss)(mx.array(0.7)), mx.value_and_grad(unrolled)(mx.array(0.7)))


def test_errors_name_the_leaf_and_both_sides() -> None:
    with pytest.raises(
        ValueError, match=r"carry\['h'\]\[1\] goes into the body as float32 of shape"
    ):
        mx.scan(lambda c, x: ({"h": [c["h"][0], c["h"][1][None]]}, x), {"h": [W, W]}, XS)
    with pytest.raises(ValueError, match="comes out as float32"):
        mx.scan(lambda c, x: (c + 0.5, x), mx.array(1), XS)
    with pytest.raises(ValueError, match="keep its structure"):
        mx.scan(lambda c, x: ((c, c), x), W, XS)
    with pytest.raises(ValueError, match=r"the carry\['h'\]\[1\] is array before and None after"):
        mx.scan(lambda c, x: ({"h": [c["h"][0], None]}, x), {"h": [W, W]}, XS)
    with pytest.raises(ValueError, match=r"the carry is \{'h': array\} before and \{'g': array\}"):
        mx.scan(lambda c, x: ({"g": c["h"]}, x), {"h": W}, XS)
    with pytest.raises(ValueError, match="return the carry and y"):
        mx.scan(lambda c, x: c, W, XS)
    with pytest.raises(ValueError, match=r"xs\[1\] of shape \(3\) has 3 slices"):
        mx.scan(lambda c, x: (c, None), W, [XS, mx.arange(3)])
    with pytest.raises(ValueError, match="needs xs"):
        mx.scan(lambda c, x: (c, None), W)


def test_captured_scalars_share_machine_code() -> None:
    from ingot.transforms.control import programs

    def run(rate: float) -> mx.array:
        factor = mx.array(rate)
        return mx.scan(lambda c, x: (c * factor + x, None), mx.array(0.0), mx.arange(3.0))[0]

    assert run(0.5).item() == 2.5
    before = programs._program.cache_info().misses
    assert run(0.25).item() == 2.25
    assert programs._program.cache_info().misses == before


def test_traced_once_whatever_the_length() -> None:
    calls = []

    def step(c: mx.array, x: mx.array) -> Any:
        calls.append(1)
        return c + x, c

    mx.eval(mx.scan(step, mx.array(0.0), mx.arange(1000.0)))
    assert len(calls) == 1


def test_the_gradient_runs_the_loop_forward_once() -> None:
    """The residuals come from the loop that gives the results."""
    from ingot.transforms.control import programs

    lengths = []
    before = programs.run_scan

    def counting(scan: Any, inputs: Any) -> Any:
        lengths.append(scan.reverse)
        return before(scan, inputs)

    import ingot.transforms.control.scan_op as scan_op

    scan_op.run_scan = counting
    try:
        mx.eval(mx.value_and_grad(lambda w: recurrent(mx.scan, w, H, XS))(W))
    finally:
        scan_op.run_scan = before
    assert sorted(lengths) == [False, True]


@pytest.mark.parametrize("length", [1, 2, 7])
def test_concatenations_that_are_carried_and_stacked(length: int) -> None:
    def step(c: tuple[mx.array, mx.array], x: mx.array) -> Any:
        a, b = c
        both = mx.concatenate([a, b])
        return (mx.concatenate([b[1:], a[:1]]), mx.concatenate([a[:2], b[:1] + x])), (both, both)

    xs = mx.arange(float(length))
    start = mx.arange(3.0), mx.arange(3.0) + 10
    close(mx.scan(step, start, xs), scanned(step, start, xs), 0)


def test_a_counter_that_nothing_reads_is_no_part_of_the_body() -> None:
    def step(carry: Any, x: mx.array) -> Any:
        number, other, total = carry
        return (number + 2, other + number % 3 * 0, total * 0.5 + x), total

    def alone(carry: Any, x: mx.array) -> Any:
        number, total = carry
        return (number + 2, total * 0.5 + x), total

    xs = mx.array([1.0, 2.0, 3.0])
    for body, start, carries in ((step, (3, 0, mx.array(1.0)), 3), (alone, (3, mx.array(1.0)), 1)):
        found = mx.scan(body, start, xs)
        op: Any = found[1]._node.inputs[0].op
        assert op.carries == carries
        close(found, scanned(body, tuple(map(mx.array, start)), xs))
        close(mx.compile(lambda body=body, start=start: mx.scan(body, start, xs))(), found)
