"""Function transforms: rewrites of graphs by the ops' own rules. Any transform of any transform works."""
