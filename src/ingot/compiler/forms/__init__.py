"""The forms of a program between trace and machine code."""
