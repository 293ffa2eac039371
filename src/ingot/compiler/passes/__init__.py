"""From tape to schedule: one module a pass."""
