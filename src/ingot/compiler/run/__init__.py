"""Programs: what evaluating the result of a compiled function runs."""
