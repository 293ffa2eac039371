"""Decompositions, contractions, Fourier transforms: each printed through what it must satisfy."""

import mlx.core as mx

cpu = mx.cpu
mx.random.seed(17)
A = mx.random.normal((6, 4))
S = A.T @ A + mx.eye(4)


def near(a, b):
    return mx.allclose(a, b, rtol=1e-4, atol=1e-4).item()


Q, R = mx.linalg.qr(A, stream=cpu)
print("qr", near(Q @ R, A), near(Q.T @ Q, mx.eye(4)), near(R, mx.triu(R)))
U, s, Vt = mx.linalg.svd(A, stream=cpu)
print("svd", U.shape, near((U[:, :4] * s) @ Vt, A), [f"{v:.3f}" for v in s.tolist()])
L = mx.linalg.cholesky(S, stream=cpu)
print("cholesky", near(L @ L.T, S), f"{mx.prod(mx.diagonal(L)).item():.3f}")
w, V = mx.linalg.eigh(S, stream=cpu)
print("eigh", near((V * w) @ V.T, S), [f"{v:.3f}" for v in w.tolist()])
b = mx.arange(4.0)
x = mx.linalg.solve(S, b, stream=cpu)
print("solve", near(S @ x, b), [f"{v:.3f}" for v in x.tolist()])
print("inverse", near(mx.linalg.inv(S, stream=cpu) @ S, mx.eye(4)))
print("pseudo", near(mx.linalg.pinv(A, stream=cpu) @ A, mx.eye(4)))
lower = mx.linalg.solve_triangular(L, b, upper=False, stream=cpu)
print("triangular", near(L @ lower, b))
norms = [mx.linalg.norm(A), mx.linalg.norm(A, ord=1), mx.linalg.norm(A, axis=0)]
print("norms", *(f"{n.item():.3f}" for n in norms[:2]), norms[2].shape)
print("cross", mx.linalg.cross(mx.array([1.0, 0, 0]), mx.array([0, 1.0, 0])).tolist())

# The largest eigenvalue once more, by power iteration.
v = mx.ones(4)
for _ in range(200):
    v = S @ v
    v = v / mx.linalg.norm(v)
print("power iteration", near(v @ S @ v, w[-1]))

B = mx.arange(24.0).reshape(2, 3, 4)
C = mx.arange(20.0).reshape(4, 5)
print("einsum", mx.einsum("bij,jk->bik", B, C).sum(axis=(1, 2)).tolist())
print("trace", mx.einsum("ii", S).item() == mx.trace(S).item(), mx.einsum("bij->jb", B).shape)
print("bilinear", near(mx.einsum("i,ij,j", b, S, b), b @ S @ b))
print("tensordot", mx.tensordot(B, C, axes=1).shape, mx.inner(b, b).item())
print("outer", mx.outer(b, b)[2].tolist(), mx.kron(mx.eye(2), mx.ones((1, 2))).tolist())
print("addmm", mx.addmm(mx.ones((3, 5)), B[0], C, alpha=0.5, beta=2.0)[0].tolist())

t = mx.arange(64) / 64
signal = mx.sin(2 * mx.pi * 5 * t) + 0.5 * mx.cos(2 * mx.pi * 12 * t)
spectrum = mx.abs(mx.fft.rfft(signal))
peaks = mx.argsort(-spectrum)[:2]
print("peaks", peaks.tolist(), [f"{v:.2f}" for v in spectrum[peaks].tolist()])
print("back", near(mx.fft.irfft(mx.fft.rfft(signal)), signal))
image = mx.random.normal((8, 8))
print("two axes", near(mx.fft.ifft2(mx.fft.fft2(image)).real, image))
z = mx.array([1 + 2j, 3 - 1j])
print("complex", (z * mx.conj(z)).tolist(), mx.abs(z[0]).item() ** 2 > 4.99, z.dtype)
kernel = mx.array([0.25, 0.5, 0.25])
print("smoothed", mx.convolve(mx.array([0.0, 0, 4, 0, 0]), kernel, mode="same").tolist())
