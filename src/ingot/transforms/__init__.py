"""Function transforms: graph rewrites by the rules of each op, which compose in any order."""
