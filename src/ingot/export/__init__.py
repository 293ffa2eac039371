"""Functions in files: traced graphs in MLX's `.mlxfn` format, written and read.

`format` is the layout of a file, `states` what each primitive stores, `building/` makes arrays of
primitives, `emitting/` makes primitives of ops, `functions` is what users call.
docs/internals/export.md describes the format.
"""
