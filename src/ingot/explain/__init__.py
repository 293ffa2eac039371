"""Reports of how a function was compiled: text, an HTML page, and drawings of graphs."""
