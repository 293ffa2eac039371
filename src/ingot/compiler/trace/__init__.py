"""From a Python function to a tape: placeholders, the structure of arguments, and guards on what
was read.
"""
