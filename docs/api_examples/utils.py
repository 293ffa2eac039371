"""Examples of ingot.utils: trees of arrays."""

import ingot.core as mx
from ingot.utils import (
    tree_flatten,
    tree_map,
    tree_map_with_path,
    tree_merge,
    tree_reduce,
    tree_unflatten,
)

# %% tree_flatten
print(tree_flatten({"layers": [{"w": 1}, {"w": 2}]}))
# [('layers.0.w', 1), ('layers.1.w', 2)]

# %% tree_unflatten
print(tree_unflatten([("layers.0.w", 1), ("layers.1.w", 2)]))
# {'layers': [{'w': 1}, {'w': 2}]}

# %% tree_map
print(tree_map(lambda x, y: x + y, {"w": [1, 2]}, {"w": [10, 20]}))
# {'w': [11, 22]}

# %% tree_map_with_path
print(tree_map_with_path(lambda path, x: f"{path}={x}", {"w": [1, 2]}))
# {'w': ['w.0=1', 'w.1=2']}

# %% tree_merge
print(tree_merge({"a": {"x": 1}}, {"a": {"y": 2}})["a"]["y"])
# 2

# %% tree_reduce
print(tree_reduce(lambda total, x: total + x.size, {"w": mx.zeros((2, 3)), "b": mx.zeros(2)}, 0))
# 8
