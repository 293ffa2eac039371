"""Reductions, scans, sorts and what is made of them."""
