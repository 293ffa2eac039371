"""Examples of ingot.core.fft."""

import ingot.core as mx

# %% fft
print(mx.fft.fft(mx.array([1.0, 0.0, 0.0, 0.0])))
# array([1+0j, 1+0j, 1+0j, 1+0j], dtype=complex64)

# %% ifft
print(mx.fft.ifft(mx.fft.fft(mx.array([1.0, 2.0, 3.0]))).real)
# array([1, 2, 3], dtype=float32)

# %% fft2
print(mx.fft.fft2(mx.ones((2, 3))).shape)
# (2, 3)

# %% ifft2
print(mx.fft.ifft2(mx.ones((2, 2))).real.tolist())
# [[1.0, 0.0], [0.0, 0.0]]

# %% fftn
print(mx.fft.fftn(mx.ones((2, 3, 4)), axes=(0, 2)).shape)
# (2, 3, 4)

# %% ifftn
print(mx.fft.ifftn(mx.ones((2, 3, 4))).shape)
# (2, 3, 4)

# %% rfft
print(mx.fft.rfft(mx.array([1.0, 0.0, 0.0, 0.0])))
# array([1+0j, 1+0j, 1+0j], dtype=complex64)

# %% irfft
print(mx.fft.irfft(mx.fft.rfft(mx.array([1.0, 2.0, 3.0, 4.0]))))
# array([1, 2, 3, 4], dtype=float32)

# %% rfft2
print(mx.fft.rfft2(mx.ones((2, 4))).shape)
# (2, 3)

# %% irfft2
print(mx.fft.irfft2(mx.fft.rfft2(mx.ones((2, 4)))).shape)
# (2, 4)

# %% rfftn
print(mx.fft.rfftn(mx.ones((2, 3, 4))).shape)
# (2, 3, 3)

# %% irfftn
print(mx.fft.irfftn(mx.fft.rfftn(mx.ones((2, 3, 4)))).shape)
# (2, 3, 4)

# %% fftfreq
print(mx.fft.fftfreq(4, 0.5))
# array([0, 0.5, -1, -0.5], dtype=float32)

# %% rfftfreq
print(mx.fft.rfftfreq(4, 0.5))
# array([0, 0.5, 1], dtype=float32)

# %% fftshift
print(mx.fft.fftshift(mx.array([0, 1, 2, 3])))
# array([2, 3, 0, 1], dtype=int32)

# %% ifftshift
print(mx.fft.ifftshift(mx.array([2, 3, 0, 1])))
# array([0, 1, 2, 3], dtype=int32)

# %% stft
signal = mx.sin(mx.arange(64) * 0.5)
print(mx.fft.stft(signal, n_fft=16).shape)
# (9, 17)

# %% istft
signal = mx.sin(mx.arange(64) * 0.5)
again = mx.fft.istft(mx.fft.stft(signal, n_fft=16), n_fft=16)
print(mx.allclose(again, signal, atol=1e-5))
# array(True, dtype=bool)
