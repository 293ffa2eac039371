"""Programs: what evaluation runs of a compiled function."""
