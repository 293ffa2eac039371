"""What the command `mlx.launch` imports: `mlx._distributed_utils`."""
