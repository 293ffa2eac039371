"""Reports of what compilation made of a function: text, a page, and drawings of graphs."""
