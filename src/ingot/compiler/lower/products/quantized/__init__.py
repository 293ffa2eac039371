"""Products with quantised matrices, whose codes are unpacked in registers."""
