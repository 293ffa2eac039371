"""Planning: the address and lifetime of every value."""
