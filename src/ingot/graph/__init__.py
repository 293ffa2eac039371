"""The vocabulary of the whole package: dtypes, shapes, nodes, ops and their roles."""
