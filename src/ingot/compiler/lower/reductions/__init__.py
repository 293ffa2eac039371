"""Loop nests of reductions: by rows, by columns, and split into partial results."""
