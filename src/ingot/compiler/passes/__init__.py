"""From tape to schedule: one module per pass."""
