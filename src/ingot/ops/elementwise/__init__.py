"""Elementwise ops: arithmetic, comparisons, functions of one number, casts."""
