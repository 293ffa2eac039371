"""From MLX's primitives to arrays: what each of them computes, in terms of ingot's functions."""
