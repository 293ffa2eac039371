"""Examples of ingot.nn: modules, layers and training."""

import ingot.core as mx
from ingot import nn
from ingot import optimizers as optim


# %% Module
class Perceptron(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.hidden = nn.Linear(4, 8)
        self.output = nn.Linear(8, 1)

    def __call__(self, x: mx.array) -> mx.array:
        return self.output(nn.relu(self.hidden(x)))


model = Perceptron()
print(model(mx.ones((5, 4))).shape, sorted(model.parameters()))
# (5, 1) ['hidden', 'output']

# %% value_and_grad
model = nn.Linear(2, 1)


def loss(model: nn.Linear, x: mx.array, y: mx.array) -> mx.array:
    return nn.losses.mse_loss(model(x), y)


optimizer = optim.SGD(0.1)
for _ in range(100):
    _, gradients = nn.value_and_grad(model, loss)(model, mx.eye(2), mx.array([[1.0], [2.0]]))
    optimizer.update(model, gradients)
print(model(mx.eye(2)).round(1).tolist())
# [[1.0], [2.0]]

# %% Sequential
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
print(model(mx.ones((3, 4))).shape)
# (3, 2)

# %% Identity
print(nn.Identity()(mx.array([1, 2])))
# array([1, 2], dtype=int32)

# %% Linear
print(nn.Linear(4, 8, bias=False)(mx.ones((3, 4))).shape)
# (3, 8)

# %% Bilinear
print(nn.Bilinear(2, 3, 4)(mx.ones((5, 2)), mx.ones((5, 3))).shape)
# (5, 4)

# %% Embedding
words = nn.Embedding(1000, 16)
print(words(mx.array([[3, 7, 9]])).shape)
# (1, 3, 16)

# %% QuantizedLinear
layer = nn.QuantizedLinear.from_linear(nn.Linear(64, 8), group_size=64, bits=4)
print(layer(mx.ones((1, 64))).shape)
# (1, 8)

# %% QuantizedEmbedding
words = nn.QuantizedEmbedding(1000, 64, group_size=64, bits=4)
print(words(mx.array([3, 7])).shape)
# (2, 64)

# %% QQLinear
layer = nn.QQLinear(64, 32, mode="nvfp4")
print(layer(mx.ones((1, 64))).shape)
# (1, 32)

# %% quantize
model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8))
nn.quantize(model, group_size=64, bits=4)
print(type(model.layers[0]).__name__)
# QuantizedLinear

# %% Conv1d
print(nn.Conv1d(3, 8, kernel_size=5, padding=2)(mx.ones((1, 20, 3))).shape)
# (1, 20, 8)

# %% Conv2d
print(nn.Conv2d(3, 8, kernel_size=3, stride=2)(mx.ones((1, 9, 9, 3))).shape)
# (1, 4, 4, 8)

# %% Conv3d
print(nn.Conv3d(1, 2, kernel_size=3)(mx.ones((1, 5, 5, 5, 1))).shape)
# (1, 3, 3, 3, 2)

# %% ConvTranspose1d
print(nn.ConvTranspose1d(3, 8, kernel_size=2, stride=2)(mx.ones((1, 10, 3))).shape)
# (1, 20, 8)

# %% ConvTranspose2d
print(nn.ConvTranspose2d(3, 8, kernel_size=2, stride=2)(mx.ones((1, 5, 5, 3))).shape)
# (1, 10, 10, 8)

# %% ConvTranspose3d
print(nn.ConvTranspose3d(1, 2, kernel_size=2, stride=2)(mx.ones((1, 3, 3, 3, 1))).shape)
# (1, 6, 6, 6, 2)

# %% MaxPool1d
print(nn.MaxPool1d(2)(mx.arange(4.0).reshape(1, 4, 1)).squeeze())
# array([1, 3], dtype=float32)

# %% MaxPool2d
print(nn.MaxPool2d(2)(mx.arange(16.0).reshape(1, 4, 4, 1)).squeeze().tolist())
# [[5.0, 7.0], [13.0, 15.0]]

# %% MaxPool3d
print(nn.MaxPool3d(2)(mx.ones((1, 4, 4, 4, 1))).shape)
# (1, 2, 2, 2, 1)

# %% AvgPool1d
print(nn.AvgPool1d(2)(mx.arange(4.0).reshape(1, 4, 1)).squeeze())
# array([0.5, 2.5], dtype=float32)

# %% AvgPool2d
print(nn.AvgPool2d(2)(mx.arange(16.0).reshape(1, 4, 4, 1)).squeeze().tolist())
# [[2.5, 4.5], [10.5, 12.5]]

# %% AvgPool3d
print(nn.AvgPool3d(2)(mx.ones((1, 4, 4, 4, 1))).shape)
# (1, 2, 2, 2, 1)

# %% Upsample
print(nn.Upsample(2)(mx.array([1.0, 2.0]).reshape(1, 2, 1)).squeeze())
# array([1, 1, 2, 2], dtype=float32)

# %% BatchNorm
layer = nn.BatchNorm(2)
print(layer(mx.array([[1.0, 10.0], [3.0, 30.0]])).round(2).tolist())
# [[-1.0, -1.0], [1.0, 1.0]]

# %% LayerNorm
print(nn.LayerNorm(3)(mx.array([1.0, 2.0, 3.0])))
# array([-1.22474, 0, 1.22474], dtype=float32)

# %% RMSNorm
print(nn.RMSNorm(2)(mx.array([3.0, 4.0])))
# array([0.848528, 1.13137], dtype=float32)

# %% GroupNorm
print(nn.GroupNorm(2, 4)(mx.ones((1, 5, 5, 4))).shape)
# (1, 5, 5, 4)

# %% InstanceNorm
print(nn.InstanceNorm(4)(mx.ones((1, 5, 5, 4))).shape)
# (1, 5, 5, 4)

# %% Dropout
layer = nn.Dropout(0.5)
layer.eval()  # nothing is dropped outside of training
print(layer(mx.ones(3)))
# array([1, 1, 1], dtype=float32)

# %% Dropout2d
print(nn.Dropout2d(0.5)(mx.ones((2, 4, 4, 8))).shape)
# (2, 4, 4, 8)

# %% Dropout3d
print(nn.Dropout3d(0.5)(mx.ones((2, 4, 4, 4, 8))).shape)
# (2, 4, 4, 4, 8)

# %% RNN
hidden = nn.RNN(4, 8)(mx.ones((2, 10, 4)))  # batch, steps, features
print(hidden.shape)
# (2, 10, 8)

# %% GRU
hidden = nn.GRU(4, 8)(mx.ones((2, 10, 4)))
print(hidden.shape)
# (2, 10, 8)

# %% LSTM
hidden, cell = nn.LSTM(4, 8)(mx.ones((2, 10, 4)))
print(hidden.shape, cell.shape)
# (2, 10, 8) (2, 10, 8)

# %% MultiHeadAttention
x = mx.ones((2, 10, 16))
print(nn.MultiHeadAttention(16, 4)(x, x, x).shape)
# (2, 10, 16)

# %% Transformer
model = nn.Transformer(16, num_heads=2, num_encoder_layers=1, num_decoder_layers=1, mlp_dims=32)
print(model(mx.ones((1, 5, 16)), mx.ones((1, 3, 16)), None, None, None).shape)
# (1, 3, 16)

# %% TransformerEncoder
model = nn.TransformerEncoder(2, 16, 4)
print(model(mx.ones((1, 5, 16)), None).shape)
# (1, 5, 16)

# %% TransformerEncoderLayer
layer = nn.TransformerEncoderLayer(16, 4)
print(layer(mx.ones((1, 5, 16)), None).shape)
# (1, 5, 16)

# %% TransformerDecoder
model = nn.TransformerDecoder(2, 16, 4)
print(model(mx.ones((1, 3, 16)), mx.ones((1, 5, 16)), None, None).shape)
# (1, 3, 16)

# %% TransformerDecoderLayer
layer = nn.TransformerDecoderLayer(16, 4)
print(layer(mx.ones((1, 3, 16)), mx.ones((1, 5, 16)), None, None).shape)
# (1, 3, 16)

# %% RoPE
print(nn.RoPE(8)(mx.ones((1, 2, 5, 8)), offset=3).shape)
# (1, 2, 5, 8)

# %% SinusoidalPositionalEncoding
print(nn.SinusoidalPositionalEncoding(8)(mx.arange(5)).shape)
# (5, 8)

# %% ALiBi
scores = mx.zeros((1, 4, 5, 5))  # batch, heads, queries, keys
print(nn.ALiBi()(scores)[0, 0, 0])
# array([0, -0.25, -0.5, -0.75, -1], dtype=float32)

# %% AllToShardedLinear
layer = nn.AllToShardedLinear(16, 8)  # each rank computes its part of the 8 features
print(layer(mx.ones((2, 16))).shape)
# (2, 8)

# %% ShardedToAllLinear
layer = nn.ShardedToAllLinear(16, 8)  # each rank holds its part of the 16 features
print(layer(mx.ones((2, 16))).shape)
# (2, 8)

# %% QuantizedAllToShardedLinear
layer = nn.QuantizedAllToShardedLinear(64, 8)
print(layer(mx.ones((2, 64))).shape)
# (2, 8)

# %% QuantizedShardedToAllLinear
layer = nn.QuantizedShardedToAllLinear(64, 8)
print(layer(mx.ones((2, 64))).shape)
# (2, 8)

# %% average_gradients
gradients = {"weight": mx.array([1.0, 2.0])}
print(nn.average_gradients(gradients)["weight"])
# array([1, 2], dtype=float32)

# %% fully_shard
model = nn.fully_shard(nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 2)))
print(model(mx.ones((3, 4))).shape)
# (3, 2)

# %% FullyShardedModule
model = nn.fully_shard(nn.Linear(4, 8))
print(isinstance(model, nn.FullyShardedModule))
# False
