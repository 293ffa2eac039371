"""Arrays as Python values: how they are made, converted, printed and handed to other libraries."""
