"""The forms that a program takes between a trace and machine code."""
