"""Quantised matrices: their formats and their products."""
