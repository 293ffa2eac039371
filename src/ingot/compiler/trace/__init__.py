"""From a Python function to a tape: placeholders, what they are found in, and what was read."""
