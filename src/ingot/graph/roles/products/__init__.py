"""Roles of ops that are sums of products: each has its own builders of loop nests."""
