"""Examples of ingot.nn.losses."""

import ingot.core as mx
from ingot import nn

# %% cross_entropy
logits = mx.array([[2.0, 0.0], [0.0, 2.0]])
print(nn.losses.cross_entropy(logits, mx.array([0, 0])))
# array([0.126928, 2.12693], dtype=float32)

# %% binary_cross_entropy
print(nn.losses.binary_cross_entropy(mx.array([2.0, -1.0]), mx.array([1.0, 0.0]), reduction="mean"))
# array(0.220095, dtype=float32)

# %% nll_loss
log_probabilities = mx.log(mx.array([[0.25, 0.75]]))
print(nn.losses.nll_loss(log_probabilities, mx.array([1])))
# array([0.287682], dtype=float32)

# %% l1_loss
print(nn.losses.l1_loss(mx.array([1.0, 2.0]), mx.array([0.0, 5.0])))
# array(2, dtype=float32)

# %% mse_loss
print(nn.losses.mse_loss(mx.array([1.0, 2.0]), mx.array([0.0, 5.0])))
# array(5, dtype=float32)

# %% smooth_l1_loss
print(nn.losses.smooth_l1_loss(mx.array([1.0, 2.0]), mx.array([0.5, 5.0]), reduction="none"))
# array([0.125, 2.5], dtype=float32)

# %% huber_loss
print(nn.losses.huber_loss(mx.array([1.0, 2.0]), mx.array([0.5, 5.0]), delta=1.0))
# array([0.125, 2.5], dtype=float32)

# %% log_cosh_loss
print(nn.losses.log_cosh_loss(mx.array([1.0, 2.0]), mx.array([1.0, 0.0])))
# array([0, 1.325], dtype=float32)

# %% hinge_loss
print(nn.losses.hinge_loss(mx.array([0.5, 2.0]), mx.array([1.0, 1.0])))
# array([0.5, 0], dtype=float32)

# %% kl_div_loss
p, q = mx.log(mx.array([0.5, 0.5])), mx.log(mx.array([0.25, 0.75]))
print(nn.losses.kl_div_loss(q, p))
# array(0.143841, dtype=float32)

# %% gaussian_nll_loss
print(nn.losses.gaussian_nll_loss(mx.array([1.0]), mx.array([2.0]), mx.array([0.5])))
# array(0.653426, dtype=float32)

# %% triplet_loss
print(nn.losses.triplet_loss(mx.array([[0.0]]), mx.array([[1.0]]), mx.array([[3.0]]), margin=5.0))
# array([3], dtype=float32)

# %% margin_ranking_loss
print(nn.losses.margin_ranking_loss(mx.array([1.0]), mx.array([2.0]), mx.array([1.0])))
# array([1], dtype=float32)

# %% cosine_similarity_loss
print(nn.losses.cosine_similarity_loss(mx.array([[1.0, 0.0]]), mx.array([[1.0, 1.0]])))
# array([0.707107], dtype=float32)
