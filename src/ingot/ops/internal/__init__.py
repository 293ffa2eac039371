"""Ops and evaluation code that other ops are built on; not public."""
