"""Examples of ingot.core: arrays, their dtypes and where they come from."""

import numpy as np

import ingot.core as mx

# %% array
x = mx.array([[1, 2], [3, 4]], dtype=mx.float32)
print(x.shape, x.dtype)
# (2, 2) ingot.core.float32
print(mx.array([0.5, True, 3]))
# array([0.5, 1, 3], dtype=float32)


# %% ArrayLike
class Celsius:
    def __init__(self, degrees: list[float]) -> None:
        self.degrees = degrees

    def __mlx_array__(self) -> mx.array:
        return mx.array(self.degrees)


today: mx.ArrayLike = Celsius([20.0, 25.0])
print(mx.array(today) * 9 / 5 + 32)
# array([68, 77], dtype=float32)

# %% ArrayAt
x = mx.zeros(3)
print(x.at[mx.array([0, 0, 2])].add(1))
# array([2, 0, 1], dtype=float32)

# %% ArrayIterator
rows = iter(mx.eye(2))
print(isinstance(rows, mx.ArrayIterator), next(rows))
# True array([1, 0], dtype=float32)

# %% asarray
print(mx.asarray([1, 2, 3], dtype=mx.float16))
# array([1, 2, 3], dtype=float16)

# %% from_dlpack
print(mx.from_dlpack(np.arange(3)))
# array([0, 1, 2], dtype=int64)

# %% arange
print(mx.arange(4))
# array([0, 1, 2, 3], dtype=int32)
print(mx.arange(1, 2, 0.25))
# array([1, 1.25, 1.5, 1.75], dtype=float32)

# %% linspace
print(mx.linspace(0, 1, 5))
# array([0, 0.25, 0.5, 0.75, 1], dtype=float32)

# %% zeros
print(mx.zeros((2, 2)).tolist())
# [[0.0, 0.0], [0.0, 0.0]]

# %% zeros_like
print(mx.zeros_like(mx.array([1, 2])))
# array([0, 0], dtype=int32)

# %% ones
print(mx.ones(3, mx.int32))
# array([1, 1, 1], dtype=int32)

# %% ones_like
print(mx.ones_like(mx.array([0.5, 2.5])))
# array([1, 1], dtype=float32)

# %% full
print(mx.full((3,), 7))
# array([7, 7, 7], dtype=int32)

# %% full_like
print(mx.full_like(mx.array([1.0, 2.0]), 5))
# array([5, 5], dtype=float32)

# %% empty
print(mx.empty((2, 3)).shape)
# (2, 3)

# %% empty_like
print(mx.empty_like(mx.array([1, 2])).dtype)
# ingot.core.int32

# %% eye
print(mx.eye(2, 3).tolist())
# [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]

# %% identity
print(mx.identity(2).tolist())
# [[1.0, 0.0], [0.0, 1.0]]

# %% tri
print(mx.tri(3).tolist())
# [[1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [1.0, 1.0, 1.0]]

# %% diag
print(mx.diag(mx.array([1, 2])).tolist())
# [[1, 0], [0, 2]]
print(mx.diag(mx.array([[1, 2], [3, 4]])))
# array([1, 4], dtype=int32)

# %% meshgrid
x, y = mx.meshgrid(mx.array([1, 2]), mx.array([3, 4]))
print(x.tolist(), y.tolist())
# [[1, 2], [1, 2]] [[3, 3], [4, 4]]

# %% bartlett
print(mx.bartlett(5))
# array([0, 0.5, 1, 0.5, 0], dtype=float32)

# %% blackman
print(mx.blackman(4))
# array([0, 0.63, 0.63, 0], dtype=float32)

# %% hamming
print(mx.hamming(4))
# array([0.08, 0.77, 0.77, 0.08], dtype=float32)

# %% hanning
print(mx.hanning(5))
# array([0, 0.5, 1, 0.5, 7.64274e-15], dtype=float32)

# %% astype
print(mx.astype(mx.array([1.7, -1.7]), mx.int32))
# array([1, -1], dtype=int32)

# %% view
print(mx.view(mx.array([1.0]), mx.int32))
# array([1065353216], dtype=int32)

# %% to_fp8
print(mx.to_fp8(mx.array([1.0, 0.3])))
# array([56, 42], dtype=uint8)

# %% from_fp8
print(mx.from_fp8(mx.array([56, 42], mx.uint8), mx.float32))
# array([1, 0.3125], dtype=float32)

# %% Dtype
print(mx.float32.size, mx.array([True]).dtype)
# 4 ingot.core.bool

# %% DtypeCategory
print(mx.issubdtype(mx.int8, mx.signedinteger))
# True

# %% issubdtype
print(mx.issubdtype(mx.bfloat16, mx.floating), mx.issubdtype(mx.int32, mx.floating))
# True False

# %% isdtype
print(mx.isdtype(mx.int16, "integral"))
# True

# %% can_cast
print(mx.can_cast(mx.int8, mx.int32), mx.can_cast(mx.float32, mx.int32))
# True False

# %% result_type
print(mx.result_type(mx.array([1], mx.int8), mx.array([0.5], mx.float16)))
# ingot.core.float16

# %% finfo
print(mx.finfo(mx.float32).eps, mx.finfo(mx.float16).max)
# 1.1920928955078125e-07 65504.0

# %% iinfo
print(mx.iinfo(mx.int8).min, mx.iinfo(mx.uint16).max)
# -128 65535

# %% save
mx.save("weights.npy", mx.arange(3))
print(mx.load("weights.npy"))
# array([0, 1, 2], dtype=int32)

# %% load
mx.save_safetensors("layer.safetensors", {"bias": mx.zeros(2)})
print(mx.load("layer.safetensors"))
# {'bias': array([0, 0], dtype=float32)}

# %% savez
mx.savez("both.npz", a=mx.array([1]), b=mx.array([2.5]))
print(mx.load("both.npz")["b"])
# array([2.5], dtype=float32)

# %% savez_compressed
mx.savez_compressed("small.npz", zeros=mx.zeros(10_000))
print(mx.load("small.npz")["zeros"].shape)
# (10000,)

# %% save_safetensors
mx.save_safetensors("w.safetensors", {"w": mx.ones(2)}, {"author": "me"})
arrays, metadata = mx.load("w.safetensors", return_metadata=True)
print(arrays["w"], metadata["author"])
# array([1, 1], dtype=float32) me

# %% save_gguf
mx.save_gguf("model.gguf", {"w": mx.ones(2)}, {"general.name": "tiny"})
arrays, metadata = mx.load("model.gguf", return_metadata=True)
print(arrays["w"], metadata["general.name"])
# array([1, 1], dtype=float32) tiny
