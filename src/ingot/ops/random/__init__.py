"""Random numbers, bit for bit as MLX has them."""
