"""Random numbers: the generator, the state, the shape of distributions, errors.

That they are MLX's numbers is tested in tests/oracle/test_random_matches_mlx.py.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.stats

import ingot.core as mx
from ingot.graph.op import Missing, registry
from ingot.ops.random.bits import RandomBits
from ingot.ops.random.vectors import CovarianceRoot

KEY = mx.random.key(3)


def encrypted(key: Any, x: int, y: int) -> tuple[int, int]:
    """Threefry-2x32 with 20 rounds, one number at a time."""
    rotations = (13, 15, 26, 6, 17, 29, 16, 24)
    words = (*key, key[0] ^ key[1] ^ 0x1BD11BDA)
    mask = 0xFFFFFFFF
    x, y = x + words[0] & mask, y + words[1] & mask
    for number in range(20):
        rotation = rotations[number % 8]
        x = x + y & mask
        y = (y << rotation & mask | y >> 32 - rotation) ^ x
        group, last = divmod(number + 1, 4)
        if last == 0:
            x = x + words[group % 3] & mask
            y = y + words[(group + 1) % 3] + group & mask
    return x, y


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF,) * 2, (0xFFFFFFFF,) * 2, (0x1CB996FC, 0xBB002BE7)),
        ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
    ],
)
def test_known_answers(counter: Any, key: Any, expected: Any) -> None:
    """Those that the authors of Threefry published with it."""
    assert encrypted(key, *counter) == expected


def test_known_answer_of_the_native_cipher() -> None:
    """A single word belongs to the counter (0, 0)."""
    word = RandomBits((1,)).evaluate(np.zeros(2, np.uint32))
    assert word.tolist() == [0x6B200159]


def words_one_by_one(key: Any, number: int) -> list[int]:
    """The layout in plain words: pairs of counters i and i + half; the odd one goes with 0."""
    half = (number + 1) // 2
    pairs = [
        encrypted(key, i, 0 if i == half - 1 and number % 2 else i + half) for i in range(half)
    ]
    return [*(pair[0] for pair in pairs), *(pair[1] for pair in pairs)][:number]


@pytest.mark.parametrize("number", [0, 1, 2, 3, 15, 16, 17, 18, 19, 1000, 1001])
@pytest.mark.parametrize("keys", [1, 3])
def test_words(number: int, keys: int) -> None:
    pairs = np.array(mx.random.split(KEY, keys))
    found = RandomBits((number,)).evaluate(pairs)
    assert found.tolist() == [words_one_by_one(pair, number) for pair in pairs.tolist()]


@pytest.mark.parametrize("number", [65_536, 65_537, 131_073])
def test_words_beyond_a_slab(number: int) -> None:
    words = RandomBits((number,)).evaluate(np.array(KEY))
    places = [0, 1, 32_767, 32_768, number // 2 - 1, number // 2, number // 2 + 1, number - 1]
    expected = words_one_by_one(KEY.tolist(), number)
    assert words[places].tolist() == [expected[place] for place in places]


def test_many_keys_with_many_words() -> None:
    keys = np.array(mx.random.split(KEY, 900))
    together = RandomBits((101,)).evaluate(keys)
    for row in (0, 1, 323, 324, 325, 899):
        np.testing.assert_array_equal(together[row], RandomBits((101,)).evaluate(keys[row]))


def test_bits_of_keys_in_any_layout() -> None:
    keys = np.array(mx.random.split(KEY, 4))
    flipped = np.asfortranarray(keys)[::-1]
    bits = RandomBits((2, 3))
    np.testing.assert_array_equal(bits.evaluate(flipped), bits.evaluate(keys)[::-1])
    assert bits.evaluate(keys.reshape(2, 2, 2)).shape == (2, 2, 2, 3)
    assert bits.infer(mx.array(keys.reshape(2, 2, 2))) == ((2, 2, 2, 3), mx.uint32)


def test_no_derivative_by_keys() -> None:
    def loss(scale: mx.array, key: mx.array) -> mx.array:
        return (mx.random.uniform(shape=(3,), key=key) * scale).sum()

    gradient = mx.grad(loss)(mx.array(2.0), KEY)
    np.testing.assert_allclose(gradient.item(), mx.random.uniform(shape=(3,), key=KEY).sum().item())


def test_roots_of_covariances() -> None:
    factors = np.random.default_rng(1).normal(size=(2, 3, 3)).astype(np.float32)
    covariance = factors @ factors.swapaxes(-1, -2)
    root = CovarianceRoot().evaluate(covariance)
    np.testing.assert_allclose(root @ root, covariance, 1e-4, 1e-5)
    np.testing.assert_allclose(root, root.swapaxes(-1, -2), 1e-4, 1e-5)


def test_missing_rules_have_reasons() -> None:
    for name in ("RandomBits", "MatchingErf", "MatchingLog1p", "CovarianceRoot"):
        assert isinstance(inspect.getattr_static(registry()[name], "emit"), Missing)


# The state


def drawn() -> list[Any]:
    arrays = (mx.random.uniform(shape=(4,)), mx.random.normal((3,)), mx.random.randint(0, 9, (3,)))
    return [array.tolist() for array in arrays]


def draw() -> tuple[mx.array, ...]:
    return mx.random.uniform(shape=(4,)), mx.random.normal((3,)), mx.random.randint(0, 9, (3,))


def test_the_seed_restarts_the_sequence() -> None:
    mx.random.seed(7)
    first = [drawn() for _ in range(3)]
    assert first[0] != first[1]
    mx.random.seed(7)
    assert [drawn() for _ in range(3)] == first
    mx.random.seed(8)
    assert drawn() != first[0]


def test_the_state_is_a_list_with_a_key() -> None:
    mx.random.seed(2**32 + 5)
    assert len(mx.random.state) == 1
    assert mx.random.state[0].tolist() == [1, 5]
    kept = mx.random.state[0]
    first = drawn()
    assert mx.random.state[0].tolist() != [1, 5]
    mx.random.state[0] = kept
    assert drawn() == first


def test_a_draw_splits_the_key() -> None:
    mx.random.seed(11)
    following, used = mx.random.split(mx.random.key(11))
    assert mx.random.uniform().item() == mx.random.uniform(key=used).item()
    assert mx.random.state[0].tolist() == following.tolist()


def test_a_given_key_leaves_the_state_alone() -> None:
    mx.random.seed(3)
    assert mx.random.normal((5,), key=KEY).tolist() == mx.random.normal((5,), key=KEY).tolist()
    assert mx.random.state[0].tolist() == [0, 3]


def test_a_broken_state_is_reported() -> None:
    kept = mx.random.state[0]
    mx.random.state[0] = mx.array([1.0, 2.0])
    try:
        with pytest.raises(
            ValueError, match=r"\[random.state\] a key has dtype uint32, got float32"
        ):
            mx.random.uniform()
    finally:
        mx.random.state[0] = kept


@pytest.mark.parametrize("options", [{}, {"verify": True}, {"shapeless": True}])
@pytest.mark.parametrize("capture", [False, True])
def test_compiled_functions_follow_the_state(options: Any, capture: bool) -> None:
    captured = {"inputs": mx.random.state, "outputs": mx.random.state} if capture else {}
    compiled = mx.compile(draw, **options, **captured)
    mx.random.seed(5)
    expected = [drawn() for _ in range(3)]
    after = mx.random.state[0].tolist()
    mx.random.seed(5)
    assert [[array.tolist() for array in compiled()] for _ in range(3)] == expected
    assert mx.random.state[0].tolist() == after


def test_sizes_may_stay_open() -> None:
    noisy = mx.compile(lambda x: x + mx.random.normal(x.shape, key=KEY), shapeless=True)
    for size in (3, 5, 4):
        expected = mx.random.normal((size, 2), key=KEY).tolist()
        assert noisy(mx.zeros((size, 2))).tolist() == expected


def test_a_seed_inside_of_compile() -> None:
    def seeded() -> mx.array:
        mx.random.seed(9)
        return mx.random.uniform()

    compiled = mx.compile(seeded)
    assert compiled().item() == compiled().item() == seeded().item()


def test_threads_never_share_a_key() -> None:
    mx.random.seed(1)
    rounds, threads = 50, 4
    found: list[list[float]] = [[] for _ in range(threads)]

    def work(place: int) -> None:
        for _ in range(rounds):
            found[place].append(mx.random.uniform().item())

    workers = [threading.Thread(target=work, args=(place,)) for place in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    mx.random.seed(1)
    expected = [mx.random.uniform().item() for _ in range(rounds * threads)]
    assert sorted(value for values in found for value in values) == sorted(expected)


def test_many_draws_without_evaluation_do_not_recurse() -> None:
    mx.random.seed(1)
    for _ in range(20_000):
        last = mx.random.uniform()
    assert 0 <= last.item() < 1


# The distributions

N = 50_000


@pytest.mark.parametrize(
    ("make", "distribution"),
    [
        (lambda: mx.random.uniform(2, 5, (N,)), scipy.stats.uniform(2, 3)),
        (lambda: mx.random.normal((N,), loc=1, scale=2), scipy.stats.norm(1, 2)),
        (lambda: mx.random.normal((N,), mx.complex64).real, scipy.stats.norm(0, 0.5**0.5)),
        (lambda: mx.random.normal((N,), mx.complex64).imag, scipy.stats.norm(0, 0.5**0.5)),
        (lambda: mx.random.laplace((N,), loc=1, scale=2), scipy.stats.laplace(1, 2)),
        (lambda: mx.random.gumbel((N,)), scipy.stats.gumbel_r()),
        (lambda: mx.random.truncated_normal(-1, 2, (N,)), scipy.stats.truncnorm(-1, 2)),
    ],
)
def test_continuous(make: Callable[[], mx.array], distribution: Any) -> None:
    mx.random.seed(0)
    sample = np.array(make()).astype(np.float64)
    assert scipy.stats.kstest(sample, distribution.cdf).pvalue > 1e-3


def test_discrete() -> None:
    counts = np.bincount(np.array(mx.random.randint(3, 8, (N,), key=KEY)), minlength=9)
    assert counts[:3].sum() == counts[8:].sum() == 0
    assert scipy.stats.chisquare(counts[3:8]).pvalue > 1e-3
    share = np.array(mx.random.bernoulli(0.3, (N,), key=KEY)).mean()
    assert abs(share - 0.3) < 0.01
    logits = np.log([0.1, 0.2, 0.7])
    chosen = np.array(mx.random.categorical(mx.array(logits), num_samples=N, key=KEY))
    expected = N * np.exp(logits)
    assert scipy.stats.chisquare(np.bincount(chosen), expected).pvalue > 1e-3


def test_vectors() -> None:
    covariance = np.array([[2.0, 0.8], [0.8, 1.0]])
    mean = mx.array([1.0, -1.0])
    sample = np.array(mx.random.multivariate_normal(mean, mx.array(covariance), (N,), key=KEY))
    np.testing.assert_allclose(sample.mean(0), [1, -1], atol=0.03)
    np.testing.assert_allclose(np.cov(sample.T), covariance, atol=0.05)


def test_permutations() -> None:
    order = np.array(mx.random.permutation(1000, key=KEY))
    assert sorted(order.tolist()) == list(range(1000))
    rows = np.array(mx.random.permutation(mx.arange(12).reshape(4, 3), key=KEY))
    assert sorted(rows.tolist()) == np.arange(12).reshape(4, 3).tolist()


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16])
def test_uniform_stays_below_its_end(dtype: mx.Dtype) -> None:
    found = mx.random.uniform(shape=(1_000_000,), dtype=dtype, key=KEY).astype(mx.float32)
    assert found.max().item() < 1
    assert found.min().item() >= 0


def test_streams_and_lazy_results() -> None:
    stream = mx.new_stream(mx.cpu)
    found = mx.random.normal((3,), key=KEY, stream=stream)
    assert found.tolist() == mx.random.normal((3,), key=KEY).tolist()
    assert mx.random.uniform(shape=(1 << 20, 1 << 20)).shape == (1 << 20, 1 << 20)  # not computed


# Errors

SPACE = {"mx": mx, "random": mx.random, "np": np, "key": KEY, "z": mx.zeros}


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        ("random.seed(-1)", TypeError, "[seed] a seed is from 0 up to 2**64 - 1, got -1."),
        ("random.seed(1.5)", TypeError, "[seed] seed must be an int, got float: 1.5."),
        ("random.key(2**64)", TypeError, f"[key] seed does not fit into 64 bits, got {2**64}."),
        ("random.split([0, 1])", TypeError, "[split] key must be an array, got list: [0, 1]."),
        ("random.split(key, 2.0)", TypeError, "[split] num must be an int, got float: 2.0."),
        ("random.split(key, -1)", ValueError, "[split] cannot make -1 keys."),
        (
            "random.split(mx.array([0, 1]))",
            ValueError,
            "[split] a key has dtype uint32, got int32: make it with mx.random.key(seed).",
        ),
        (
            "random.uniform(key=random.split(key))",
            ValueError,
            "[uniform] a key has shape (2), got (2, 2): for several keys at once use mx.vmap.",
        ),
        (
            "random.uniform(shape=3)",
            TypeError,
            "[uniform] shape must be a sequence of ints, got int: 3. A shape is one argument, "
            "such as (3, 4).",
        ),
        (
            "random.uniform(shape=(2, -1))",
            ValueError,
            "[uniform] a shape cannot have negative lengths, got (2, -1).",
        ),
        (
            "random.uniform(shape=(2**30, 2**30))",
            OverflowError,
            "[uniform] an array of shape (1073741824, 1073741824) has more elements than memory "
            "has addresses.",
        ),
        (
            "random.uniform(dtype=mx.int32)",
            ValueError,
            "[uniform] makes real numbers of a floating-point dtype, not of int32.",
        ),
        (
            "random.gumbel(dtype=mx.float64)",
            RuntimeError,
            "[gumbel] makes its numbers of 32 bits, too few for float64: cast float32 ones.",
        ),
        (
            "random.uniform(dtype='float32')",
            TypeError,
            "[uniform] dtype must be a dtype such as mx.float32 or None, got str: 'float32'. "
            "Use mx.float32.",
        ),
        (
            "random.uniform(z(3), 1, (2, 1))",
            ValueError,
            "[uniform] parameters of shape (2, 3) do not fit into the shape (2, 1) that is asked "
            "for: give shape=(2, 3).",
        ),
        ("random.uniform(None)", TypeError, "[uniform] takes arrays and numbers, got NoneType."),
        ("random.uniform([1])", ValueError, "[uniform] takes arrays and numbers, got list."),
        (
            "random.normal((2,), mx.int8)",
            ValueError,
            "[normal] makes numbers of a floating-point dtype or complex64, not of int8.",
        ),
        (
            "random.randint(0, 2, dtype=mx.float32)",
            ValueError,
            "[randint] makes integers or bools, not numbers of float32.",
        ),
        (
            "random.bernoulli(1)",
            ValueError,
            "[bernoulli] p must be floating-point, got int32.",
        ),
        ("random.laplace(loc=1j)", TypeError, "[laplace] loc must be a number, got complex: 1j."),
        ("random.laplace(scale='a')", TypeError, "[laplace] scale must be a number, got str: 'a'."),
        (
            "random.categorical([1.0])",
            TypeError,
            "[categorical] logits must be an array, got list: [1.0].",
        ),
        (
            "random.categorical(z((4, 3)), 2)",
            IndexError,
            "[categorical] axis 2 is out of range for an array with 2 axes.",
        ),
        (
            "random.categorical(z((4, 3)), shape=(1,))",
            ValueError,
            "[categorical] the shape (1) that is asked for has no room for distributions of shape "
            "(4).",
        ),
        (
            "random.categorical(z(3), shape=(), num_samples=2)",
            ValueError,
            "[categorical] takes shape or num_samples, not both, got shape=() and num_samples=2.",
        ),
        (
            "random.categorical(z(3), num_samples=2.0)",
            TypeError,
            "[categorical] num_samples must be an int or None, got float: 2.0.",
        ),
        (
            "random.permutation(np.arange(3))",
            TypeError,
            "[permutation] x must be an int or an array, got numpy.ndarray: array([0, 1, 2]). "
            "Convert it with mx.array(x).",
        ),
        (
            "random.permutation(z(3), 1)",
            IndexError,
            "[permutation] axis 1 is out of range for an array with 1 axis.",
        ),
        (
            "random.permutation(3, 'a')",
            TypeError,
            "[permutation] axis must be an int, got str: 'a'.",
        ),
        (
            "random.multivariate_normal(z(2), mx.eye(3))",
            ValueError,
            "[multivariate_normal] mean has shape (..., n) and cov (..., n, n), got shapes (2) and "
            "(3, 3).",
        ),
        (
            "random.multivariate_normal(z(()), mx.eye(3))",
            ValueError,
            "[multivariate_normal] mean has at least one axis and cov two, got shapes () and "
            "(3, 3).",
        ),
        (
            "random.multivariate_normal(z(2), mx.eye(2), dtype=mx.float16)",
            ValueError,
            "[multivariate_normal] makes float32 numbers only, not float16.",
        ),
        (
            "random.multivariate_normal(z(2), mx.eye(2) * float('nan')).tolist()",
            RuntimeError,
            "[multivariate_normal] cov has elements that are NaN or infinite. "
            "Raised by CovarianceRoot(float32[2, 2]), made at <string>:1 in <module>.",
        ),
    ],
)
def test_errors(call: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        eval(call, dict(SPACE))
    assert str(caught.value) == message


def test_a_failed_call_leaves_the_state_alone() -> None:
    mx.random.seed(4)
    with pytest.raises(ValueError, match="dtype"):
        mx.random.uniform(dtype=mx.int32)
    assert mx.random.state[0].tolist() == [0, 4]
