"""Indexing: gathers, scatters and subscripts."""
