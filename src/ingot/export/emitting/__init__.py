"""From ingot's ops to MLX's primitives: what each op is in a file."""
