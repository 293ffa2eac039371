"""What every layer above builds on: dtypes, shapes, nodes, ops and their roles."""
