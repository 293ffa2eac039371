"""`ingot.profile()`: measurement, tables and trace files."""
