"""`ingot.profile()`: what is measured while one runs, and how it is printed and written."""
