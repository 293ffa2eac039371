"""Products as loop nests: register tiles over operands that are packed or read in place."""
