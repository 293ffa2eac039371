"""The compiler: one module a stage, in run order: trace, simplify, fuse, program."""
