"""Examples of ingot itself."""

import importlib

import ingot
import ingot.core as mx

# %% install_as_mlx
ingot.install_as_mlx()
mlx_core = importlib.import_module("mlx.core")  # or `import mlx.core`
print(mlx_core is mx)
# True

# %% profile
with ingot.profile() as profile:
    mx.eval(mx.exp(mx.zeros((100, 100))))
print(type(profile).__name__)
# Profile
