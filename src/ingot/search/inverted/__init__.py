"""Inverted files: vectors in lists by their nearest centroid, uncompressed or as codes."""
