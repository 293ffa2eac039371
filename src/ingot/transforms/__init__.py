"""Function transforms: rewrites of graphs by the ops' own rules, which compose in any order."""
