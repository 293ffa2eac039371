"""Decompositions of matrices and Fourier transforms, which libraries compute."""

from __future__ import annotations

from typing import Any

from ingot.benchmarks.benchmark import Contenders, benchmark
from ingot.benchmarks.libraries import load
from ingot.benchmarks.suite.contenders import numbers, own_words

LENGTH = 512
STACK = (256, 32, 32)
SMALL_STACK = (4096, 4, 4)
SIGNALS = (1024, 4096)
IMAGES = (8, 500, 512)
PRIME_SIGNALS = (1024, 1009)
AS_FAST = {"jax jit": 1.0, "torch": 1.0}
TRANSFORM = {"jax jit": 0.9, "torch": 0.9}


def _matrix() -> tuple[Any, ...]:
    return (numbers((LENGTH, LENGTH)),)


def _symmetric() -> tuple[Any, ...]:
    matrix = numbers((LENGTH, LENGTH))
    return (matrix + matrix.T,)


def _definite() -> tuple[Any, ...]:
    stack = numbers(STACK)
    return (stack @ stack.swapaxes(-1, -2) + load("numpy").eye(STACK[-1], dtype="float32"),)


@benchmark("singular values of 512 x 512", targets=AS_FAST)
def singular_values() -> Contenders:
    return own_words(
        _matrix,
        lambda mx, x: mx.linalg.svd(x, stream=mx.cpu)[1],
        lambda jax, x: jax.numpy.linalg.svd(x, compute_uv=False),
        lambda torch, x: torch.linalg.svdvals(x),
    )


@benchmark("eigenvalues and eigenvectors of a symmetric 512 x 512", targets=AS_FAST)
def eigh() -> Contenders:
    return own_words(
        _symmetric,
        lambda mx, x: mx.linalg.eigh(x, stream=mx.cpu),
        lambda jax, x: jax.numpy.linalg.eigh(x),
        lambda torch, x: torch.linalg.eigh(x),
    )


@benchmark("Cholesky factors of 256 matrices of 32 x 32", targets=AS_FAST)
def cholesky_stack() -> Contenders:
    return own_words(
        _definite,
        lambda mx, x: mx.linalg.cholesky(x, stream=mx.cpu),
        lambda jax, x: jax.numpy.linalg.cholesky(x),
        lambda torch, x: torch.linalg.cholesky(x),
    )


@benchmark("singular values of 256 matrices of 32 x 32", targets=AS_FAST)
def singular_values_stack() -> Contenders:
    return own_words(
        lambda: (numbers(STACK),),
        lambda mx, x: mx.linalg.svd(x, compute_uv=False, stream=mx.cpu),
        lambda jax, x: jax.numpy.linalg.svd(x, compute_uv=False),
        lambda torch, x: torch.linalg.svdvals(x),
    )


@benchmark("LU factors of 256 matrices of 32 x 32", targets=AS_FAST)
def lu_stack() -> Contenders:
    return own_words(
        lambda: (numbers(STACK),),
        lambda mx, x: mx.linalg.lu_factor(x, stream=mx.cpu),
        lambda jax, x: jax.scipy.linalg.lu_factor(x),
        lambda torch, x: torch.linalg.lu_factor(x),
    )


@benchmark("inverses of 4096 matrices of 4 x 4", targets=AS_FAST)
def inverse_stack() -> Contenders:
    return own_words(
        lambda: (numbers(SMALL_STACK),),
        lambda mx, x: mx.linalg.inv(x, stream=mx.cpu),
        lambda jax, x: jax.numpy.linalg.inv(x),
        lambda torch, x: torch.linalg.inv(x),
    )


@benchmark("Fourier transforms of eight images of 500 x 512", targets=AS_FAST)
def fft_images() -> Contenders:
    return own_words(
        lambda: (numbers(IMAGES),),
        lambda mx, x: mx.fft.fft2(x),
        lambda jax, x: jax.numpy.fft.fft2(x),
        lambda torch, x: torch.fft.fft2(x),
    )


@benchmark("1024 real Fourier transforms of 4096", targets=TRANSFORM)
def rfft_rows() -> Contenders:
    return own_words(
        lambda: (numbers(SIGNALS),),
        lambda mx, x: mx.fft.rfft(x),
        lambda jax, x: jax.numpy.fft.rfft(x),
        lambda torch, x: torch.fft.rfft(x),
    )


@benchmark("1024 Fourier transforms of 1009, a prime", targets=TRANSFORM)
def fft_prime_rows() -> Contenders:
    return own_words(
        lambda: (numbers(PRIME_SIGNALS),),
        lambda mx, x: mx.fft.fft(x),
        lambda jax, x: jax.numpy.fft.fft(x),
        lambda torch, x: torch.fft.fft(x),
    )
