"""The ops: their classes with all rules, and the functions that users call."""
