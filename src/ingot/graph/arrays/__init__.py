"""Arrays as Python values: construction, conversion, printing and exchange with other libraries."""
