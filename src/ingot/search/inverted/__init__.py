"""Inverted files: vectors in lists by their nearest centroid, as they are or as codes."""
