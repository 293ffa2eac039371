"""Roles of ops that are sums of products: each has builders of loop nests of its own."""
