"""Convolutions as loop nests: register tiles over windows of the input."""
