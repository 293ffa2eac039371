"""Examples of ingot.search."""

import numpy as np

import ingot.core as mx
from ingot import search

vectors = np.random.default_rng(0).standard_normal((1000, 16)).astype(np.float32)

# %% FlatIndex
index = search.FlatIndex(16)
index.add(vectors)
_, labels = index.search(vectors[:2], 3)
print(labels[:, 0])
# array([0, 1], dtype=int64)

# %% index_factory
index = search.index_factory(16, "IVF8,Flat")
index.train(vectors)
index.add(vectors)
print(index.ntotal)
# 1000

# %% IVFFlatIndex
index = search.IVFFlatIndex(16, nlist=8)
index.train(vectors)
index.add(vectors)
index.nprobe = 8
print(index.search(vectors[:2], 1)[1][:, 0])
# array([0, 1], dtype=int64)

# %% IVFPQIndex
index = search.IVFPQIndex(16, nlist=4, M=4, nbits=4)
index.train(vectors)
index.add(vectors)
print(index.search(vectors[:2], 3)[1].shape)
# (2, 3)

# %% IVFScalarQuantizerIndex
index = search.IVFScalarQuantizerIndex(16, nlist=4)
index.train(vectors)
index.add(vectors)
print(index.ntotal)
# 1000

# %% PQIndex
index = search.PQIndex(16, M=4, nbits=4)
index.train(vectors)
index.add(vectors)
print(index.search(vectors[:2], 3)[0].shape)
# (2, 3)

# %% ScalarQuantizerIndex
index = search.ScalarQuantizerIndex(16)
index.train(vectors)
index.add(vectors)
print(index.search(vectors[:2], 1)[1][:, 0])
# array([0, 1], dtype=int64)

# %% MetricType
index = search.FlatIndex(16, metric_type=search.MetricType.INNER_PRODUCT)
index.add(vectors)
print(index.ntotal)
# 1000

# %% nearest
_, labels = search.nearest(mx.array(vectors[:2]), mx.array(vectors), 3)
print(labels[:, 0])
# array([0, 1], dtype=int64)

# %% topk_svd
u, values, vt = search.topk_svd(mx.array(vectors), 4)
print(u.shape, values.shape, vt.shape)
# (1000, 4) (4,) (4, 16)

# %% ShardedIndex
world = mx.distributed.init()
index = search.ShardedIndex(search.FlatIndex(16), world)
index.add(vectors)  # each rank keeps its part
print(index.search(vectors[:2], 1)[1][:, 0])
# array([0, 1], dtype=int64)
