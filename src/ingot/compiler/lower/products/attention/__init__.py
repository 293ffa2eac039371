"""Attention as loop nests that keep the scores of a block of queries and keys in the cache."""
